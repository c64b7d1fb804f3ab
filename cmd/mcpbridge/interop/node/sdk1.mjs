// The client of @modelcontextprotocol/sdk 1.x, which speaks revisions with a
// handshake.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

export const modes = [{ name: 'sdk1', version: '2025-11-25' }];

export async function connect(mode, command, answers) {
  const client = new Client({ name: 'interop', version: '1' }, { capabilities: { elicitation: { form: {} }, sampling: {} } });
  client.setRequestHandler(ElicitRequestSchema, async (request) => answers.elicit(request));
  client.setRequestHandler(CreateMessageRequestSchema, async (request) => answers.sample(request));
  await client.connect(new StdioClientTransport(command));
  return {
    client,
    mode,
    version: () => mode.version, // it keeps what was agreed to itself
    call: (name, args = {}, options) => client.callTool({ name, arguments: args }, undefined, options)
  };
}
