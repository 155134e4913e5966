/** What makes a precedent and what does not; who may follow it, with what, and for how long. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createFieldChange } from '../../src/guard/field-rules.ts';
import { createPeerList } from '../../src/guard/peers.ts';
import type { OriginRequest } from '../../src/origin/origin.ts';
import type { RequestEvent } from '../../src/telemetry/events.ts';
import { createAnsweringOrigin } from '../support/answering-origin.ts';
import { createRules } from '../support/credential-ground.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { type Asked, PrecedentGround, type PrecedentGroundOptions, trustedPeer } from '../support/precedent-ground.ts';

const size = 5000;
const body = patternBytes(0, size);
const date = 'Thu, 01 Jan 2026 00:00:00 GMT';
const plain = { date, etag: '"v1"', 'last-modified': 'Wed, 01 Jan 2025 00:00:00 GMT', 'cache-control': 'max-age=600' };

/** The fields of the resources, by path. */
const resources: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '/short': { ...plain, 'cache-control': 'max-age=2' },
  '/lasting': { ...plain, 'cache-control': 'max-age=1, stale-while-revalidate=60' },
  '/language': { ...plain, vary: 'Accept-Language' },
  '/sender': { ...plain, vary: 'X-Forwarded-For' },
  '/real-ip': { ...plain, vary: 'X-Real-IP' },
  '/guess': { date, etag: '"v1"' },
  '/public': { ...plain, 'cache-control': 'public, max-age=600' },
  '/parts': { ...plain, 'content-type': 'multipart/byteranges; boundary=a' },
  '/private': { ...plain, 'cache-control': 'private, max-age=600' },
};

let ground: PrecedentGround;
let asked: OriginRequest[];
/** Not on a whole second, where the lifetime that is left changes a millisecond later. */
const open = (options: Partial<PrecedentGroundOptions> = {}): PrecedentGround => {
  asked = [];
  const fieldsOf = (path: string) => resources[path] ?? plain;
  const origin = createAnsweringOrigin({ bytes: body, fieldsOf, hasRanges: true, asked });
  ground = new PrecedentGround({ origin, isFollowing: true, ...options });
  return ground;
};
beforeEach(() => void open());
afterEach(() => ground.close());

/** Has the whole of a target stored, some milliseconds ago. */
async function store(target = '/file', fields: Asked['fields'] = {}, peer?: string): Promise<void> {
  await ground.ask({ target, fields, ...(peer === undefined ? {} : { peer }) });
  ground.clock.advance(100);
}

const authorization = 'Bearer token-of-robot-01';
const ranged = { range: 'bytes=0-99' };

describe('a response leaves a precedent', () => {
  it.each<[name: string, asked: Asked]>([
    ['for a range', { fields: ranged }],
    ['for the whole', {}],
    ['for a head', { method: 'HEAD' }],
    ['for a range whose unit is written otherwise', { fields: { range: 'BYTES=0-99' } }],
    [
      'with Authorization that nobody here asks for',
      { target: '/public', fields: { ...ranged, authorization: 'Bearer x' } },
    ],
    [
      'with a field that a proxy would tell, of a peer that is not believed',
      { fields: { 'x-forwarded-for': '203.0.113.1' } },
    ],
    ['of a trusted peer', { peer: trustedPeer, fields: { 'x-forwarded-for': '203.0.113.1' } }],
    ['of what is selected by a field of the request', { target: '/language', fields: { 'accept-language': 'de' } }],
    ['of what lasts for ranges only', { target: '/guess', fields: ranged }],
  ])('%s', async (_name, request) => {
    const { target, fields, peer } = request;
    await store(target, { ...fields, range: 'bytes=0-' }, peer);
    const first = await ground.ask(request);
    const again = await ground.ask(request);
    expect([first.isFollowed, again.isFollowed]).toEqual([false, true]);
    expect({ ...again, isFollowed: false }).toEqual(first);
  });

  it.each<[name: string, asked: Asked, options?: Partial<PrecedentGroundOptions>]>([
    ['with a condition', { fields: { 'if-none-match': '"v0"' } }],
    ['with a condition on a date', { fields: { 'if-modified-since': 'Wed, 01 Jan 2020 00:00:00 GMT' } }],
    ['with a condition that holds', { fields: { 'if-match': '"v1"' } }],
    ['with a condition on a range', { fields: { ...ranged, 'if-range': '"v1"' } }],
    ['with a wish about caches', { fields: { 'cache-control': 'max-age=300' } }],
    ['with a wish about old caches', { fields: { pragma: 'x' } }],
    ['that asks for two ranges that become one', { fields: { range: 'bytes=0-9,10-19' } }],
    ['that asks for several ranges', { fields: { range: 'bytes=0-9,20-29' } }],
    ['that asks for a range behind the end', { fields: { range: 'bytes=5000-' } }],
    ['with a range that is ignored', { fields: { range: 'lines=0-9' } }],
    ['for the head of a range', { method: 'HEAD', fields: ranged }],
    ['with another method', { method: 'POST' }],
    ['for what is not shared', { target: '/private' }],
    ['for a range of what says that it is ranges', { target: '/parts', fields: ranged }],
    ['for what is selected by its sender', { target: '/sender', fields: ranged }],
    ['for what is selected by the address of its sender', { target: '/real-ip', fields: ranged }],
    ['that counts', { fields: ranged }, { limits: { rate: { requests: 100, seconds: 1, burst: 100 } } }],
    ['that takes a place', { fields: ranged }, { limits: { requestsPerClient: 100 } }],
    [
      'that needs credentials',
      { fields: { ...ranged, authorization } },
      { access: { credentials: createRules(['bearer']).rules } },
    ],
  ])('not where it is the answer to one %s', async (_name, request, options = {}) => {
    await ground.close();
    open(options);
    await store(request.target, options.access === undefined ? {} : { authorization });
    const got = [await ground.ask(request), await ground.ask(request), await ground.ask(request)];
    expect(got.map(({ status }) => status >= 500)).toEqual([false, false, false]);
    expect(got.map(({ isFollowed }) => isFollowed)).toEqual([false, false, false]);
  });

  it('not where it was not in memory in the same tick', async () => {
    const first = await ground.leaves({ fields: ranged });
    expect(first).toBeUndefined();
  });

  it('not where an operator rules what it says of its range', async () => {
    const change = createFieldChange({ remove: [], set: { 'content-range': 'x' }, add: {} });
    ground.reload({ change });
    await store();
    await ground.ask({ fields: ranged });
    expect((await ground.ask({ fields: ranged })).isFollowed).toBe(false);
  });
});

