// Running checks and saying how they ended.
import assert from 'node:assert/strict';

const LIMIT = 20_000; // milliseconds that one check may take

// run runs the checks, [name, function] each, one after the other; it returns
// how many failed.
export async function run(prefix, checks) {
  let failed = 0;
  for (const [name, check] of checks) {
    try {
      await within(LIMIT, check());
      console.log(`ok ${prefix}: ${name}`);
    } catch (error) {
      failed++;
      console.log(`not ok ${prefix}: ${name}\n    ${String(error?.message ?? error).replaceAll('\n', '\n    ')}`);
    }
  }
  return failed;
}

export async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// includes asserts that all of wanted is among got.
export function includes(got, ...wanted) {
  for (const one of wanted) assert.ok(got.includes(one), `${one} is not among ${got.join(', ')}`);
}

export const names = (list) => list.map((one) => one.name);
export const text = (result) => result.content?.[0]?.text;

// pingChecks: 2026-07-28 has no ping, and its clients refuse to send one.
export function pingChecks(client, mode) {
  return mode.version < '2026-07-28' ? [['ping', () => client.ping()]] : [];
}
