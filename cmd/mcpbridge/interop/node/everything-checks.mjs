// What the everything server offers, seen through the bridge.
import assert from 'node:assert/strict';
import { includes, names, pingChecks, text } from './checks.mjs';

const uri = 'demo://resource/dynamic/text/1';

export function everythingChecks({ client, call, mode }, asked) {
  return [
    ['server', async () => assert.equal(client.getServerVersion().name, 'mcp-servers/everything')],
    ...pingChecks(client, mode),
    ['tools', async () => {
      const listed = names((await client.listTools()).tools);
      includes(listed, 'echo', 'get-sum', 'trigger-long-running-operation', 'trigger-elicitation-request');
      assert.equal(new Set(listed).size, listed.length, 'a tool is listed twice');
    }],
    ['call', async () => assert.equal(text(await call('echo', { message: 'grüezi \u2028' })), 'Echo: grüezi \u2028')],
    ['numbers', async () => assert.equal(text(await call('get-sum', { a: 2, b: 3 })), 'The sum of 2 and 3 is 5.')],
    ['structured content', async () => {
      const { structuredContent } = await call('get-structured-content', { location: 'Chicago' });
      assert.equal(structuredContent.temperature, 36);
    }],
    ['error of a tool', async () => assert.equal((await call('get-sum', { a: 'two', b: 3 })).isError, true)],
    ['unknown tool', async () => {
      const result = await call('no-such-tool').catch((error) => ({ isError: true, content: [{ text: error.message }] }));
      assert.equal(result.isError, true);
      assert.match(text(result), /no-such-tool/);
    }],
    ['image', async () => includes((await call('get-tiny-image')).content.map((block) => block.type), 'image')],
    ['progress', async () => {
      const seen = [];
      await call('trigger-long-running-operation', { duration: 0.4, steps: 2 }, { onprogress: ({ progress, total }) => seen.push([progress, total]) });
      assert.deepEqual(seen[0], [1, 2]); // the SDKs lose one that comes together with the result
    }],
    ['cancellation', async () => {
      const stop = new AbortController();
      const options = { signal: stop.signal, onprogress: () => stop.abort('enough') };
      await assert.rejects(call('trigger-long-running-operation', { duration: 60, steps: 600 }, options));
      assert.equal(text(await call('echo', { message: 'still here' })), 'Echo: still here');
    }],
    ['resources', async () => {
      assert.ok((await client.listResources()).resources.length > 0);
      assert.equal((await client.readResource({ uri })).contents[0].uri, uri);
    }],
    ['templates', async () => {
      const { resourceTemplates } = await client.listResourceTemplates();
      includes(resourceTemplates.map((one) => one.uriTemplate), 'demo://resource/dynamic/text/{resourceId}');
    }],
    ['prompts', async () => {
      includes(names((await client.listPrompts()).prompts), 'completable-prompt');
      const prompt = await client.getPrompt({ name: 'completable-prompt', arguments: { department: 'Sales', name: 'Eve' } });
      assert.match(prompt.messages[0].content.text, /Eve to the head of the Sales team/);
    }],
    ['completion', async () => {
      const ref = { type: 'ref/prompt', name: 'completable-prompt' };
      const { completion } = await client.complete({ ref, argument: { name: 'department', value: 'S' } });
      assert.deepEqual(completion.values, ['Sales', 'Support']);
    }],
    ['elicitation', async () => {
      const result = await call('trigger-elicitation-request');
      assert.equal(asked.elicitations, 1);
      assert.match(JSON.stringify(result.content), /octocat/);
    }],
    ['sampling', async () => {
      const result = await call('trigger-sampling-request', { prompt: 'say it', maxTokens: 10 });
      assert.equal(asked.samples, 1);
      assert.match(JSON.stringify(result.content), /as sampled/);
    }]
  ];
}
