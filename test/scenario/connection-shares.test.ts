/** Clients that wait for a transfer which was begun by a client over its share of the origin connections. */

import { afterEach, describe, expect, it } from 'vitest';
import { ConnectionQueue } from '../../src/origin/connection-queue.ts';
import type { Origin } from '../../src/origin/origin.ts';
import { turn } from '../support/clocks/turn.ts';
import { createFakeOrigin, type FakeOrigin } from '../support/origins/fake-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 8192;
const whole = Buffer.from(patternBytes(0, size));
const fields = { 'cache-control': 'max-age=60', etag: '"v1"', 'accept-ranges': 'bytes' };
const alice = { peer: '192.0.2.1' };
const bob = { peer: '192.0.2.2' };

let proxy: WholeProxy;
let origin: FakeOrigin;
/** Targets of the origin requests, which wait for a connection or have got one. */
let asked: string[];
afterEach(() => proxy.close());

/** Starts a proxy before an origin with two connections, one per client. A connection is free once its response is read. */
function start(): void {
  origin = createFakeOrigin();
  asked = [];
  const queue = new ConnectionQueue({ connections: 2, perClient: () => 1 });
  const shared: Origin = {
    async fetch(request) {
      asked.push(request.target);
      const place = queue.join(request.charged);
      await new Promise<void>((resolve) => place.begin(() => resolve()));
      const response = await origin.fetch(request);
      const { body } = response;
      const close = () => {
        place.leave();
        body.close();
      };
      async function* chunks() {
        yield* body;
        place.leave();
      }
      return { ...response, body: { [Symbol.asyncIterator]: chunks, close } };
    },
    close: () => origin.close(),
  };
  proxy = createWholeProxy({ origin: shared, originRanges: 'always' });
}

/** Occupies the connection of Alice with a request that is not answered. */
async function hold(): Promise<void> {
  proxy.send({ ...alice, target: '/held' });
  await origin.next();
}

async function untilAsked(count: number): Promise<void> {
  while (asked.length < count) await turn();
}

describe('a transfer that a client over its share has begun', () => {
  it('gets a connection when another client waits for its response', async () => {
    start();
    await hold();
    const first = proxy.send({ ...alice, target: '/file' });
    await untilAsked(2);
    expect(origin.requests).toBe(1);
    const second = proxy.send({ ...bob, target: '/file' });
    const exchange = await origin.next();
    exchange.respond({ fields: { ...fields, 'content-length': String(size) } }, whole);
    for (const client of [first, second]) expect(await client.bytes()).toEqual(whole);
    expect(asked).toEqual(['/held', '/file']);
  });

  it('gets a connection when another client reads the same absent bytes', async () => {
    start();
    const part = (from: number) => ({
      status: 206,
      fields: { ...fields, 'content-length': '1024', 'content-range': `bytes ${from}-${from + 1023}/${size}` },
    });
    const known = proxy.send({ ...alice, target: '/file', fields: { range: 'bytes=0-1023' } });
    (await origin.next()).respond(part(0), whole.subarray(0, 1024));
    expect(await known.bytes()).toEqual(whole.subarray(0, 1024));
    await hold();
    const range = { target: '/file', fields: { range: 'bytes=4096-5119' } };
    const first = proxy.send({ ...alice, ...range });
    await untilAsked(3);
    expect(origin.requests).toBe(2);
    const second = proxy.send({ ...bob, ...range });
    (await origin.next()).respond(part(4096), whole.subarray(4096, 5120));
    for (const client of [first, second]) expect(await client.bytes()).toEqual(whole.subarray(4096, 5120));
    expect(asked).toEqual(['/file', '/held', '/file']);
  });
});
