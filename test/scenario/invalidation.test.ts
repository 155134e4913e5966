/** Invalidation by unsafe methods while a fill runs (RFC 9111 §4.4), and which of two fills is kept. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { turn } from '../support/clocks/turn.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { createSteeredStore, type SteeredStore } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const body = patternBytes(0, 3000);
const fresh = { 'cache-control': 'max-age=100', etag: '"v1"' };

let store: SteeredStore;
let proxy: WholeProxy;
beforeEach(() => {
  store = createSteeredStore();
  proxy = createWholeProxy({ createStore: () => store });
});
afterEach(async () => {
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
  expect(store.held).toBe(0);
});

async function put() {
  const client = proxy.send({ method: 'PUT' });
  (await proxy.origin.next()).respond({ status: 204 }, new Uint8Array());
  await client.bytes();
}

async function expectMiss() {
  const client = proxy.send();
  (await proxy.origin.next()).respond({ fields: { ...fresh, etag: '"v2"' } }, body);
  expect(await client.field('etag')).toBe('"v2"');
  await client.bytes();
}

describe('an invalidation', () => {
  it.each(['openWriter', 'writeBlock', 'commit'] as const)(
    'keeps a response out of the store that is at %s then',
    async (step) => {
      const held = store.hold(step);
      const reading = proxy.send();
      (await proxy.origin.next()).respond({ fields: fresh }, body);
      await held.reached;
      const answered = put();
      await turn();
      held.release();
      await answered;
      expect(await reading.bytes()).toEqual(Buffer.from(body));
      await proxy.fillsEnded(1);
      expect(proxy.fillEvents()[0]).toMatchObject({ result: 'relayed' });
      await expectMiss();
      await proxy.fillsEnded(2);
    },
  );

  it('is not answered before a response that it forbids, and that was being stored, can be found no more', async () => {
    const commit = store.hold('commit');
    const committed = store.hold('committed');
    const reading = proxy.send();
    // Of at most one block: it has no row before its commit, which the removal could have deleted.
    const small = body.subarray(0, 1000);
    (await proxy.origin.next()).respond({ fields: fresh }, small);
    await commit.reached;
    let isAnswered = false;
    const answered = put().then(() => {
      isAnswered = true;
    });
    await turn();
    commit.release();
    await committed.reached;
    await turn();
    const wasAnswered = isAnswered;
    committed.release();
    await answered;
    await reading.bytes();
    await proxy.fillsEnded(1);
    expect(wasAnswered).toBe(false);
    await expectMiss();
    await proxy.fillsEnded(2);
  });

  it('keeps out an empty body whose writer is being opened', async () => {
    const held = store.hold('openWriter');
    const reading = proxy.send();
    (await proxy.origin.next()).respond({ fields: fresh }, new Uint8Array());
    await held.reached;
    await put();
    held.release();
    expect(await reading.bytes()).toHaveLength(0);
    await proxy.fillsEnded(1);
    await expectMiss();
    await proxy.fillsEnded(2);
  });

  it('keeps a refetch of the same bytes out of the store', async () => {
    const first = proxy.send();
    (await proxy.origin.next()).respond({ fields: {} }, body);
    await first.bytes();
    await proxy.fillsEnded(1);
    const again = proxy.send();
    const exchange = await proxy.origin.next();
    exchange.head({ fields: {} });
    await exchange.send(body);
    await put();
    exchange.end();
    expect(await again.bytes()).toEqual(Buffer.from(body));
    await proxy.fillsEnded(2);
    const range = proxy.send({ fields: { range: 'bytes=0-9' } });
    (await proxy.origin.next()).respond({ fields: {} }, body);
    expect(await range.status()).toBe(206);
    await proxy.fillsEnded(3);
  });
});

describe('a method that changes a collection and all below it (RFC 4918 §9)', () => {
  const members = ['/c/f', '/c/sub/g?q', '/c%2Fx/../c/h'];

  async function storeAll(targets: readonly string[]) {
    for (const target of targets) {
      const reading = proxy.send({ target });
      (await proxy.origin.next()).respond({ fields: fresh }, body);
      await reading.bytes();
    }
    await proxy.fillsEnded(targets.length);
  }

  async function expectFound(target: string, isFound: boolean) {
    const client = proxy.send({ target, fields: { 'cache-control': 'only-if-cached' } });
    expect(await client.status(), target).toBe(isFound ? 200 : 504);
    await client.bytes();
  }

  it.each([
    ['DELETE', '/c/', {}, members],
    ['MOVE', '/c/', { destination: '/d/' }, [...members, '/d/old']],
    ['MOVE', '/c', { destination: '/d?x' }, [...members, '/d/old']],
    ['COPY', '/e/', { destination: '/d/' }, ['/d/old']],
    ['DELETE', '/d', {}, []],
  ] as const)('%s %s %j leaves nothing stored of what it has changed', async (method, target, fields, removed) => {
    const all = [...members, '/d/old', '/cc/f', '/c.txt'];
    await storeAll(all);
    const client = proxy.send({ method, target, fields });
    (await proxy.origin.next()).respond({ status: 204 }, new Uint8Array());
    await client.bytes();
    for (const each of all) await expectFound(each, !(removed as readonly string[]).includes(each));
  });

  it('keeps a response out of the store that began before it', async () => {
    const reading = proxy.send({ target: '/c/f' });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: fresh });
    await exchange.send(body);
    const client = proxy.send({ method: 'DELETE', target: '/c/' });
    (await proxy.origin.next()).respond({ status: 204 }, new Uint8Array());
    await client.bytes();
    exchange.end();
    await reading.bytes();
    await proxy.fillsEnded(1);
    await expectFound('/c/f', false);
  });
});

describe('two fills of one variant', () => {
  it('leave the later response in the store, whichever fill ends last (RFC 9111 §4)', async () => {
    const slow = proxy.send();
    const older = await proxy.origin.next();
    older.head({ fields: { ...fresh, 'content-length': '3000' } });
    await older.send(body.subarray(0, 100));
    proxy.clock.advance(1000);
    const reload = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    const newer = patternBytes(0, 3000, 2);
    (await proxy.origin.next()).respond({ fields: { ...fresh, etag: '"v2"' } }, newer);
    expect(await reload.bytes()).toEqual(Buffer.from(newer));
    await proxy.fillsEnded(1);
    void older.send(body.subarray(100));
    older.end();
    expect(await slow.bytes()).toEqual(Buffer.from(body));
    await proxy.fillsEnded(2);
    const client = proxy.send();
    expect(await client.field('etag')).toBe('"v2"');
    expect(await client.bytes()).toEqual(Buffer.from(newer));
  });

  it('are ordered correctly although the clock was set back', async () => {
    const first = proxy.send();
    (await proxy.origin.next()).respond({ fields: fresh }, body);
    await first.bytes();
    await proxy.fillsEnded(1);
    proxy.clock.advance(-3_600_000);
    const reload = proxy.send({ fields: { 'cache-control': 'no-cache' } });
    (await proxy.origin.next()).respond({ fields: { ...fresh, etag: '"v2"' } }, body);
    await reload.bytes();
    await proxy.fillsEnded(2);
    expect(await proxy.send().field('etag')).toBe('"v2"');
  });
});

describe('a stop of the server', () => {
  it('ends a request that waits for the origin, and leaves nothing running', async () => {
    const client = proxy.send();
    const exchange = await proxy.origin.next();
    await proxy.close();
    expect(exchange.request.signal.aborted).toBe(true);
    expect(await client.status()).toBe(499);
  });

  it('waits for a writer that is being opened', async () => {
    const held = store.hold('openWriter');
    const client = proxy.send();
    (await proxy.origin.next()).head({ fields: fresh });
    await held.reached;
    const closing = proxy.close();
    held.release();
    await closing;
    expect(proxy.fillEvents()).toHaveLength(1);
    await client.leave();
  });
});
