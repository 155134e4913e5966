/** A value of a request that outlives the request must not keep the whole head in memory. */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { ownText } from '../../src/bytes/own-memory.ts';
import { openPlainOrigin, openReloadedServer } from '../support/processes/reloaded-server.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const heldBytes = (): number => {
  collect();
  return process.memoryUsage().heapUsed;
};

const padding = 'p'.repeat(60_000);

describe('a stored response', () => {
  it.each([
    ['a field that its Vary names', 'X-Device', {}],
    ['a field that the cache key selects', 'X-Kind', { key: { fields: ['X-Kind'] } }],
  ])('keeps of its request head no more than %s', async (_name, field, cache) => {
    await using origin = await openPlainOrigin((_request, response) => {
      response.setHeader('cache-control', 'max-age=600').setHeader('vary', 'X-Device').end('a');
    });
    await using reloaded = await openReloadedServer({
      listen: '127.0.0.1:0',
      limits: { fieldsBytes: 65_536 },
      routes: [{ origin: origin.url, cache, fields: { toOrigin: { remove: ['X-Padding'] } } }],
    });
    await using client = await reloaded.connect();
    const store = async (from: number, to: number): Promise<void> => {
      for (let index = from; index < to; index += 1) {
        const lines = `${field}: kind=that of number ${index}\r\nX-Padding: ${padding}\r\n`;
        client.send(`GET /${index} HTTP/1.1\r\nHost: a\r\n${lines}\r\n`);
        expect((await client.response('GET'))?.status).toBe(200);
      }
    };
    await store(0, 20);
    const before = heldBytes();
    await store(20, 220);
    expect(reloaded.server.store.readUsage().entryCount).toBe(220);
    expect(heldBytes() - before).toBeLessThan((200 * padding.length) / 2);
  });
});

describe('ownText returns the same text for', () => {
  it.each(['', 'a', 'a text of some length', 'ä', '€ and more than a few', '\ud800 alone', '"\\\u0000\n'])(
    '%j',
    (text) => {
      expect(ownText(text)).toBe(text);
    },
  );
});
