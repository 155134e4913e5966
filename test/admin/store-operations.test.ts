/** Listing, inspecting, purging and warming, over a whole proxy with a scripted origin. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type EntrySearch, OperationFault } from '../../src/admin/operations.ts';
import { createStoreOperations, type StoreParts } from '../../src/admin/store-operations.ts';
import { errorResponse } from '../../src/delivery/problem.ts';
import type { Handler, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { EntryOrder } from '../../src/store/store.ts';
import { ended, fetched, reused, settled, storedBody } from '../support/clients/conversation.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy, type WholeProxy, type WholeProxyOptions } from '../support/proxies/whole-proxy.ts';

const fresh = { 'cache-control': 'max-age=100', etag: '"v1"' };

let proxy: WholeProxy;
const start = (options: WholeProxyOptions = {}) => {
  proxy = createWholeProxy(options);
};
beforeEach(() => start());
afterEach(() => ended(proxy));

const partsOf = ({ store, cache, clock, handler, route, explainer }: WholeProxy): StoreParts => ({
  store,
  cache,
  clock,
  handler: () => handler,
  routes: () => [route],
  addresses: () => ['http://127.0.0.1:8080'],
  explain: explainer,
});
const operations = (overrides: Partial<StoreParts> = {}) => createStoreOperations({ ...partsOf(proxy), ...overrides });

async function listAll(search: EntrySearch, limit = 2): Promise<string[]> {
  const uris: string[] = [];
  let after: string | undefined;
  do {
    const page = await operations().listEntries(search, limit, after);
    expect(page.entries.length).toBeLessThanOrEqual(limit);
    uris.push(...page.entries.map(({ uri }) => uri));
    after = page.next;
  } while (after !== undefined);
  return uris.sort();
}

describe('listEntries', () => {
  const targets = ['/a', '/a/1', '/a/2', '/ab', '/b'];
  const uri = (target: string) => `http://files.example${target}`;

  it.each<[EntrySearch, readonly string[]]>([
    [{ kind: 'all' }, targets],
    [{ kind: 'url', url: 'http://files.example/a' }, ['/a']],
    [{ kind: 'url', url: 'https://files.example/a' }, ['/a']],
    [{ kind: 'url', url: 'http://files.example/none' }, []],
    [{ kind: 'prefix', url: 'http://files.example/a' }, ['/a', '/a/1', '/a/2', '/ab']],
    [{ kind: 'prefix', url: 'http://files.example/a/' }, ['/a/1', '/a/2']],
    [{ kind: 'url', url: '/a' }, ['/a']],
    [{ kind: 'prefix', url: '/a/' }, ['/a/1', '/a/2']],
    [{ kind: 'host', host: 'files.example' }, targets],
    [{ kind: 'host', host: 'files.example:8080' }, []],
    [{ kind: 'host', host: 'files.exampl' }, []],
    [{ kind: 'tag', tag: '/a/1' }, ['/a/1']],
    [{ kind: 'tag', tag: 'all' }, targets],
    [{ kind: 'group', group: 'g', origin: 'http://files.example' }, ['/b']],
    [{ kind: 'group', group: 'g', origin: 'https://files.example' }, []],
  ])('%j', async (search, want) => {
    for (const target of targets) {
      const group: Record<string, string> = target === '/b' ? { 'cache-groups': '"g"' } : {};
      await fetched(proxy, { fields: { ...fresh, ...group, 'surrogate-key': `all ${target}` } }, { target });
    }
    for (const limit of [1, 2, 3, 1000]) expect(await listAll(search, limit)).toEqual(want.map(uri));
  });

  it('lists all variants of a URL, page by page', async () => {
    for (const language of ['de', 'en', 'fr', 'it', 'pt']) {
      const fields = { 'accept-language': language };
      await fetched(proxy, { fields: { ...fresh, vary: 'accept-language' } }, { fields });
    }
    expect(await listAll({ kind: 'url', url: 'http://files.example/file' })).toHaveLength(5);
    const { entries } = await operations().listEntries({ kind: 'all' }, 1000, undefined);
    expect(new Set(entries.map(({ variant }) => variant)).size).toBe(5);
  });

  describe('in an order', () => {
    const sizes: Readonly<Record<string, number>> = { '/a': 30, '/a/1': 10, '/a/2': 50, '/Ab': 20, '/b': 40 };
    const ranked = async (search: EntrySearch, order: EntryOrder, limit = 2): Promise<string[]> => {
      const uris: string[] = [];
      let after: string | undefined;
      do {
        const page = await operations().listEntries(search, limit, after, order);
        expect(page.entries.length).toBeLessThanOrEqual(limit);
        uris.push(...page.entries.map((entry) => entry.uri.replace('http://files.example', '')));
        after = page.next;
      } while (after !== undefined);
      return uris;
    };
    const bySize = { by: 'size', isDescending: false } as const;

    it.each<[EntrySearch, EntryOrder, readonly string[]]>([
      [{ kind: 'all' }, bySize, ['/a/1', '/Ab', '/a', '/b', '/a/2']],
      [{ kind: 'all' }, { ...bySize, isDescending: true }, ['/a/2', '/b', '/a', '/Ab', '/a/1']],
      [{ kind: 'all' }, { by: 'age', isDescending: false }, ['/b', '/Ab', '/a/2', '/a/1', '/a']],
      [{ kind: 'all' }, { by: 'key', isDescending: true }, ['/b', '/a/2', '/a/1', '/a', '/Ab']],
      [{ kind: 'all' }, { ...bySize, contains: '/A/' }, ['/a/1', '/a/2']],
      [{ kind: 'all' }, { ...bySize, contains: 'files.example/ab' }, ['/Ab']],
      [{ kind: 'all' }, { ...bySize, contains: 'origin' }, []],
      [{ kind: 'url', url: 'http://files.example/a' }, bySize, ['/a']],
      [{ kind: 'prefix', url: 'http://files.example/a' }, bySize, ['/a/1', '/a', '/a/2']],
      [{ kind: 'host', host: 'files.example' }, bySize, ['/a/1', '/Ab', '/a', '/b', '/a/2']],
      [{ kind: 'prefix', url: '/a' }, { ...bySize, contains: '/A/' }, ['/a/1', '/a/2']],
      [{ kind: 'url', url: '/a' }, bySize, ['/a']],
      [{ kind: 'tag', tag: 'all' }, bySize, ['/a/1', '/Ab', '/a', '/b', '/a/2']],
    ])('%j, %j', async (search, order, want) => {
      for (const [target, size] of Object.entries(sizes)) {
        await fetched(proxy, { fields: { ...fresh, 'surrogate-key': 'all' } }, { target }, new Uint8Array(size));
        proxy.clock.advance(1000);
      }
      for (const limit of [1, 2, 3, 1000]) expect([limit, await ranked(search, order, limit)]).toEqual([limit, want]);
    });

    it('refuses the cursor of another order', async () => {
      await fetched(proxy, { fields: fresh }, { target: '/a' });
      await fetched(proxy, { fields: fresh }, { target: '/b' });
      const { next } = await operations().listEntries({ kind: 'all' }, 1, undefined, bySize);
      expect(next).toBeDefined();
      for (const [after, order] of [
        [next, { ...bySize, isDescending: true }],
        [next, { ...bySize, by: 'key' }],
        [next, undefined],
        ['x', bySize],
        ['W10', bySize],
        [Buffer.from('["size",false,"1","g"]').toString('base64url'), bySize],
      ] as const) {
        const listed = operations().listEntries({ kind: 'all' }, 1, after, order);
        await expect(listed).rejects.toMatchObject({ reason: 'invalid' });
      }
    });
  });

  it.each([0, -1, 1001, 1.5, Number.NaN])('refuses a limit of %d', async (limit) => {
    await expect(operations().listEntries({ kind: 'all' }, limit, undefined)).rejects.toMatchObject({
      reason: 'invalid',
      message: `expected a limit from 1 to 1000, got ${limit}`,
    });
  });

  it.each(['', 'x', 'W10', 'WyJhIixudWxsXQ', 'Wy0xLG51bGxd', 'bnVsbA'])('refuses %j as a cursor', async (after) => {
    await expect(operations().listEntries({ kind: 'all' }, 10, after)).rejects.toMatchObject({ reason: 'invalid' });
  });

  it.each([{ kind: 'all' }, { kind: 'tag', tag: 'a' }, { kind: 'url', url: 'http://files.example/file' }] as const)(
    'refuses a cursor in %j that the store has not returned',
    async (search) => {
      for (const inner of ['x', '', '-5', '\0\ud800', 'WzAsIngiXQ']) {
        const after = Buffer.from(JSON.stringify([0, inner])).toString('base64url');
        const listed = operations().listEntries(search, 10, after);
        await expect(listed, inner).rejects.toMatchObject({ name: 'OperationFault', reason: 'invalid' });
      }
    },
  );

  it('describes each entry', async () => {
    const fields = { ...fresh, 'content-type': 'text/plain', 'last-modified': 'Thu, 01 Jan 2026 12:00:00 GMT' };
    await fetched(proxy, { fields: { ...fields, 'cache-tag': 'a,\u00c3\u00a4', 'cache-groups': '"g"' } });
    const [entry] = (await operations().listEntries({ kind: 'all' }, 10, undefined)).entries;
    expect(entry).toEqual({
      key: 'http://origin.example/ http://files.example/file',
      uri: 'http://files.example/file',
      scope: 'http://origin.example/',
      variant: '',
      generation: expect.any(String),
      status: 200,
      contentType: 'text/plain',
      sizeBytes: 3000,
      presentBytes: 3000,
      isComplete: true,
      isInvalid: false,
      pinnedUntil: undefined,
      responseAt: proxy.clock.now(),
      usedAt: undefined,
      etag: '"v1"',
      lastModified: 'Thu, 01 Jan 2026 12:00:00 GMT',
      tags: ['["http://files.example","g"]', 'a', 'ä'],
    });
  });
});

describe('inspectEntry', () => {
  const onlyEntry = async () => {
    const [entry] = (await operations().listEntries({ kind: 'all' }, 10, undefined)).entries;
    if (entry === undefined) throw new Error('nothing is stored');
    return entry;
  };

  it('returns the spans that are present', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: fresh });
    for (const range of ['bytes=0-99', 'bytes=5000-5099', 'bytes=9990-']) {
      const client = proxy.send({ fields: { range } });
      await origin.give();
      await client.bytes();
      await settled();
    }
    const { key, generation, sizeBytes } = await onlyEntry();
    const details = await operations().inspectEntry(key, generation);
    expect(details.isComplete).toBe(false);
    expect(details.present.every(({ start, end }) => start < end && end <= sizeBytes)).toBe(true);
    expect(details.present[0]).toEqual({ start: 0, end: 1024 });
    expect(details.present.at(-1)?.end).toBe(sizeBytes);
    expect(details.presentBytes).toBe(details.present.reduce((sum, { start, end }) => sum + end - start, 0));
  });

  it('returns which of the bytes memory holds, and what a running fill still brings', async () => {
    await proxy.close();
    start({ originRanges: 'auto' });
    const origin = createRangeOrigin(proxy.origin, { fields: fresh });
    proxy.send();
    const transfer = await origin.begin();
    await transfer.sendTo(3000);
    await settled();
    const { key, generation, sizeBytes } = await onlyEntry();
    const { present, hot, arriving } = await operations().inspectEntry(key, generation);
    expect(hot).toEqual(present);
    const from = present.at(-1)?.end;
    expect(arriving).toEqual([{ start: from, end: sizeBytes, fillId: generation }]);
    expect((await operations().listEntries({ kind: 'all' }, 1, undefined)).entries[0]?.presentBytes).toBe(from);
    transfer.finish();
    await settled();
    expect((await operations().inspectEntry(key, generation)).arriving).toEqual([]);
  });

  it('returns response fields and nominated fields with secrets redacted', async () => {
    start({ route: { cache: { setCookie: 'store' } } });
    const sent = { cookie: 'session=hidden', 'accept-language': 'de', 'x-api-key': 'hidden' };
    const vary = 'cookie, accept-language, x-api-key, origin';
    const head = { ...fresh, 'set-cookie': 'sid=hidden; Path=/; HttpOnly', 'x-auth-token': 'hidden', vary };
    await fetched(proxy, { fields: head }, { fields: sent });
    const entry = await onlyEntry();
    const details = await operations().inspectEntry(entry.key, entry.generation);
    expect(JSON.stringify(details)).not.toContain('hidden');
    expect(details.fields).toContainEqual(['set-cookie', 'sid=[redacted]; Path=/; HttpOnly']);
    expect(details.fields).toContainEqual(['x-auth-token', '[redacted]']);
    expect(details.fields).toContainEqual(['etag', '"v1"']);
    expect(Object.fromEntries(details.nominated)).toMatchObject({
      cookie: '[redacted]',
      'accept-language': 'de',
      origin: null,
    });
    expect(details).toMatchObject(entry);
  });

  it.each([
    ['http://origin.example/ http://files.example/file', 'none'],
    ['none', 'none'],
  ])('rejects with not_found for %j %j', async (key, generation) => {
    await fetched(proxy, { fields: fresh });
    await expect(operations().inspectEntry(key, generation)).rejects.toBeInstanceOf(OperationFault);
    await expect(operations().inspectEntry(key, generation)).rejects.toMatchObject({ reason: 'not_found' });
  });
});

describe('purge', () => {
  it.each<EntrySearch>([
    { kind: 'all' },
    { kind: 'url', url: 'https://files.example/file' },
    { kind: 'prefix', url: 'http://files.example/fi' },
    { kind: 'host', host: 'files.example' },
    { kind: 'tag', tag: 'red' },
    { kind: 'group', group: 'g', origin: 'http://files.example' },
  ])('%j, hard and soft', async (search) => {
    const fields = { ...fresh, 'surrogate-key': 'red', 'cache-groups': '"g"' };
    await fetched(proxy, { fields });
    proxy.clock.advance(10);
    expect(await operations().purge({ search, mode: 'soft' })).toEqual({ entries: 1 });
    const [marked] = (await operations().listEntries(search, 10, undefined)).entries;
    expect(marked?.isInvalid).toBe(true);
    proxy.clock.advance(10);
    await fetched(proxy, { status: 304, fields }, {}, new Uint8Array());
    await reused(proxy);
    expect(await operations().purge({ search, mode: 'hard' })).toEqual({ entries: 1 });
    expect((await operations().listEntries(search, 10, undefined)).entries).toEqual([]);
    expect(await operations().purge({ search, mode: 'hard' })).toEqual({ entries: 0 });
    await fetched(proxy, { fields });
  });

  it('rejects an invalid search', async () => {
    const search = { kind: 'url', url: 'files.example' } as const;
    await expect(operations().purge({ search, mode: 'hard' })).rejects.toMatchObject({ reason: 'invalid' });
  });
});

describe('warm', () => {
  const url = (name: string) => `http://files.example/${name}`;

  it('stores each URL, a few at a time, and reports each result', async () => {
    const urls = ['1', '2', '3', '4', '5', '6'].map(url);
    await fetched(proxy, { fields: fresh }, { target: '/2' });
    const warming = operations().warm({ urls });
    await settled();
    expect(proxy.origin.untaken).toBe(4);
    for (let count = 0; count < 5; count += 1) (await proxy.origin.next()).respond({ fields: fresh }, storedBody);
    const reports = await warming;
    expect(reports.map((report) => report.url)).toEqual(urls);
    for (const [at, { status, bytes, error, cacheStatus }] of reports.entries()) {
      expect({ status, bytes, error }).toEqual({ status: 200, bytes: 3000, error: undefined });
      expect(cacheStatus).toMatch(at === 1 ? /; hit/ : /; fwd=uri-miss; .*stored/);
    }
    await settled();
    for (const target of ['/1', '/6']) await reused(proxy, { target });
  });

  it('sends the given fields', async () => {
    const warming = operations().warm({ urls: [url('a')], fields: [['Accept-Encoding', 'gzip']] });
    const exchange = await proxy.origin.next();
    expect(exchange.request.fields).toContainEqual(['accept-encoding', 'gzip']);
    exchange.respond({ fields: { ...fresh, vary: 'accept-encoding' } }, storedBody);
    await warming;
    await reused(proxy, { target: '/a', fields: { 'accept-encoding': 'gzip' } });
  });

  it('reports a redirect, an error, and invalid URLs', async () => {
    const warming = operations().warm({ urls: [url('redirect'), url('error'), 'nothing', 'ftp://a/b'] });
    (await proxy.origin.next()).respond({ status: 301, fields: { location: '/x' } }, new Uint8Array());
    (await proxy.origin.next()).respond({ status: 500 }, storedBody);
    const [redirect, error, ...none] = await warming;
    expect(redirect).toMatchObject({ status: 301, bytes: 0, error: undefined });
    expect(error).toMatchObject({ status: 500, bytes: 3000, error: undefined });
    for (const { status, error: reason } of none) {
      expect({ status, reason }).toEqual({ status: 0, reason: 'expected an http or https URL' });
    }
  });

  it('tries again while the origin is busy, and gives up in the end', async () => {
    const { clock } = proxy;
    let calls = 0;
    const busy = async (): Promise<ProxyResponse> => {
      calls += 1;
      return calls < 3 || calls > 4 ? errorResponse(new ProxyError('origin_busy')) : { ...empty, status: 204 };
    };
    const empty = { fields: [], body: { kind: 'none' as const } };
    const parts = { handler: () => busy };
    const warming = operations(parts).warm({ urls: [url('a')] });
    for (let count = 1; count < 3; count += 1) {
      await clock.whenPending(1);
      expect(calls).toBe(count);
      clock.advance(1000);
    }
    expect(await warming).toMatchObject([{ status: 204, error: undefined }]);
    calls = 10;
    const failing = operations(parts).warm({ urls: [url('a')] });
    for (let count = 1; count < 30; count += 1) {
      await clock.whenPending(1);
      clock.advance(1000);
    }
    expect(await failing).toMatchObject([{ status: 503, bytes: 0, error: expect.stringContaining('origin') }]);
    expect(calls).toBe(40);
  });

  it('uses the handler that serves at that time', async () => {
    let now: Handler = proxy.handler;
    const { warm } = operations({ handler: () => now });
    now = async () => ({ status: 418, fields: [], body: { kind: 'none' } });
    expect(await warm({ urls: [url('a')] })).toMatchObject([{ status: 418 }]);
  });

  it.each([
    ['host', 'other.example'],
    ['Transfer-Encoding', 'chunked'],
    ['a b', 'c'],
    ['x', 'a\r\nb: c'],
    ['', 'x'],
    ['x', ' a'],
  ])('refuses to send %j: %j', async (name, value) => {
    const order = { urls: [url('a')], fields: [[name, value]] as const };
    await expect(operations().warm(order)).rejects.toMatchObject({ reason: 'invalid' });
  });

  it('refuses too many URLs', async () => {
    const urls = Array.from({ length: 10_001 }, () => url('a'));
    await expect(operations().warm({ urls })).rejects.toMatchObject({ reason: 'invalid' });
  });
});

describe('a path alone', () => {
  const names = ['files.example', 'other.example:8080', '127.0.0.1:8080'];
  const storeAll = async () => {
    for (const authority of names) {
      for (const target of ['/a', '/a?q', '/ab', '/x/a'])
        await fetched(proxy, { fields: fresh }, { authority, target });
    }
  };
  const left = async () => (await listAll({ kind: 'all' }, 100)).map((uri) => uri.replace(/^http:\/\/[^/]*/, ''));

  it.each<[EntrySearch['kind'] & ('url' | 'prefix'), string, string[]]>([
    ['url', '/a', ['/a?q', '/ab', '/x/a']],
    ['url', '/a?q', ['/a', '/ab', '/x/a']],
    ['url', '/./%61#part', ['/a?q', '/ab', '/x/a']],
    ['prefix', '/a', ['/x/a']],
    ['prefix', '/x/', ['/a', '/a?q', '/ab']],
  ])('(%s %s) is purged under every host name that clients have used', async (kind, url, want) => {
    await storeAll();
    expect((await operations().purge({ search: { kind, url }, mode: 'hard' })).entries).toBe(3 * (4 - want.length));
    expect((await left()).sort()).toEqual([...want, ...want, ...want].sort());
  });

  it('is expired under every host name', async () => {
    await storeAll();
    expect(await operations().purge({ search: { kind: 'url', url: '/a' }, mode: 'soft' })).toEqual({ entries: 3 });
    for (const authority of names) {
      const client = proxy.send({ authority, target: '/a' });
      const validation = await proxy.origin.next();
      expect(validation.request.fields).toContainEqual(['if-none-match', '"v1"']);
      validation.respond({ status: 304, fields: fresh }, new Uint8Array());
      expect(await client.status()).toBe(200);
      await client.bytes();
    }
    await reused(proxy, { target: '/ab' });
  });

  it('that is purged during a fill is not stored', async () => {
    const client = proxy.send({ target: '/a' });
    const exchange = await proxy.origin.next();
    exchange.head({ fields: { ...fresh, 'content-length': '3000' } });
    await client.status();
    await operations().purge({ search: { kind: 'url', url: '/a' }, mode: 'hard' });
    void exchange.send(storedBody);
    exchange.end();
    await client.bytes();
    await proxy.fillsEnded(1);
    expect(await left()).toEqual([]);
  });

  it('is warmed and explained as if a client on this machine requested it', async () => {
    const warming = operations().warm({ urls: ['/a?q'] });
    (await proxy.origin.next()).respond({ fields: fresh }, storedBody);
    expect(await warming).toMatchObject([{ url: 'http://127.0.0.1:8080/a?q', status: 200, bytes: 3000 }]);
    await reused(proxy, { authority: '127.0.0.1:8080', target: '/a?q' });
    expect(await operations().explain({ url: '/a?q' })).toMatchObject({
      kind: 'explained',
      explanation: { uri: 'http://127.0.0.1:8080/a?q', decision: { kind: 'hit' } },
    });
  });

  it.each<[addresses: string[], want: string]>([
    [['http://0.0.0.0:8080', 'https://[2001:db8::1]:8443', 'http://127.0.0.1:80'], 'https://[2001:db8::1]:8443/a'],
    [['unix:/run/a.sock', 'http://127.0.0.1:81'], 'http://127.0.0.1:81/a'],
  ])('with listeners at %j: %s', async (addresses, want) => {
    const reply = await operations({ addresses: () => addresses }).explain({ url: '/a' });
    expect(reply).toMatchObject({ explanation: { uri: want } });
  });

  it.each<[why: string, overrides: () => Partial<StoreParts>, message: RegExp]>([
    [
      'several routes',
      () => ({ routes: () => [proxy.route, proxy.route] }),
      /there are 2: expected a whole URL such as/,
    ],
    [
      'a route for some hosts',
      () => ({ routes: () => [{ ...proxy.route, match: { hosts: ['a.example'], pathPrefix: '/' } }] }),
      /the route is for a\.example only: expected a whole URL/,
    ],
    [
      'listeners on all addresses',
      () => ({ addresses: () => ['http://0.0.0.0:80', 'http://[::]:80', 'unix:/a'] }),
      /no listener has an address that clients ask for: expected a whole URL/,
    ],
  ])('is not enough with %s', async (_why, overrides, message) => {
    const { warm, explain } = operations(overrides());
    await expect(warm({ urls: ['/a'] })).rejects.toThrow(message);
    await expect(explain({ url: '/a' })).rejects.toThrow(message);
  });

  it('is not enough to purge where there are several routes', async () => {
    const { purge } = operations({ routes: () => [proxy.route, proxy.route] });
    const order = { search: { kind: 'url', url: '/a' }, mode: 'hard' } as const;
    await expect(purge(order)).rejects.toMatchObject({ reason: 'invalid' });
  });
});

