// Starts the everything server over Streamable HTTP, on a free port of loopback
// alone, and prints its URL. The server itself would listen on every interface.
import { Server } from 'node:net';

const listen = Server.prototype.listen;
Server.prototype.listen = function (_port, ...rest) {
  this.once('listening', () => console.log(`http://127.0.0.1:${this.address().port}/mcp`));
  return listen.call(this, { port: 0, host: '127.0.0.1' }, ...rest);
};

process.argv[2] = 'streamableHttp';
await import('@modelcontextprotocol/server-everything/dist/index.js');
