/** An origin of whole files that states a lifetime, a validator and a tag: the first folder of the path. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { patternBytes } from '../values/pattern-body.ts';

/** The origin. */
export interface TaggedOrigin extends AsyncDisposable {
  readonly url: string;
}

/** Opens the origin on a free port. A path such as `/films/3000/one` is a file of 3000 bytes with the tag `films`. */
export async function openTaggedOrigin(): Promise<TaggedOrigin> {
  const server = createServer(({ url = '/', headers }, response) => {
    const [, tag, size] = /^\/([a-z]+)\/(\d+)\//.exec(url) ?? [];
    const fields = { 'cache-control': 'max-age=3600', etag: '"v1"', 'content-type': 'video/mp4', 'surrogate-key': tag };
    if (tag === undefined) response.writeHead(404, { 'cache-control': 'no-store' }).end();
    else if (headers['if-none-match'] === '"v1"') response.writeHead(304, fields).end();
    else response.writeHead(200, { ...fields, 'content-length': size }).end(patternBytes(0, Number(size)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
