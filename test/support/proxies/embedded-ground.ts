/** Embedded Rangeways, servers around them and origins, which all end with their test. */

import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { Http2Server } from 'node:http2';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { afterEach } from 'vitest';
import { createRangeway, type Rangeway } from '../../../src/index.ts';
import { patternBytes } from '../values/pattern-body.ts';

/** The size of the body of `openOrigin`, in bytes. */
export const size = 300_000;
/** The body of `openOrigin`. */
export const whole = Buffer.from(patternBytes(0, size));
let opened = new AsyncDisposableStack();

afterEach(async () => {
  const ended = opened;
  opened = new AsyncDisposableStack();
  await ended.disposeAsync();
});

/** Calls a function after the test, before those of earlier calls. */
export function atEnd(end: () => void | Promise<void>): void {
  opened.defer(end);
}

/** Listens on a free port until the test ends, and returns the URL, with the scheme http. */
export async function listening(server: NetServer | Http2Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  atEnd(() => {
    if ('closeAllConnections' in server) (server as Server).closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An origin without ranges. */
export interface CountedOrigin {
  readonly url: string;
  /** Method and target of each request. */
  readonly asked: readonly string[];
  /** Resolves when the exchange for `/endless` is over. */
  readonly left: Promise<void>;
}

/** Starts an origin without ranges that counts its requests. */
export async function openOrigin(): Promise<CountedOrigin> {
  const asked: string[] = [];
  const { promise: left, resolve } = Promise.withResolvers<void>();
  const url = await listening(
    createServer(async (incoming, response) => {
      asked.push(`${incoming.method} ${incoming.url}`);
      if (incoming.method === 'POST') {
        const chunks: Buffer[] = [];
        for await (const chunk of incoming) chunks.push(chunk);
        response.end(Buffer.concat(chunks));
      } else if (incoming.url === '/redirect') {
        response.writeHead(302, { location: '/file' }).end();
      } else if (incoming.url === '/hints') {
        response.writeEarlyHints({ link: '</a.css>; rel=preload' });
        response.end('hinted');
      } else if (incoming.url === '/endless') {
        response.once('close', resolve);
        response.writeHead(200, { 'cache-control': 'no-store' });
        response.write(whole);
      } else {
        response.writeHead(200, { 'cache-control': 'max-age=60', etag: '"v1"', 'content-length': size });
        response.end(whole);
      }
    }),
  );
  return { url, asked, left };
}

/** Creates a Rangeway that is closed after the test. */
export async function open(...options: Parameters<typeof createRangeway>): Promise<Rangeway> {
  const rangeway = await createRangeway(...options);
  atEnd(() => rangeway.close({ graceMs: 0 }));
  return rangeway;
}

/** Starts a server of `node:http`, and returns its URL. */
export function serve(listener: RequestListener): Promise<string> {
  return listening(createServer(listener));
}
