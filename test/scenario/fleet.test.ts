/** Two or three processes over one store: leases, shared answers, and invalidations while transfers run. */

import { afterEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { Sent } from '../support/clients/direct-client.ts';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import {
  type Client,
  createWholeProxy,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { createSteeredStore } from '../support/stores/steered-store.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 10_000;
const whole = patternBytes(0, size);
const none = new Uint8Array();

let proxy: WholeProxy;
let origin: RangeOrigin;
afterEach(async () => {
  await proxy.closeCache();
  await turn();
  expect(proxy.clock.pending).toBe(0);
  expect(proxy.origin.untaken).toBe(0);
  for (const { member } of proxy.processes) expect(member.leaseCount).toBe(0);
  await proxy.close();
});

function begin(options: WholeProxyOptions = {}, file: Parameters<typeof createRangeOrigin>[1] = {}): void {
  proxy = createWholeProxy({ processes: 2, ...options });
  origin = createRangeOrigin(proxy.origin, { sizeBytes: size, ...file });
}

/** Sends a request to one of the processes. */
function send(process: number, sent: Sent = {}): Client {
  const client = proxy.processes[process]?.send(sent);
  if (client === undefined) throw new Error(`there is no process ${process}`);
  return client;
}

const collapsed = () => proxy.requestEvents().map((event) => event.collapsed);
const status = (client: Client) => client.field('cache-status');

describe('a stored response', () => {
  it('is served by every process without asking another process or the origin', async () => {
    begin();
    const first = send(0);
    (await origin.give()).finish();
    await expectWhole(first);
    for (const { member } of proxy.processes) member.isCutOff = true;
    expect(await status(send(1))).toBe('rangeway; hit; ttl=60');
    await expectWhole(send(1));
    expect(proxy.origin.requests).toBe(1);
  });
});

describe('a miss in one process', () => {
  it('is joined by the other processes, whose clients get the bytes of their ranges as they arrive', async () => {
    begin({ processes: 3 });
    const first = send(0);
    const transfer = await origin.begin();
    const second = send(1);
    const part = send(2, { fields: { range: 'bytes=4000-4099' } });
    void transfer.sendTo(3000);
    await expectUntil(first, 3000);
    await expectUntil(second, 3000);
    expect(await part.status()).toBe(206);
    transfer.finish();
    await expectWhole(first);
    await expectWhole(second);
    await expectPart(part, 4000, 4100);
    expect(proxy.origin.requests).toBe(1);
    expect(await status(first)).toBe('rangeway; fwd=uri-miss; fwd-status=200; stored');
    expect(await status(second)).toBe('rangeway; fwd=uri-miss; fwd-status=200; stored; collapsed');
    await turn();
    expect(collapsed().toSorted()).toEqual([false, true, true]);
  });

  it('is joined before its head has arrived, and fails for all clients with the same error', async () => {
    begin();
    const clients = [send(0), send(1)];
    const exchange = await proxy.origin.next();
    await turn();
    exchange.fail(new ProxyError('origin_reset', { detail: 'why' }));
    for (const client of clients) expect(await client.status()).toBe(502);
    for (const client of clients) await client.bytes();
    expect(proxy.requestEvents().map(({ error, errorDetail }) => [error, errorDetail])).toEqual([
      ['origin_reset', 'why'],
      ['origin_reset', 'why'],
    ]);
    expect(proxy.origin.requests).toBe(1);
  });

  it('gives a range in another process its length once it is known', async () => {
    begin();
    const first = send(0);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'cache-control': 'max-age=60', etag: '"v1"' } });
    const tail = send(1, { fields: { range: 'bytes=-100' } });
    const early = send(1, { fields: { range: 'bytes=0-99' } });
    await exchange.send(whole.subarray(0, 5000));
    expect(await early.field('content-range')).toBe('bytes 0-99/*');
    await exchange.send(whole.subarray(5000));
    exchange.end();
    await expectPart(tail, size - 100, size);
    await expectWhole(first);
    expect(proxy.origin.requests).toBe(1);
  });

  it('goes on for readers in another process when its own client leaves', async () => {
    begin({ fill: { onAbort: 'stop' } });
    const first = send(0);
    const transfer = await origin.begin();
    const second = send(1);
    void transfer.sendTo(3000);
    await expectUntil(second, 3000);
    await first.leave();
    transfer.finish();
    await expectWhole(second);
  });

  it('ends when the readers in all processes have left', async () => {
    begin({ fill: { onAbort: 'stop' } });
    const clients = [send(0), send(1)];
    const transfer = await origin.begin();
    void transfer.sendTo(3000);
    for (const client of clients) await expectUntil(client, 3000);
    for (const client of clients) await client.leave();
    await turn();
    expect(transfer.exchange.isClosed || transfer.exchange.request.signal.aborted).toBe(true);
  });

  it('is not joined by a request with only-if-cached (RFC 9111 §5.2.1.7)', async () => {
    begin();
    const first = send(0);
    const transfer = await origin.begin();
    expect(await send(1, { fields: { 'cache-control': 'only-if-cached' } }).status()).toBe(504);
    transfer.finish();
    await expectWhole(first);
  });

  it('gives a HEAD in another process the status and the length of its response', async () => {
    begin();
    const first = send(0);
    const transfer = await origin.begin();
    const head = send(1, { method: 'HEAD' });
    expect(await head.response).toMatchObject({ status: 200, body: { sizeBytes: size } });
    transfer.finish();
    await expectWhole(first);
    expect(proxy.origin.requests).toBe(1);
  });

  it.each(['calls', 'sockets'] as const)(
    'gives a HEAD in another process the length once it is known, by %s',
    async (peersBy) => {
      begin({ peersBy });
      const first = send(0);
      const fill = await proxy.origin.next();
      fill.head({ fields: { etag: '"v1"', 'cache-control': 'max-age=60' } });
      await first.response;
      const head = send(1, { method: 'HEAD' });
      await turn();
      void fill.send(whole);
      fill.end();
      expect(await head.response).toMatchObject({ status: 200, body: { sizeBytes: size } });
      await expectWhole(first);
      expect(proxy.origin.requests).toBe(1);
    },
  );

  it.each(['calls', 'sockets'] as const)(
    'adds the known length to a HEAD that another process passes on, by %s',
    async (peersBy) => {
      begin({ peersBy });
      const first = send(0);
      const transfer = await origin.begin();
      await first.response;
      for (const [etag, sizeBytes] of [
        ['"v1"', size],
        ['"v2"', undefined],
      ] as const) {
        const head = send(1, { method: 'HEAD', fields: { 'cache-control': 'no-cache' } });
        const exchange = await proxy.origin.next();
        exchange.head({ framing: 'none', fields: { etag, 'cache-control': 'max-age=60' } });
        expect(await head.response).toMatchObject({ status: 200, body: { sizeBytes } });
        expect(await head.field('accept-ranges')).toBe('bytes');
      }
      transfer.finish();
      await expectWhole(first);
    },
  );

  it('is not for another variant, which is fetched meanwhile', async () => {
    begin({}, { fields: { 'cache-control': 'max-age=60', etag: '"v1"', vary: 'accept-language' } });
    const german = send(0, { fields: { 'accept-language': 'de' } });
    const first = await origin.begin();
    await turn();
    const french = send(1, { fields: { 'accept-language': 'fr' } });
    const second = await origin.begin();
    expect(second.exchange.request.fields).toContainEqual(['accept-language', 'fr']);
    for (const transfer of [first, second]) transfer.finish();
    for (const client of [german, french]) await expectWhole(client);
    expect(proxy.origin.requests).toBe(2);
  });
});

