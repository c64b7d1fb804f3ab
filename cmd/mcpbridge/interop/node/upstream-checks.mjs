// What `mcpbridge upstream` offers, and what its ledger says of it.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { includes, names, pingChecks, text } from './checks.mjs';

export function upstreamChecks({ client, call, mode }, url) {
  const ledger = async () => (await fetch(new URL('/ledger', url))).json();
  return [
    ...pingChecks(client, mode),
    ['tools', async () => includes(names((await client.listTools()).tools), 'echo', 'write_note', 'mcpbridge_job')],
    ['call', async () => assert.equal(text(await call('echo', { text: 'hällo' })), 'hällo')],
    ['pretty-printed answer', async () => assert.equal(text(await call('pretty')), 'line one\nline two')],
    ['line separators', async () => assert.match(text(await call('unicode')), /a\u2028b\u2029c\u0085d/)],
    ['one write, one effect', async () => {
      const key = randomUUID();
      await call('write_note', { key, text: 'once' });
      assert.equal((await ledger()).effects.filter((effect) => effect.key === key).length, 1);
    }],
    ['structured content', async () => {
      assert.deepEqual((await call('structured', { city: 'Bern' })).structuredContent, { city: 'Bern', celsius: 21.5 });
    }],
    ['error of a tool', async () => assert.equal((await call('fail')).isError, true)],
    ['error of the protocol', async () => {
      await assert.rejects(call('rpc_error', { code: -32050, data: { why: 'asked to' } }), (error) => {
        assert.equal(error.code, -32050);
        assert.deepEqual(error.data, { why: 'asked to' });
        return true;
      });
    }],
    ['progress', async () => {
      const seen = [];
      await call('stream', { n: 3, interval: 50 }, { onprogress: ({ progress }) => seen.push(progress) });
      assert.deepEqual(seen, [1, 2, 3]);
    }],
    ['resources', async () => {
      const { contents } = await client.readResource({ uri: 'test://static/readme' });
      assert.equal(contents[0].text, 'this text never changes');
      await assert.rejects(client.readResource({ uri: 'test://nowhere' }));
    }],
    ['prompts', async () => {
      const { messages } = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } });
      assert.equal(messages[0].content.text, 'Greet Ada.');
    }]
  ];
}
