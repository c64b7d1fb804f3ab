// run.mjs BINARY: every client in every mode against every upstream. Each check
// prints "ok NAME" or "not ok NAME" with the reason; the exit code is 1 if any
// was not ok.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { run, within } from './checks.mjs';
import { everythingChecks } from './everything-checks.mjs';
import * as sdk1 from './sdk1.mjs';
import * as sdk2 from './sdk2.mjs';
import { upstreamChecks } from './upstream-checks.mjs';

const START = 20_000; // milliseconds until a server has to print its URL

const binary = process.argv[2];
const scratch = mkdtempSync(join(tmpdir(), 'mcpbridge-interop-'));
const servers = [];

// serve starts a server whose first line of output is its URL.
async function serve(command, ...args) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  servers.push(child);
  const lines = createInterface({ input: child.stdout });
  const url = new Promise((resolve, reject) => {
    lines.on('line', (line) => line.startsWith('http') && resolve(line));
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`${command} ${args.join(' ')} ended with ${code}`)));
  });
  return within(START, url);
}

// start is how a host starts the bridge, with a state directory of its own.
function start(url) {
  const home = mkdtempSync(join(scratch, 'home-'));
  return { command: binary, args: ['--state-dir', join(home, 'state'), url], env: { HOME: home, PATH: process.env.PATH } };
}

function answers(asked) {
  return {
    elicit() {
      asked.elicitations++;
      return { action: 'accept', content: { name: 'octocat', check: true } };
    },
    sample() {
      asked.samples++;
      return { model: 'none', role: 'assistant', content: { type: 'text', text: 'as sampled' } };
    }
  };
}

async function pair(sdk, mode, upstream) {
  const asked = { elicitations: 0, samples: 0 };
  const prefix = `${mode.name} to ${upstream.name}`;
  let host;
  let failed = await run(prefix, [
    ['connect', async () => {
      host = await sdk.connect(mode, start(upstream.url), answers(asked));
      assert.equal(host.version(), mode.version);
    }]
  ]);
  if (host) {
    failed += await run(prefix, upstream.checks(host, asked));
    failed += await run(prefix, [['close', () => host.client.close()]]);
  }
  return failed;
}

let failed = 0;
try {
  const everything = await serve(process.execPath, fileURLToPath(new URL('everything.mjs', import.meta.url)));
  const upstreams = [{ name: 'everything', url: everything, checks: everythingChecks }];
  for (const era of ['legacy', 'modern', 'both', 'sse']) {
    const url = await serve(binary, 'upstream', '--era', era);
    upstreams.push({ name: `upstream ${era}`, url, checks: (host) => upstreamChecks(host, url) });
  }
  for (const sdk of [sdk1, sdk2]) {
    for (const mode of sdk.modes) {
      for (const upstream of upstreams) failed += await pair(sdk, mode, upstream);
    }
  }
} finally {
  for (const server of servers) server.kill();
  rmSync(scratch, { recursive: true, force: true });
}
console.log(failed ? `${failed} not ok` : 'all ok');
process.exit(failed ? 1 : 0);