describe('a response for one client only', () => {
  it('is not given to a request that waited in another process, which remembers that', async () => {
    begin();
    const fields = { 'cache-control': 'private' };
    const clients = [send(0), send(1)];
    const first = await proxy.origin.next();
    await turn();
    first.respond({ fields: { ...fields, 'x-for': 'first' } }, none);
    const second = await proxy.origin.next();
    second.respond({ fields: { ...fields, 'x-for': 'second' } }, none);
    expect(await Promise.all(clients.map((client) => client.field('x-for')))).toEqual(['first', 'second']);
    // Two requests that come at once do not wait for each other any more.
    const later = [send(1), send(1)];
    const exchanges = [await proxy.origin.next(), await proxy.origin.next()];
    for (const exchange of exchanges) exchange.respond({ fields }, none);
    for (const client of later) expect(await client.status()).toBe(200);
  });

  it('to an unsafe method is fetched apart, whichever process has the lease', async () => {
    begin();
    const first = send(0);
    const transfer = await origin.begin();
    const posted = send(1, { method: 'POST' });
    (await proxy.origin.next()).respond({ status: 204, framing: 'none' }, none);
    expect(await posted.status()).toBe(204);
    transfer.finish();
    await expectWhole(first);
  });
});

describe('a stale response', () => {
  const stale = { 'cache-control': 'max-age=10, stale-while-revalidate=30', etag: '"v1"' };
  async function store(fields: Readonly<Record<string, string>> = stale): Promise<void> {
    begin({}, { fields });
    const first = send(0);
    (await origin.give()).finish();
    await expectWhole(first);
    proxy.clock.advance(20_000);
  }

  it('is validated once in the background, however many processes serve it', async () => {
    await store();
    for (const process of [0, 1, 1, 0]) await expectWhole(send(process));
    (await proxy.origin.next()).respond({ status: 304, fields: stale, framing: 'none' }, none);
    await turn();
    expect(await status(send(1))).toBe('rangeway; hit; ttl=10');
    expect(proxy.origin.requests).toBe(2);
  });

  it('is validated once for requests that wait in several processes', async () => {
    const fields = { 'cache-control': 'max-age=10', etag: '"v1"' };
    await store(fields);
    const clients = [send(0), send(1), send(1)];
    const exchange = await proxy.origin.next();
    await turn();
    exchange.respond({ status: 304, fields, framing: 'none' }, none);
    for (const client of clients) await expectWhole(client);
    expect(await status(clients[1] as Client)).toBe('rangeway; fwd=stale; fwd-status=304; ttl=10; stored; collapsed');
    expect(proxy.origin.requests).toBe(2);
  });

  it('is served to requests that wait in several processes where the origin fails', async () => {
    await store({ 'cache-control': 'max-age=10, stale-if-error=600', etag: '"v1"' });
    const clients = [send(0), send(1)];
    const exchange = await proxy.origin.next();
    await turn();
    exchange.fail(new ProxyError('origin_refused'));
    for (const client of clients) await expectWhole(client);
    expect(proxy.origin.requests).toBe(2);
  });
});

