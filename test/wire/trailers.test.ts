/** Trailer fields of responses over HTTP/1 (RFC 9112 §7.1.2): which clients get them. */

import { expect, it } from 'vitest';
import { openListener } from '../support/proxies/open-listener.ts';

const trailers = [
  ['x-sum', '1'],
  ['content-length', '9'],
  ['set-cookie', 'a=b'],
  ['x-more', 'two'],
] as const;

it.each<[string, string, number | undefined, string]>([
  [
    'TE: trailers',
    'HTTP/1.1\r\nHost: a\r\nTE: trailers',
    undefined,
    '4\r\nbody\r\n0\r\nX-Sum: 1\r\nX-More: two\r\n\r\n',
  ],
  [
    'TE: trailers among other codings',
    'HTTP/1.1\r\nHost: a\r\nTE: deflate;q=0.5, Trailers',
    undefined,
    '4\r\nbody\r\n0\r\nX-Sum: 1\r\nX-More: two\r\n\r\n',
  ],
  ['no TE', 'HTTP/1.1\r\nHost: a', undefined, '4\r\nbody\r\n0\r\n\r\n'],
  ['TE: trailers, where the length is known', 'HTTP/1.1\r\nHost: a\r\nTE: trailers', 4, 'body'],
  ['TE: trailers in HTTP/1.0', 'HTTP/1.0\r\nTE: trailers', undefined, 'body'],
])('answers a request with trailers, or without: %s', async (_name, head, sizeBytes, content) => {
  await using listener = await openListener(() => ({
    status: 200,
    fields: [],
    closeConnection: true,
    body: {
      kind: 'stream',
      sizeBytes,
      stream: {
        trailers: () => trailers,
        close: () => {},
        async *[Symbol.asyncIterator]() {
          yield Buffer.from('body');
        },
      },
    },
  }));
  await using client = await listener.connect();
  client.send(`GET / ${head}\r\n\r\n`);
  expect((await client.head())?.status).toBe(200);
  expect(await client.rest()).toBe(content);
});
