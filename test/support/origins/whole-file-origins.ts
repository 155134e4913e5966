/** Origins that send whole files only. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream';

/** A running origin. */
export interface WholeFileOrigin {
  readonly url: string;
  close(): Promise<void>;
}

/** Starts Python's file server: HTTP/1.0, Content-Length, Last-Modified, no ranges. */
export async function openPythonOrigin(dir: string): Promise<WholeFileOrigin> {
  const args = ['-u', '-m', 'http.server', '0', '--bind', '127.0.0.1', '--directory', dir];
  const server = spawn('python3', args, { stdio: ['ignore', 'pipe', 'ignore'] });
  const exited = once(server, 'exit');
  let url: string | undefined;
  for await (const line of createInterface({ input: server.stdout })) {
    url = /\((http:\/\/127\.0\.0\.1:\d+)\/\)/.exec(line)?.[1];
    if (url !== undefined) break;
  }
  if (url === undefined) throw new Error("Python's file server has ended before it listened.");
  return {
    url,
    async close() {
      server.kill('SIGKILL');
      await exited;
    },
  };
}

/** Opens a server that sends files in chunks: no length, no validator, no ranges. */
export async function openChunkedOrigin(dir: string): Promise<WholeFileOrigin> {
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    if (request.method === 'HEAD') response.end();
    // Ignores clients that disconnect early. No test requests a file that does not exist.
    else pipeline(createReadStream(join(dir, request.url ?? '')), response, () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The two origins, with names for tests. */
export const wholeFileOrigins = [
  { name: 'python3 -m http.server', programs: ['python3'], open: openPythonOrigin },
  { name: 'a chunked origin without validators', programs: [], open: openChunkedOrigin },
] as const;