describe('a partly stored generation', () => {
  it('is opened by one process at a time, for the readers of all processes', async () => {
    begin({ originRanges: 'auto' });
    const first = send(0, { fields: { range: 'bytes=0-1023' } });
    (await origin.give()).finish();
    await expectPart(first, 0, 1024);
    await turn();
    const middle = send(0, { fields: { range: 'bytes=4096-5119' } });
    const one = await origin.begin();
    const later = send(1, { fields: { range: 'bytes=8192-9215' } });
    const two = await origin.begin();
    for (const transfer of [one, two]) transfer.finish();
    await expectPart(middle, 4096, 5120);
    await expectPart(later, 8192, 9216);
    expect(origin.asked).toEqual(['bytes=0-1023', 'bytes=4096-5119 if "v1"', 'bytes=8192-9215 if "v1"']);
    expect((await proxy.store.find((await entryKey()) as string)).length).toBe(1);
  });

  it('gives a reader far ahead in another process a transfer of its own', async () => {
    begin({ originRanges: 'auto', fill: { seekAheadBytes: 1024 } });
    const plain = send(0);
    const first = await origin.begin();
    void first.sendTo(1024);
    await expectUntil(plain, 1024);
    const ahead = send(1, { fields: { range: 'bytes=8192-8300' } });
    const second = await origin.begin();
    second.finish();
    await expectPart(ahead, 8192, 8301);
    first.finish();
    await expectWhole(plain);
    expect(origin.asked[1]).toMatch(/^bytes=8192-/);
  });
});

describe('fill.parallel', () => {
  const parallel = { requests: 3, minBytes: 5000, partBytes: 2048 };
  const fields = { 'cache-control': 'max-age=60', etag: '"v1"', 'accept-ranges': 'bytes' };

  it('brings parts by the process that holds the lease alone, for the clients of all processes', async () => {
    begin({ originRanges: 'auto', fill: { parallel } }, { fields });
    const own = send(0);
    const first = await origin.begin();
    void first.sendTo(1024);
    await expectUntil(own, 1024);
    const other = send(1);
    const parts = [await origin.begin(), await origin.begin()];
    await expectUntil(other, 1024);
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    expect(proxy.processes.map(({ member }) => member.leaseCount)).toEqual([1, 0]);
    for (const part of parts) part.finish();
    void first.sendTo(3072);
    origin.serve();
    await expectWhole(own);
    await expectWhole(other);
    expect(origin.asked.slice(0, 3)).toEqual(['whole', 'bytes=3072-5119 if "v1"', 'bytes=5120-7167 if "v1"']);
    expect(new Set(origin.asked).size).toBe(origin.asked.length);
    await expect.poll(() => proxy.fillEvents().reduce((sum, { bytes }) => sum + bytes, 0)).toBe(size);
    expect(await status(send(1))).toContain('hit');
  });

  it('leaves readers in another process with all bytes where the holder dies', async () => {
    begin({ originRanges: 'auto', fill: { parallel } }, { fields });
    const own = send(0);
    const first = await origin.begin();
    void first.sendTo(1024);
    await expectUntil(own, 1024);
    const other = send(1);
    const parts = [await origin.begin(), await origin.begin()];
    void parts[1]?.sendTo(6500);
    await expectUntil(other, 1024);
    await proxy.processes[0]?.member.die();
    origin.serve();
    await expectWhole(other);
    await expect(own.bytes()).rejects.toThrow(ProxyError);
    // Parts may have been requested whose bytes the first transfer has brought.
    await expect.poll(() => proxy.origin.untaken).toBe(0);
    expect(await status(send(1))).toContain('hit');
  });
});

