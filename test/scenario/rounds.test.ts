/** Requests for a response that is validated before each use: one validation, sent after they came, serves many. */

import { afterEach, describe, expect, it, type Mock, vi } from 'vitest';
import type { Cache } from '../../src/cache/cache.ts';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { settled } from '../support/clients/conversation.ts';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import {
  type Client,
  createWholeProxy,
  type Sent,
  type WholeProcess,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const none = new Uint8Array();
const asked = { 'cache-control': 'no-cache', etag: '"v1"' };
const body = (version: number) => patternBytes(0, 3000, version);

let proxy: WholeProxy;
afterEach(async () => {
  await settled();
  expect(proxy.origin.untaken).toBe(0);
  await proxy.close();
});

/** Starts a proxy that has stored version 1. */
async function begin(
  fields: Record<string, string> = asked,
  { sent = {}, ...options }: WholeProxyOptions & { readonly sent?: Sent } = {},
): Promise<void> {
  proxy = createWholeProxy(options);
  const client = proxy.send(sent);
  (await proxy.origin.next()).respond({ fields }, body(1));
  await client.bytes();
  await settled();
}

/** Sends some equal requests, one by one. */
async function send(count: number, sent: Sent = {}): Promise<readonly Client[]> {
  const clients: Client[] = [];
  for (let each = 0; each < count; each += 1) clients.push(proxy.send(sent));
  await settled();
  return clients;
}

async function next(): Promise<FakeExchange> {
  await settled();
  return await proxy.origin.next();
}

const confirm = (exchange: FakeExchange, fields: Record<string, string> = { etag: '"v1"' }) =>
  exchange.respond({ status: 304, fields }, none);

const tagAsked = ({ request }: FakeExchange) => fieldValue(request.fields, 'if-none-match');

/** Responds with this version, or confirms it. */
function respondWith(exchange: FakeExchange, version: number): void {
  const etag = `"v${version}"`;
  if (tagAsked(exchange) === etag) confirm(exchange, { etag });
  else exchange.respond({ fields: { ...asked, etag } }, body(version));
}

async function expectBodies(clients: readonly Client[], version: number): Promise<void> {
  for (const client of clients) expect(Buffer.from(await client.bytes()).equals(Buffer.from(body(version)))).toBe(true);
}

describe('a response with no-cache', () => {
  it('is validated once for all requests that came before the validation was sent, and not by one sent earlier', async () => {
    await begin();
    const [first] = await send(1);
    const running = await next();
    const later = await send(40);
    expect(proxy.origin.requests).toBe(2);
    confirm(running);
    expect(await first?.field('cache-status')).toBe('rangeway; fwd=stale; fwd-status=304; ttl=0; stored');
    await first?.bytes();
    // The 40 came after the first validation was sent: it says nothing to them.
    const second = await next();
    expect(proxy.origin.requests).toBe(3);
    const last = await send(3);
    confirm(second);
    await expectBodies(later, 1);
    const statuses = await Promise.all(later.map((client) => client.field('cache-status')));
    expect(statuses.filter((status) => status?.endsWith('; collapsed') === true)).toHaveLength(39);
    confirm(await next());
    await expectBodies(last, 1);
    expect(proxy.origin.requests).toBe(4);
  });

  it.each<[name: string, sent: Sent, status: number]>([
    ['ranges', { fields: { range: 'bytes=100-199' } }, 206],
    ['conditions', { fields: { 'if-none-match': '"v1"' } }, 304],
    ['a reload', { fields: { 'cache-control': 'no-cache' } }, 200],
    ['HEAD', { method: 'HEAD' }, 200],
  ])('is validated once for %s', async (_name, sent, status) => {
    await begin();
    const first = await send(1);
    const running = await next();
    const later = await send(10, sent);
    confirm(running);
    await expectBodies(first, 1);
    const exchange = await next();
    if (exchange.request.method === 'HEAD') {
      exchange.respond({ fields: { ...asked, 'content-length': '3000' } }, none);
    } else confirm(exchange);
    for (const client of later) expect(await client.status()).toBe(status);
    for (const client of later) await client.bytes();
    expect(proxy.origin.requests).toBe(3);
  });

  it('is asked for by GET where a HEAD and a GET wait together', async () => {
    await begin();
    await send(1);
    const running = await next();
    const head = proxy.send({ method: 'HEAD' });
    const get = proxy.send();
    await settled();
    confirm(running);
    const exchange = await next();
    expect(exchange.request.method).toBe('GET');
    confirm(exchange);
    expect(await head.response).toMatchObject({ status: 200, body: { sizeBytes: 3000 } });
    await expectBodies([get], 1);
  });

  it('is fetched once by all where it has changed, and the next validation names the new version while it arrives', async () => {
    await begin();
    await send(1);
    const running = await next();
    const later = await send(10);
    confirm(running);
    const replacing = await next();
    expect(tagAsked(replacing)).toBe('"v1"');
    // Its length is unknown, so that the store finds it only when it is whole.
    replacing.head({ fields: { ...asked, etag: '"v2"' } });
    await replacing.send(body(2).subarray(0, 1500));
    await settled();
    const during = await send(5);
    const validation = await next();
    expect(tagAsked(validation)).toBe('"v2"');
    confirm(validation, { etag: '"v2"' });
    await settled();
    expect(await during[0]?.field('cache-status')).toContain('fwd-status=304');
    void replacing.send(body(2).subarray(1500));
    replacing.end();
    await expectBodies([...later, ...during], 2);
    expect(proxy.origin.requests).toBe(4);
  });

  it('fails for all requests of a round, and not for the next one', async () => {
    await begin();
    await send(1);
    const running = await next();
    const later = await send(3);
    confirm(running);
    const failing = await next();
    const last = await send(2);
    failing.fail(new ProxyError('origin_reset'));
    for (const client of later) expect(await client.status()).toBe(502);
    confirm(await next());
    await expectBodies(last, 1);
  });

  it('is validated for the others where the client that leads their round leaves, before or after it was sent', async () => {
    await begin(asked, { fill: { onAbort: 'stop' } });
    await send(1);
    const running = await next();
    const later = await send(4);
    await later[0]?.leave();
    confirm(running);
    const exchange = await next();
    await later[1]?.leave();
    await settled();
    expect(exchange.request.signal.aborted).toBe(false);
    confirm(exchange);
    await expectBodies(later.slice(2), 1);
    expect(proxy.origin.requests).toBe(3);
  });

  it('is validated by HEAD for the others where the client that leads leaves', async () => {
    await begin();
    await send(1);
    const running = await next();
    const later = await send(3, { method: 'HEAD' });
    confirm(running);
    await next();
    await later[0]?.leave();
    const again = await next();
    again.respond({ fields: { ...asked, 'content-length': '3000' } }, none);
    for (const client of later.slice(1)) expect(await client.status()).toBe(200);
    expect(proxy.origin.requests).toBe(4);
  });

  it('is not stored twice where many ask before anything is stored', async () => {
    proxy = createWholeProxy();
    const clients = await send(20);
    (await next()).respond({ fields: asked }, body(1));
    const second = await next();
    expect(tagAsked(second)).toBe('"v1"');
    confirm(second);
    await expectBodies(clients, 1);
    expect(proxy.origin.requests).toBe(2);
    expect(proxy.fillEvents()).toHaveLength(1);
  });

  it('is explained as joined while a validation runs', async () => {
    await begin();
    expect(await proxy.explain()).toMatchObject({ decision: { kind: 'revalidate' } });
    const clients = await send(1);
    const running = await next();
    expect(await proxy.explain()).toMatchObject({ decision: { kind: 'join', directive: 'no-cache' } });
    confirm(running);
    await expectBodies(clients, 1);
    expect(await proxy.explain()).toMatchObject({ decision: { kind: 'revalidate' } });
  });
});

describe('clients that ask in a loop', () => {
  /** Lets 100 clients ask for one second, at an origin that takes 50 ms. Returns the origin requests and the longest wait of a client. */
  async function load(
    processes: number,
    versionAt: (ms: number) => number,
  ): Promise<[requests: number, waitMs: number]> {
    await begin(asked, { processes });
    const { clock, origin } = proxy;
    const startedAt = clock.now();
    const before = origin.requests;
    let waitMs = 0;
    let isOver = false;
    const ask = async (index: number) => {
      while (!isOver) {
        const sentAt = clock.now();
        const client = (proxy.processes[index % processes] ?? proxy).send();
        const version = Number((await client.field('etag'))?.slice(2, -1));
        expect(Buffer.from(await client.bytes()).equals(Buffer.from(body(version)))).toBe(true);
        // The version is not older than the request.
        expect(version).toBeGreaterThanOrEqual(versionAt(sentAt - startedAt));
        waitMs = Math.max(waitMs, clock.now() - sentAt);
      }
    };
    const clients = Array.from({ length: 100 }, (_, index) => ask(index));
    const arrived = new Map<FakeExchange, number>();
    const isDue = (exchange: FakeExchange) => clock.now() - (arrived.get(exchange) ?? clock.now()) >= 50;
    for (let passedMs = 0; passedMs < 1000; passedMs += 10) {
      await settled();
      for (const exchange of origin.waiting) if (!arrived.has(exchange)) arrived.set(exchange, clock.now());
      clock.advance(10);
      for (const exchange of origin.waiting.filter(isDue)) {
        await origin.next();
        // What was current when the request came: the least that its clients may get.
        respondWith(exchange, versionAt((arrived.get(exchange) ?? 0) - startedAt));
      }
    }
    const requests = origin.requests - before;
    isOver = true;
    for (await settled(); origin.untaken > 0; await settled()) {
      (await origin.next()).respond({ fields: { ...asked, etag: `"v${versionAt(1000)}"` } }, body(versionAt(1000)));
    }
    await Promise.all(clients);
    return [requests, waitMs];
  }

  it.each([1, 2])(
    'cause two origin requests a round trip at most, before and after a change: processes %i',
    async (processes) => {
      const [requests, waitMs] = await load(processes, (ms) => (ms < 500 ? 1 : 2));
      expect(requests).toBeLessThanOrEqual(42);
      // A process that does not hold the lease gathers requests for 10 ms before it asks again.
      expect(waitMs).toBeLessThanOrEqual(processes === 1 ? 100 : 120);
    },
  );
});

describe('one validation for many', () => {
  const names = ['alice', 'bob', 'carol'];

  it.each([
    ['cookies', (name: string) => ({ cookie: `sid=${name}` }), 'no-cache'],
    ['Authorization', (name: string) => ({ authorization: `Basic ${name}` }), 'no-cache, must-revalidate'],
    ['cookies, with s-maxage=0', (name: string) => ({ cookie: `sid=${name}` }), 's-maxage=0'],
  ])('is not for clients that %s tell apart', async (_name, fieldsOf, directives) => {
    await begin({ etag: '"v1"', 'cache-control': directives });
    const clients = names.map((name) => proxy.send({ fields: fieldsOf(name) }));
    await settled();
    const exchanges = [await next(), await next(), await next()];
    for (const exchange of exchanges) {
      exchange.respond({ fields: { etag: '"v1"', 'cache-control': directives } }, body(1));
    }
    await expectBodies(clients, 1);
    expect(proxy.origin.requests).toBe(4);
  });

  it('is for all clients where the response is public', async () => {
    const fields = { etag: '"v1"', 'cache-control': 'public, max-age=0, must-revalidate' };
    await begin(fields);
    const first = proxy.send({ fields: { cookie: 'sid=alice' } });
    const running = await next();
    const later = names.map((name) => proxy.send({ fields: { cookie: `sid=${name}` } }));
    await settled();
    confirm(running);
    confirm(await next());
    await expectBodies([first, ...later], 1);
    expect(proxy.origin.requests).toBe(3);
  });

  it('gives the response for one client to that one, and lets the others ask at once', async () => {
    await begin();
    await send(1);
    const running = await next();
    const later = await send(3);
    confirm(running);
    (await next()).respond({ fields: { 'cache-control': 'private' } }, body(2));
    const [second, third] = [await next(), await next()];
    second.respond({ fields: { 'cache-control': 'private' } }, body(3));
    third.respond({ fields: { 'cache-control': 'private' } }, body(4));
    const seen = await Promise.all(later.map((client) => client.bytes()));
    expect(
      seen.map((bytes) => [2, 3, 4].find((version) => Buffer.from(bytes).equals(Buffer.from(body(version))))),
    ).toEqual([2, 3, 4]);
  });

  it('does not hold up streams that are never stored', async () => {
    proxy = createWholeProxy();
    const clients = await send(10);
    const stream = { fields: { 'cache-control': 'no-cache', 'content-type': 'text/event-stream' } };
    (await next()).head(stream);
    await settled();
    // The other nine have their own, all at once.
    expect(proxy.origin.requests).toBe(10);
    while (proxy.origin.untaken > 0) (await proxy.origin.next()).respond(stream, body(1));
    for (const client of clients.slice(1)) expect(await client.status()).toBe(200);
    await clients[0]?.leave();
  });

  it.each(['calls', 'sockets'] as const)('holds over processes (%s)', async (peersBy) => {
    await begin(asked, { processes: 3, peersBy });
    const all = (count: number) =>
      Array.from({ length: count }, (_, index) => proxy.processes[index % 3]?.send() as Client);
    const [first] = all(1);
    const running = await next();
    const questions = vi.spyOn(proxy.processes[0]?.cache as Cache, 'answerPeer');
    const later = all(12);
    // One of each of the two others.
    await vi.waitUntil(() => questions.mock.calls.length === 2);
    await settled();
    confirm(running);
    await first?.bytes();
    confirm(await next());
    await expectBodies(later, 1);
    expect(proxy.origin.requests).toBe(3);
  });
});

describe('a process that does not hold the lease', () => {
  let holder: WholeProcess;
  let other: WholeProcess;
  let running: FakeExchange;
  let first: Client;

  /** Starts two processes. A validation runs in the one that holds the lease, and it is asked as often as is returned. */
  async function beginTwo(fields: Record<string, string> = asked): Promise<Mock> {
    await begin(fields, { processes: 2 });
    [holder, other] = proxy.processes as [WholeProcess, WholeProcess];
    first = holder.send();
    running = await next();
    return vi.spyOn(holder.cache, 'answerPeer') as Mock;
  }

  /** Sends requests to the other process, and lets it ask for them. */
  async function sendToOther(...sent: Sent[]): Promise<readonly Client[]> {
    const clients = sent.map((each) => other.send(each));
    await settled();
    proxy.clock.advance(10);
    await settled();
    return clients;
  }

  const many = new Array<Sent>(40).fill({});

  it('asks the holder once for all requests that have gathered, and takes the bytes from the common store', async () => {
    const questions = await beginTwo();
    const clients = await sendToOther(...many);
    expect(questions).toHaveBeenCalledTimes(1);
    const range = other.send({ fields: { range: 'bytes=10-19' } });
    const head = other.send({ method: 'HEAD' });
    proxy.clock.advance(10);
    await settled();
    confirm(running);
    confirm(await next());
    await expectBodies([first, ...clients], 1);
    expect(Buffer.from(await range.bytes()).equals(Buffer.from(body(1).subarray(10, 20)))).toBe(true);
    expect(await head.status()).toBe(200);
    const statuses = await Promise.all(clients.map((client) => client.field('cache-status')));
    expect(statuses.filter((status) => status?.endsWith('; collapsed') === true)).toHaveLength(39);
    // A HEAD is asked for by itself.
    expect(questions).toHaveBeenCalledTimes(3);
    expect(proxy.origin.requests).toBe(3);
  });

  it('gives a changed response to all of them, while it arrives and from the store', async () => {
    await beginTwo();
    const clients = await sendToOther(...many.slice(30));
    confirm(running);
    const replacing = await next();
    replacing.head({ fields: { ...asked, etag: '"v2"', 'content-length': '3000' } });
    await replacing.send(body(2).subarray(0, 1500));
    await settled();
    void replacing.send(body(2).subarray(1500));
    replacing.end();
    await expectBodies(clients, 2);
    expect(proxy.origin.requests).toBe(3);
  });

  it('asks again where the client that it has asked for leaves', async () => {
    const questions = await beginTwo();
    const clients = await sendToOther(...many.slice(35));
    await clients[0]?.leave();
    await settled();
    await clients[1]?.leave();
    await settled();
    expect(questions).toHaveBeenCalledTimes(3);
    confirm(running);
    confirm(await next());
    await expectBodies(clients.slice(2), 1);
    expect(proxy.origin.requests).toBe(3);
  });

  it('has a reload validated after it came, whatever a plain request beside it gets', async () => {
    const fields = { etag: '"v1"', 'cache-control': 'max-age=60' };
    await begin(fields, { processes: 2 });
    [holder, other] = proxy.processes as [WholeProcess, WholeProcess];
    proxy.clock.advance(61_000);
    first = holder.send();
    running = await next();
    const reload = { fields: { 'cache-control': 'no-cache' } };
    const [plain, ...reloads] = await sendToOther({}, reload, reload);
    expect(proxy.origin.untaken).toBe(0);
    confirm(running, fields);
    await expectBodies([first, plain as Client], 1);
    const validation = await next();
    expect(proxy.origin.requests).toBe(3);
    validation.respond({ fields: { ...fields, etag: '"v2"' } }, body(2));
    await expectBodies(reloads, 2);
    expect(proxy.origin.requests).toBe(3);
  });

  it('gives Set-Cookie to one client at most', async () => {
    await beginTwo();
    const clients = await sendToOther(...many.slice(30));
    confirm(running);
    confirm(await next(), { etag: '"v1"', 'set-cookie': 'sid=alice' });
    await expectBodies(clients, 1);
    const cookies = await Promise.all(clients.map((client) => client.field('set-cookie')));
    expect(cookies.filter((cookie) => cookie !== undefined).length).toBeLessThanOrEqual(1);
  });

  it('asks for each client by itself where they are told apart, or where the response turns out to be for one', async () => {
    await beginTwo();
    const clients = await sendToOther(
      ...['bob', 'carol'].map((name) => ({ fields: { cookie: `sid=${name}` } })),
      {},
      {},
    );
    const exchanges = [await next(), await next()];
    expect(exchanges.map(({ request }) => fieldValue(request.fields, 'cookie'))).toEqual(['sid=bob', 'sid=carol']);
    for (const exchange of exchanges) exchange.respond({ fields: { ...asked, 'cache-control': 'private' } }, body(3));
    confirm(running);
    (await next()).respond({ fields: { 'cache-control': 'private' } }, body(4));
    (await next()).respond({ fields: { 'cache-control': 'private' } }, body(5));
    const seen = await Promise.all(clients.map((client) => client.bytes()));
    const versions = seen.map((bytes) =>
      [1, 2, 3, 4, 5].find((each) => Buffer.from(bytes).equals(Buffer.from(body(each)))),
    );
    expect(versions).toEqual([3, 3, 4, 5]);
    await expectBodies([first], 1);
  });

  it('finds nothing of a response that was removed while it was validated', async () => {
    await beginTwo();
    const clients = await sendToOther(...many.slice(38));
    confirm(running);
    const validation = await next();
    await proxy.cache.purge({ mode: 'hard', keys: [], prefixes: [''], tags: [] });
    confirm(validation);
    for (await settled(); proxy.origin.untaken > 0; await settled()) respondWith(await next(), 2);
    for (const client of clients) expect((await client.bytes()).length).toBe(3000);
    const later = other.send();
    const exchange = await next();
    expect(tagAsked(exchange)).not.toBe('"v1"');
    exchange.respond({ fields: { ...asked, etag: '"v2"' } }, body(2));
    await expectBodies([later], 2);
  });
});

describe('a validation whose stored response was replaced meanwhile', () => {
  /** Stores a version beside the running exchanges. */
  async function replace(fields: Record<string, string>, bytes: Uint8Array): Promise<void> {
    const { store, clock } = proxy;
    const key = (await store.list({ kind: 'prefix', prefix: '' }, 1)).entries[0]?.key ?? '';
    const [entry] = await store.find(key);
    if (entry === undefined) throw new Error('nothing is stored');
    const { metadata } = entry;
    const newer = { ...metadata, fields: Object.entries(fields), requestAt: clock.now(), responseAt: clock.now() };
    await using writer = await store.openWriter({ ...entry, metadata: newer, sizeBytes: bytes.length });
    for (let at = 0; at < bytes.length; at += 1024) {
      await writer.writeBlock(at / 1024, Buffer.from(bytes.subarray(at, at + 1024)));
    }
    await writer.commit({ metadata: newer, sizeBytes: bytes.length });
  }

  it.each([
    ['that names the tag', { etag: '"v1"' }],
    ['without a tag', {}],
  ])('confirms the one that has the same strong tag now: a 304 %s', async (_name, fields) => {
    await begin();
    const clients = await send(1);
    const running = await next();
    await replace(asked, body(1));
    confirm(running, fields as Record<string, string>);
    await expectBodies(clients, 1);
    expect(proxy.origin.requests).toBe(2);
  });

  it('is followed by a validation of the version that is stored now, and not by a fetch of the whole', async () => {
    await begin();
    const clients = await send(1);
    const running = await next();
    await replace({ ...asked, etag: '"v2"' }, body(2));
    confirm(running);
    const again = await next();
    expect(tagAsked(again)).toBe('"v2"');
    confirm(again, { etag: '"v2"' });
    await expectBodies(clients, 2);
    expect(proxy.origin.requests).toBe(3);
  });
});

describe('a 200 to a validation', () => {
  it('with the strong validator of the stored response freshens it, and is not stored anew', async () => {
    await begin();
    const clients = await send(1);
    (await next()).respond({ fields: { ...asked, 'x-new': '1' } }, body(1));
    expect(await clients[0]?.field('cache-status')).toBe('rangeway; fwd=stale; fwd-status=200; ttl=0; stored');
    expect(await clients[0]?.field('x-new')).toBe('1');
    await expectBodies(clients, 1);
    await settled();
    expect(proxy.fillEvents()).toHaveLength(1);
    expect(proxy.events.filter(({ kind }) => kind === 'revalidation')).toEqual([
      { kind: 'revalidation', result: 'confirmed' },
    ]);
  });

  it.each<[name: string, fields: Record<string, string>, bytes: Uint8Array]>([
    ['another length', asked, body(1).subarray(0, 100)],
    ['a weak validator', { ...asked, etag: 'W/"v1"' }, body(2)],
    ['another coding', { ...asked, 'content-encoding': 'gzip' }, body(2)],
    ['another digest', { ...asked, 'content-digest': 'sha-256=:AAAA:' }, body(2)],
  ])('with %s replaces it', async (_name, fields, bytes) => {
    await begin(fields['etag'] === '"v1"' ? asked : fields);
    const clients = await send(1);
    (await next()).respond({ fields }, bytes);
    expect(Buffer.from((await clients[0]?.bytes()) ?? none).equals(Buffer.from(bytes))).toBe(true);
    await settled();
    expect(proxy.fillEvents()).toHaveLength(2);
  });
});