describe('a precedent is followed', () => {
  it.each<[range: string, want: string | undefined]>([
    ['bytes=0-0', 'bytes 0-0/5000'],
    ['bytes=1000-3000', 'bytes 1000-3000/5000'],
    ['bytes=4999-', 'bytes 4999-4999/5000'],
    ['bytes=0-', 'bytes 0-4999/5000'],
    ['bytes=-1', 'bytes 4999-4999/5000'],
    ['bytes=-9999', 'bytes 0-4999/5000'],
    ['bytes=0-99999999999999999999', 'bytes 0-4999/5000'],
    ['Bytes= 5-9 ,', 'bytes 5-9/5000'],
    // The whole road has other answers.
    ['bytes=5000-', undefined],
    ['bytes=-0', undefined],
    ['bytes=9-5', undefined],
    ['bytes=0-0,9-9', undefined],
    ['bytes=0-0,1-1', undefined],
    ['bytes=', undefined],
    ['bytes', undefined],
    ['', undefined],
    ['lines=0-9', undefined],
  ])('by one with the range %o: %s', async (range, want) => {
    await store();
    await ground.ask({ fields: ranged });
    const got = await ground.ask({ fields: { range } });
    expect(got.isFollowed).toBe(want !== undefined);
    const [contentRange] = got.fields.filter((line) => line.startsWith('content-range: bytes'));
    if (want !== undefined) expect(contentRange).toBe(`content-range: ${want}`);
    const [, start, end] = /bytes ([0-9]+)-([0-9]+)/.exec(want ?? '') ?? [];
    if (want !== undefined) expect(got.bytes).toEqual(Buffer.from(patternBytes(Number(start), Number(end) + 1)));
  });

  it('with one array of fields, as long as they are the same', async () => {
    await store();
    const precedent = await ground.leaves({ fields: ranged });
    const follow = (range: string) => precedent?.follow({ range, peer: { address: 'x', port: 1 }, receivedAt: 0 });
    expect(follow('bytes=1-1')?.fields).toBe(follow('bytes=5-9')?.fields);
  });

  it('not by one without a range where the first had one, nor the other way round', async () => {
    await store();
    const peer = { address: '192.0.2.7', port: 1 };
    const partial = await ground.leaves({ fields: ranged });
    const whole = await ground.leaves({});
    expect(partial?.follow({ range: undefined, peer, receivedAt: 0 })).toBeUndefined();
    expect(whole?.follow({ range: 'bytes=0-9', peer, receivedAt: 0 })).toBeUndefined();
    expect(whole?.follow({ range: undefined, peer, receivedAt: 0 })?.sizeBytes).toBe(size);
  });

  const proxied = { fields: { ...ranged, 'x-forwarded-for': '203.0.113.1' } };
  const allow = createPeerList([{ address: '192.0.2.0', prefixLength: 24, family: 'ipv4' }]);
  const deny = createPeerList([{ address: '192.0.2.9', prefixLength: 32, family: 'ipv4' }]);
  it.each<[name: string, options: Partial<PrecedentGroundOptions>, first: string, second: string, want: boolean]>([
    ['by any peer', {}, '192.0.2.7', '192.0.2.8', true],
    ['by a peer of another family', {}, '192.0.2.7', '2001:db8::1', true],
    ['by a peer of a Unix socket', {}, '192.0.2.7', '', true],
    ['not by a trusted one after another', {}, '192.0.2.7', trustedPeer, false],
    ['not by a trusted one in a mapped form', {}, '192.0.2.7', `::ffff:${trustedPeer}`, false],
    ['not by another one after a trusted one', {}, trustedPeer, '192.0.2.7', false],
    ['by the same trusted one', {}, trustedPeer, trustedPeer, true],
    ['by the same one where addresses are let in', { access: { allow } }, '192.0.2.7', '192.0.2.7', true],
    ['not by another one where addresses are let in', { access: { allow } }, '192.0.2.7', '192.0.2.8', false],
    ['not by one that may not pass', { access: { allow } }, '192.0.2.7', '203.0.113.9', false],
    ['not by one that is kept out', { access: { deny } }, '192.0.2.7', '192.0.2.9', false],
  ])('%s', async (_name, options, first, second, want) => {
    await ground.close();
    open({ ...options, cache: {} });
    await store('/file', {}, first === trustedPeer ? '192.0.2.7' : first);
    const isLetIn = options.access === undefined;
    await ground.ask({ ...proxied, peer: first });
    const got = await ground.ask({ ...proxied, peer: second });
    expect(got.isFollowed).toBe(want);
    if (isLetIn) expect(got.status).toBe(206);
  });

  it('with the same event as on the whole road, but for what is its own', async () => {
    await store();
    await ground.ask({ fields: ranged, peer: '192.0.2.7' });
    await ground.ask({ fields: { range: 'bytes=7-8' }, peer: '::ffff:192.0.2.8' });
    const [first, second] = ground.events.filter(({ kind }) => kind === 'request').slice(-2) as RequestEvent[];
    const own = { peer: '::ffff:192.0.2.8', client: '192.0.2.8', range: 'bytes=7-8', bytesSent: 2 };
    expect(second).toEqual({ ...first, ...own });
    expect(Object.keys(second ?? {})).toEqual(Object.keys(first ?? {}));
    expect(ground.events.slice(-4).map(({ kind }) => kind)).toEqual(['begun', 'request', 'begun', 'request']);
  });

  it('and what it delivers is paid back on the account of the one that follows', async () => {
    const paid: unknown[] = [];
    await ground.close();
    open();
    await store();
    const precedent = await ground.leaves({ fields: ranged });
    const peer = { address: '2001:db8::1', port: 1 };
    ground.onRepaid = (...what) => paid.push(what);
    precedent?.follow({ range: 'bytes=0-9', peer, receivedAt: 0 })?.onDelivered({ bytesSent: 4, complete: false });
    expect(paid).toEqual([['2001:db8::1', 'http://origin.example/ http://files.example/file', 4]]);
  });
});

