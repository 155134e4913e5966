/** Which requests of HTTP/1.0 and HTTP/1.1 keep their connection open (RFC 9112 §9.3). */

import { describe, expect, it } from 'vitest';
import { rawValues } from '../support/clients/raw-client.ts';
import { openListener, textResponse } from '../support/proxies/open-listener.ts';

type Row = readonly [head: string, connection: 'keep-alive' | 'close'];

const rows: readonly Row[] = [
  ['GET / HTTP/1.0\r\n', 'close'],
  ['GET / HTTP/1.0\r\nConnection: keep-alive\r\n', 'keep-alive'],
  ['GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n', 'keep-alive'],
  ['GET / HTTP/1.0\r\nConnection: x, keep-alive\r\n', 'keep-alive'],
  ['GET / HTTP/1.0\r\nConnection: x\r\nConnection: keep-alive\r\n', 'keep-alive'],
  ['GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n', 'close'],
  ['GET / HTTP/1.0\r\nConnection: close\r\n', 'close'],
  ['GET / HTTP/1.0\r\nConnection: keep-alivex\r\n', 'close'],
  ['GET / HTTP/1.0\r\nKeep-Alive: timeout=5\r\n', 'close'],
  ['HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n', 'keep-alive'],
  ['POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n', 'keep-alive'],
  ['GET / HTTP/1.1\r\nHost: a\r\n', 'keep-alive'],
  ['GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\n', 'keep-alive'],
  ['GET / HTTP/1.1\r\nHost: a\r\nConnection: close, x\r\n', 'close'],
  ['GET / HTTP/1.1\r\nHost: a\r\nConnection: Close\r\n', 'close'],
  ['GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n', 'close'],
  ['GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close\r\n', 'close'],
  ['GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n', 'keep-alive'],
];

describe('a connection', () => {
  it.each(rows)('after %j: %s', async (head, connection) => {
    await using listener = await openListener(() => textResponse('x'));
    await using client = await listener.connect();
    client.send(`${head}\r\nGET /next HTTP/1.0\r\n\r\nGET /never HTTP/1.0\r\n\r\n`);
    const response = await client.response(head.slice(0, head.indexOf(' ')));
    expect(response?.status).toBe(200);
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual([connection]);
    expect(rawValues(response ?? { lines: [] }, 'content-length')).toEqual(['1']);
    if (connection === 'keep-alive') expect((await client.response())?.body.toString()).toBe('x');
    expect(await client.rest()).toBe('');
    const next = connection === 'keep-alive' ? ['/next'] : [];
    expect(listener.requests.map(({ target }) => target)).toEqual(['/', ...next]);
  });
});