/** Returns the key of the only stored file. */
async function entryKey(): Promise<string | undefined> {
  const { entries } = await proxy.store.list({ kind: 'prefix', prefix: '' }, 1);
  return entries[0]?.key;
}

describe('an invalidation in one process', () => {
  it('keeps a fill in another process from being stored or joined, while its readers get all bytes', async () => {
    begin();
    const reader = send(0);
    const transfer = await origin.begin();
    void transfer.sendTo(3000);
    await expectUntil(reader, 3000);
    const put = send(1, { method: 'PUT' });
    (await proxy.origin.next()).respond({ status: 204, framing: 'none' }, none);
    expect(await put.status()).toBe(204);
    origin.file = { ...origin.file, seed: 2, fields: { ...origin.file.fields, etag: '"v2"' } };
    const later = [send(1), send(0)];
    const second = await origin.begin();
    await turn();
    expect(proxy.origin.untaken).toBe(0);
    transfer.finish();
    await expectWhole(reader);
    second.finish();
    for (const client of later) expect(await client.bytes()).toEqual(Buffer.from(patternBytes(0, size, 2)));
    expect(await send(0).field('etag')).toBe('"v2"');
  });

  it.each([0, 1])('keeps a completion that process %i begins during the removal from being joined', async (other) => {
    const store = createSteeredStore();
    begin({ originRanges: 'auto', createStore: () => store });
    const part = send(0, { fields: { range: 'bytes=2000-2099' } });
    await origin.give();
    await expectPart(part, 2000, 2100);
    await proxy.fillsEnded(1);
    const removal = store.hold('removeKey');
    const put = send(0, { method: 'PUT' });
    (await proxy.origin.next()).respond({ status: 204, framing: 'none' }, none);
    await removal.reached;
    const meanwhile = send(other);
    const rest = await origin.begin();
    void rest.sendTo(100);
    await expectUntil(meanwhile, 100);
    origin.file = { ...origin.file, seed: 2, fields: { ...origin.file.fields, etag: '"v2"' } };
    removal.release();
    expect(await put.status()).toBe(204);
    origin.serve();
    for (const process of [0, 1]) expect(await send(process).field('etag')).toBe('"v2"');
    await meanwhile.leave();
  });
});