describe('a precedent ends', () => {
  /** Leaves one, does something, and tells whether it can be followed then. */
  async function isFollowedAfter(change: () => unknown, target = '/file'): Promise<boolean> {
    await store(target);
    const precedent = await ground.leaves({ target, fields: ranged });
    const peer = { address: '192.0.2.7', port: 1 };
    const follow = () => precedent?.follow({ range: 'bytes=5-9', peer, receivedAt: ground.clock.now() });
    expect(follow()).toBeDefined();
    await change();
    return follow() !== undefined;
  }
  const key = 'http://origin.example/ http://files.example/file';
  const order = { keys: [key], prefixes: [], tags: [] };
  const advance = (ms: number) => () => ground.clock.advance(ms);

  it.each<[name: string, change: () => unknown, want: boolean, target?: string]>([
    ['not with nothing', () => {}, true],
    ['not before the next second of Age', advance(899), true],
    ['with the next second of Age', advance(900), false],
    ['with a clock that is set back', advance(-1), false],
    ['not before its lifetime does', advance(899), true, '/short'],
    ['with its lifetime', advance(1900), false, '/short'],
    ['where it may be served stale', advance(900), false, '/lasting'],
    ['with a purge', () => ground.cache.purge({ ...order, mode: 'hard' }), false],
    ['with a soft purge', () => ground.cache.purge({ ...order, mode: 'soft' }), false],
    ['with an eviction', () => ground.store.removeKey(key), false],
    ['with fields that are freshened', () => ground.store.replaceMetadata(entry(), { ...entry().metadata }), false],
    ['with a reload', () => ground.reload({}), false],
  ])('%s', async (_name, change, want, target) => {
    expect(await isFollowedAfter(change, target)).toBe(want);
  });

  const entry = () => {
    const [found] = ground.store.peek(key) ?? [];
    if (found === undefined) throw new Error('nothing is stored');
    return found;
  };

  it('at once where the rest of a second of its lifetime is none', async () => {
    await ground.ask();
    const precedent = await ground.leaves({ fields: ranged });
    const peer = { address: '192.0.2.7', port: 1 };
    expect(precedent?.follow({ range: 'bytes=0-1', peer, receivedAt: 0 })?.status).toBe(206);
    ground.clock.advance(1);
    expect(precedent?.follow({ range: 'bytes=0-1', peer, receivedAt: 0 })).toBeUndefined();
  });
});
