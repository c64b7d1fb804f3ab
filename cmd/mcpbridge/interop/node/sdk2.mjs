// The client of @modelcontextprotocol/client 2.x, in each of its modes: with a
// handshake, probing first, and without a handshake only.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const modern = '2026-07-28';

export const modes = [
  { name: 'sdk2 legacy', version: '2025-11-25', mode: 'legacy' },
  { name: 'sdk2 auto', version: modern, mode: 'auto' },
  { name: 'sdk2 modern', version: modern, mode: { pin: modern } }
];

export async function connect(mode, command, answers) {
  const client = new Client(
    { name: 'interop', version: '1' },
    { capabilities: { elicitation: { form: {} }, sampling: {} }, versionNegotiation: { mode: mode.mode } }
  );
  client.setRequestHandler('elicitation/create', async (request) => answers.elicit(request));
  client.setRequestHandler('sampling/createMessage', async (request) => answers.sample(request));
  await client.connect(new StdioClientTransport(command));
  return {
    client,
    mode,
    version: () => client.getNegotiatedProtocolVersion(),
    call: (name, args = {}, options) => client.callTool({ name, arguments: args }, options)
  };
}