describe('a process that dies', () => {
  const rows: readonly (readonly [string, WholeProxyOptions, Parameters<typeof createRangeOrigin>[1]])[] = [
    ['at an origin with ranges', { originRanges: 'auto' }, { hasRanges: true }],
    ['at a legacy origin', {}, { hasRanges: false }],
    ['at an origin without validators', {}, { hasRanges: false, fields: { 'cache-control': 'max-age=60' } }],
  ];

  for (const [name, options, file] of rows) {
    it.each([0, 100, 1024, 5000])(
      `after %i bytes leaves readers in another process with all bytes, ${name}`,
      async (bytes) => {
        begin(options, file);
        const own = send(0);
        const first = await origin.begin();
        const other = send(1);
        const part = send(1, { fields: { range: 'bytes=6000-6999' } });
        void first.sendTo(bytes);
        await expectUntil(own, bytes);
        await expectUntil(other, bytes);
        await proxy.processes[0]?.member.die();
        origin.serve();
        await expectWhole(other);
        await expectPart(part, 6000, 7000);
        if (bytes === 0) expect(await own.status()).toBe(499);
        else await expect(own.bytes()).rejects.toThrow(ProxyError);
        expect(await status(send(1))).toContain('hit');
      },
    );

    it(`and its successor, which dies too, leave readers in the third process with all bytes, ${name}`, async () => {
      begin({ processes: 3, ...options }, file);
      const own = send(0);
      const first = await origin.begin();
      void first.sendTo(3000);
      await expectUntil(own, 3000);
      const others = [send(1), send(2)];
      for (const client of others) await expectUntil(client, 3000);
      await proxy.processes[0]?.member.die();
      const reading = others.map((client) => expectUntil(client, 6000));
      const second = await origin.begin();
      void second.sendTo(6000);
      await Promise.all(reading);
      const survivor = proxy.processes[1]?.member.leaseCount === 0 ? 1 : 2;
      await proxy.processes[3 - survivor]?.member.die();
      origin.serve();
      await expectWhole(others[survivor - 1] as Client);
    });
  }

  it('after the last byte of a body whose end only it knew leaves readers in another process with the whole body', async () => {
    begin();
    send(0);
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { 'cache-control': 'max-age=60', etag: '"v1"' } });
    const other = send(1);
    void exchange.send(whole);
    await expectUntil(other, size);
    await proxy.processes[0]?.member.die();
    origin.serve();
    await expectWhole(other);
  });

  it('before its head has arrived makes requests that wait in another process ask again', async () => {
    begin();
    send(0);
    await origin.begin(undefined);
    const other = send(1);
    const waiting = send(1, { target: '/unknown' });
    await proxy.origin.next();
    await proxy.processes[0]?.member.die();
    origin.serve();
    await expectWhole(other);
    await waiting.leave();
  });

  it('leaves readers in another process cut off where the origin has another version now', async () => {
    begin();
    send(0);
    const first = await origin.begin();
    const other = send(1);
    void first.sendTo(3000);
    await expectUntil(other, 3000);
    await proxy.processes[0]?.member.die();
    origin.file = { ...origin.file, seed: 2, fields: { ...origin.file.fields, etag: '"v2"' } };
    origin.serve();
    await expect(other.bytes()).rejects.toMatchObject({ code: 'generation_changed' });
    expect(await send(1).bytes()).toEqual(Buffer.from(patternBytes(0, size, 2)));
  });

  it('leaves readers in another process cut off where there is no validator and their bytes have changed', async () => {
    begin({}, { fields: { 'cache-control': 'max-age=60' } });
    send(0);
    const first = await origin.begin();
    const other = send(1);
    void first.sendTo(3000);
    await expectUntil(other, 3000);
    await proxy.processes[0]?.member.die();
    origin.file = { ...origin.file, seed: 2 };
    origin.serve();
    await expect(other.bytes()).rejects.toMatchObject({ code: 'generation_changed' });
  });

  it('leaves a reader in another process cut off that was told another length, even if it has no bytes to compare', async () => {
    begin({}, { fields: { 'cache-control': 'max-age=60' } });
    send(0);
    const first = await origin.begin();
    const part = send(1, { fields: { range: 'bytes=6000-6999' } });
    void first.sendTo(3000);
    expect(await part.field('content-range')).toBe(`bytes 6000-6999/${size}`);
    await proxy.processes[0]?.member.die();
    origin.file = { ...origin.file, sizeBytes: size + 1, seed: 2 };
    origin.serve();
    await expect(part.bytes()).rejects.toMatchObject({ code: 'generation_changed' });
  });
});

describe('a process that cannot be reached', () => {
  it('is waited for only for a while, although it lives: then the request goes to the origin by itself', async () => {
    begin();
    const first = send(0);
    const transfer = await origin.begin();
    for (const { member } of proxy.processes) member.isCutOff = true;
    const other = send(1);
    for (let seconds = 0; proxy.origin.untaken === 0 && seconds < 60; seconds += 1) {
      await turn();
      proxy.clock.advance(1_000);
    }
    (await proxy.origin.next()).respond({ fields: origin.file.fields }, whole);
    await expectWhole(other);
    expect(await status(other)).toContain('detail=lease-unavailable');
    transfer.finish();
    await expectWhole(first);
  });
});

describe('running fills', () => {
  it('are listed and stopped in the process where they run, wherever their readers are', async () => {
    begin();
    const clients = [send(0), send(1)];
    const transfer = await origin.begin();
    void transfer.sendTo(3000);
    for (const client of clients) await expectUntil(client, 3000);
    const [fill, ...more] = proxy.cache.listFills();
    expect(fill).toMatchObject({ sizeBytes: size, receivedBytes: 3000, readers: 2, startedAt: proxy.clock.now() });
    expect([fill?.id, more]).toEqual([fill?.generation, []]);
    expect(proxy.processes[1]?.cache.listFills()).toEqual([]);
    expect(proxy.processes[1]?.cache.stopFill(fill?.id ?? '')).toBe(false);
    expect(proxy.cache.stopFill(fill?.id ?? '')).toBe(true);
    for (const client of clients) await expect(client.bytes()).rejects.toMatchObject({ code: 'client_gone' });
    await turn();
    expect(proxy.cache.listFills()).toEqual([]);
    expect(proxy.cache.stopFill(fill?.id ?? '')).toBe(false);
  });
});
