/** A block that its client has read, and that is damaged before a second transfer can be compared with it. */

import { afterEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { createSteeredStore, type SteeredStore } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const blockSizeBytes = 1024;
const head = (etag: string) => ({ fields: { 'cache-control': 'max-age=60', 'content-length': String(size), etag } });
const content = patternBytes(0, size);

let store: SteeredStore;
let proxy: WholeProxy;
afterEach(async () => {
  await proxy.close();
  expect(store.held).toBe(0);
});

/** Lets a client read four blocks of a transfer, which then breaks off, and loses the fourth block. Returns the next exchange. */
async function cutAndLost(etag: string) {
  store = createSteeredStore({ blockSizeBytes });
  proxy = createWholeProxy({ createStore: () => store, blockSizeBytes, fill: { resumeAttempts: 3 } });
  const client = proxy.send();
  const first = await proxy.origin.next();
  first.head(head(etag));
  void first.send(content.slice(0, 4 * blockSizeBytes));
  await client.readUntil(4 * blockSizeBytes);
  first.fail(new ProxyError('origin_reset'));
  store.loseBlock(3);
  await proxy.clock.whenPending(1);
  proxy.clock.advance(100);
  return { client, second: await proxy.origin.next() };
}

describe('a block that was read and is lost, when the whole is fetched again', () => {
  it('is not replaced by other bytes: its client is cut off', async () => {
    const { client, second } = await cutAndLost('W/"v1"');
    const changed = Buffer.concat([content.subarray(0, 3 * blockSizeBytes), patternBytes(3 * blockSizeBytes, size, 2)]);
    second.respond(head('W/"v1"'), changed);
    await expect(client.bytes()).rejects.toMatchObject({ code: 'generation_changed' });
  });

  it.each(['"v1"', 'W/"v1"'])('is replaced by the same bytes, validator %s', async (etag) => {
    const { client, second } = await cutAndLost(etag);
    second.respond(head(etag), content);
    expect(Buffer.compare(await client.bytes(), content)).toBe(0);
  });
});