describe('explain', () => {
  const url = 'http://files.example/a';

  it('uses the given method, fields, host and client', async () => {
    const method = 'HEAD';
    const reply = await operations().explain({
      url,
      method,
      fields: [
        ['Range', 'bytes=0-9'],
        ['Host', 'b.example'],
      ],
    });
    const explanation = {
      method,
      uri: 'http://b.example/a',
      plan: { range: { value: 'bytes=0-9', reason: 'method' } },
    };
    expect(reply).toMatchObject({ kind: 'explained', explanation });
    const calls: string[] = [];
    const explain = async (request: ProxyRequest) => {
      calls.push(request.peer.address);
      return { kind: 'answered', status: 404, detail: '' } as const;
    };
    await operations({ explain }).explain({ url });
    await operations({ explain }).explain({ url, client: '2001:db8::7' });
    expect(calls).toEqual(['127.0.0.1', '2001:db8::7']);
  });

  it.each([
    [{ url: 'ftp://a/b' }, 'expected an http or https URL'],
    [{ url, method: 'GE T' }, 'expected a method'],
    [{ url, client: 'localhost' }, 'expected the IP address'],
    [{ url, fields: [['a b', 'c']] as const }, 'cannot be sent'],
    [{ url, fields: [['Content-Length', '5']] as const }, 'cannot be sent'],
  ])('refuses %j', async (order, message) => {
    await expect(operations().explain(order)).rejects.toMatchObject({
      reason: 'invalid',
      message: expect.stringContaining(message),
    });
  });
});
