/** Serves the built dashboard with invented data, under the same policy as the admin listener does. */

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { type FakeData, FakeServer } from '../../dashboard/dev/fake-server.ts';

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/** A served dashboard. */
export interface FakePage extends AsyncDisposable {
  readonly url: string;
}

/** Serves the files of a directory, and invented data below `/api/v1/`. Without a port it is on a free one. */
export async function openFakePage(directory: string, data: FakeData, port = 0): Promise<FakePage> {
  const fake = new FakeServer(data);
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    if (path.startsWith('/api/v1/')) {
      request.url = path.slice('/api/v1'.length);
      void fake.answer(request, response);
      return;
    }
    const file = path === '/' ? '/index.html' : path;
    readFile(join(directory, file)).then(
      (bytes) => {
        response.writeHead(200, {
          'content-type': types[extname(file)] ?? 'text/plain',
          'content-security-policy': policy,
        });
        response.end(bytes);
      },
      () => response.writeHead(404).end(),
    );
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
