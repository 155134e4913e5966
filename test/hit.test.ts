/** The fast path of a hit (hit.ts) answers as the full path (proxy.ts) does. Any difference is a fault of the fast path. */

import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';

import { type CredentialRules, createAccess } from '../src/guard/access/access.ts';
import { createTokenTable } from '../src/guard/access/authorization.ts';
import type { PeerList } from '../src/guard/client.ts';
import {
  createCors,
  createFieldChange,
  createPresentation,
  createSecurityFields,
  type FieldRules,
  plainPresentation,
} from '../src/guard/fields/presentation.ts';
import { createGate, type GateParts } from '../src/guard/gate.ts';
import { type AllowanceRules, createAllowances } from '../src/guard/limits/allowances.ts';
import type { Field, Fields } from '../src/http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../src/http/message.ts';
import { ProxyError } from '../src/http/proxy-error.ts';
import type { StoredResponse } from '../src/http/stored-response.ts';
import type { Origin } from '../src/origin/origin.ts';
import { formatHttpDate } from '../src/semantics/http-date.ts';
import type { Store, StoredEntry } from '../src/store/store.ts';
import type { RequestEvent } from '../src/telemetry/events.ts';
import { requestOf, type Sent } from './support/clients/direct-client.ts';
import { hitOf, responseOf } from './support/clients/hit-answer.ts';

import { boundlessAllowances, noLimits, openAccess } from './support/proxies/open-gate.ts';
import { createWholeProxy, type WholeProxy, type WholeProxyOptions } from './support/proxies/whole-proxy.ts';
import { patternBytes } from './support/values/pattern-body.ts';

const { RANGEWAY_TEST_RUNS = '2000' } = process.env;
const numRuns = Number(RANGEWAY_TEST_RUNS);

const startAt = Date.UTC(2026, 0, 1);
const dateAt = (seconds: number) => formatHttpDate(startAt + seconds * 1000);
/** Identity digests: of an anonymous client, and of another client. */
const digests = ['', 'A'.repeat(24)] as const;

const key = 'http://origin.example/ http://files.example/file';

/** Makes a value in `percent` of cases, otherwise undefined. Most requests should be hits. */
function maybe<T>(arbitrary: fc.Arbitrary<T>, percent = 10): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight: percent, arbitrary }, { weight: 100 - percent, arbitrary: fc.constant(undefined) });
}

const rare = 3;
const token = 'a-token-that-is-long-enough';
const anyone = { allow: undefined, deny: undefined, credentials: undefined };

const tags = fc.constantFrom('"v1"', 'W/"v1"', '"v2"', 'W/"v2"', '"v1", "v2"', '*', 'v1', '');
const dates = fc.constantFrom(-7200, -3600, -60, 0, 3600).map(dateAt);

const responseFields: fc.Arbitrary<Fields> = fc
  .record({
    'cache-control': maybe(
      fc.constantFrom(
        ...new Array<string>(6).fill('max-age=600'),
        ...new Array<string>(6).fill('max-age=86400'),
        ...['public', 's-maxage=60', 'max-age=0', 'no-cache', 'private, max-age=9'],
        ...[
          'no-store',
          'max-age=60, stale-while-revalidate=600',
          'max-age=60, must-revalidate',
          'no-cache="x", max-age=9',
        ],
      ),
      90,
    ),
    expires: maybe(dates),
    date: maybe(fc.constantFrom(-60, 0, 60).map(dateAt), 80),
    age: maybe(fc.constantFrom('0', '30', '599', 'x')),
    'last-modified': maybe(dates, 40),
    etag: maybe(fc.constantFrom('"v1"', 'W/"v1"', '"v2"'), 40),
    'content-type': maybe(fc.constantFrom('text/plain', 'video/mp4')),
    'content-encoding': maybe(fc.constantFrom('gzip', 'identity')),
    'content-length': maybe(fc.constant('1024'), rare),
    'content-range': maybe(fc.constantFrom('bytes 0-1/2'), rare),
    'content-digest': maybe(fc.constantFrom('sha-256=:AAAA:'), rare),
    'repr-digest': maybe(fc.constantFrom('sha-256=:AAAA:'), rare),
    vary: maybe(fc.constantFrom('accept-encoding', 'cookie', '*'), rare),
    'cache-status': maybe(fc.constantFrom('upstream; hit'), rare),
    via: maybe(fc.constantFrom('1.1 upstream'), rare),
    connection: maybe(fc.constantFrom('x-gone'), rare),
    'x-gone': maybe(fc.constantFrom('1'), rare),
    'accept-ranges': maybe(fc.constantFrom('none', 'bytes'), rare),
    'set-cookie': maybe(fc.constantFrom('a=b'), rare),
  })
  .map((record) => Object.entries(record).filter((entry): entry is [string, string] => entry[1] !== undefined));

const nominated = fc.constantFrom<StoredResponse['nominated']>(
  ...[[], [], [], [], [], [], [], []],
  [['accept-encoding', 'gzip']],
  [['accept-encoding', null]],
  [['accept-encoding', 'br, gzip']],
  [['cookie', 'a=b']],
  [['*', null]],
);

interface StoredPlan {
  readonly metadata: StoredResponse;
  readonly sizeBytes: number;
}

const storedPlans: fc.Arbitrary<StoredPlan> = fc
  .record({
    status: fc.constantFrom(...new Array(20).fill(200), 404, 301, 206),
    fields: responseFields,
    nominated,
    identity: fc
      .constantFrom(undefined, ...digests, '')
      .map((digest) => (digest === undefined ? undefined : { digest, names: digest === '' ? [] : ['x-api-key'] })),
    responseAt: fc.constantFrom(0, 0, 0, -30_000, 50_000).map((ms) => startAt + ms),
    ownEntityTag: maybe(fc.constantFrom('"own"'), rare),
    bodyDigest: maybe(fc.constantFrom('ab'.repeat(32)), rare),
    isInvalid: maybe(fc.constant(true as const), rare),
    expiredAt: maybe(fc.constantFrom(startAt, startAt + 60_000), rare),
    selected: maybe(fc.constantFrom<StoredResponse['nominated']>([['x-app', 'a']], []), rare),
    fragment: maybe(fc.constant({ range: 'bytes=0-9', start: 0, wholeBytes: 100 }), rare),
    sizeBytes: fc.constantFrom(0, 1, 10, 1024, 1500, 5000),
  })
  .map(({ sizeBytes, ...metadata }) => {
    const present = Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== undefined));
    return { sizeBytes, metadata: { ...present, requestAt: metadata.responseAt } as StoredResponse };
  });

const requestFields = fc
  .record({
    range: maybe(
      fc.constantFrom(
        ...['bytes=0-0', 'bytes=5-', 'bytes=-3', 'bytes=0-', 'bytes=1000-1100', 'bytes=99999-', 'bytes=0-0, 5-6'],
        ...['bytes=0-4,5-9', 'bytes=3-1', 'items=0-1', '0-9', 'BYTES=1-2', 'bytes=-0', 'bytes=0-1,', 'bytes = 0-1', ''],
      ),
      40,
    ),
    'if-range': maybe(fc.oneof(tags, dates), 20),
    'if-none-match': maybe(tags, 15),
    'if-modified-since': maybe(fc.oneof(dates, fc.constant('yesterday')), 15),
    'if-match': maybe(tags, rare),
    'accept-encoding': maybe(fc.constantFrom('gzip', 'br, gzip', 'gzip, br', 'GZIP', 'identity', '', 'gzip;q=0'), 40),
    cookie: maybe(fc.constantFrom('a=b', '_ga=1', 'session=alice', ''), rare),
    authorization: maybe(
      fc.constantFrom(
        'Basic YTpi',
        'NTLM TlRMTVNTUAAB',
        `Bearer ${token}`,
        `bearer  ${token}`,
        'Bearer wrong',
        `Bearer ${token}, x`,
        '',
        '=',
        'Bearer',
      ),
      20,
    ),
    'x-api-key': maybe(fc.constantFrom('alice', token, `${token}, ${token}`), rare),
    'user-agent': maybe(fc.constantFrom('curl/8')),
    'cache-control': maybe(fc.constantFrom('no-cache', 'max-age=0', 'max-stale', 'only-if-cached'), rare),
    pragma: maybe(fc.constantFrom('no-cache'), rare),
    connection: maybe(fc.constantFrom('keep-alive', 'close', 'keep-alive, x-api-key'), rare),
    te: maybe(fc.constantFrom('trailers'), rare),
    via: maybe(fc.constantFrom('1.1 rangeway-test', '1.1 other'), rare),
    'x-forwarded-for': maybe(fc.constantFrom('198.51.100.9'), rare),
    'x-forwarded-proto': maybe(fc.constantFrom('https'), rare),
    origin: maybe(fc.constantFrom('https://app.example', 'https://evil.example', 'null', ''), 20),
    'max-forwards': maybe(fc.constantFrom('0'), rare),
    expect: maybe(fc.constantFrom('100-continue'), rare),
  })
  .map((record) => Object.entries(record).filter((entry): entry is [string, string] => entry[1] !== undefined));

interface RequestPlan {
  readonly sent: Sent;
  /** Milliseconds since the last request. */
  readonly afterMs: number;
}

const requestPlans: fc.Arbitrary<RequestPlan> = fc
  .record({
    method: fc.constantFrom(...['GET', 'GET', 'GET', 'GET', 'GET', 'GET', 'HEAD', 'HEAD', 'POST']),
    authority: fc.constantFrom(
      ...['files.example', 'files.example', 'files.example', 'FILES.example', 'files.example:80', 'files.example.', ''],
    ),
    target: fc.constantFrom(
      ...[...new Array<string>(30).fill('/file'), '/fil%65'],
      '/./file',
      '//file',
      '/file?',
      '/file#a',
      '/other',
    ),
    peer: fc.constantFrom('192.0.2.7', '192.0.2.7', '192.0.2.7', '::ffff:192.0.2.7', '2001:db8::1', '127.0.0.1'),
    fields: requestFields,
    afterMs: fc.constantFrom(0, 0, 0, 1, 999, 29_500, 60_000, 700_000),
  })
  .map(({ afterMs, fields, ...sent }) => ({ afterMs, sent: { ...sent, fields: Object.fromEntries(fields) } }));

const policies = fc.record({
  digest: fc.boolean(),
  rangeReuseSeconds: fc.constantFrom(60, 60, 0),
  defaultTtlSeconds: fc.constantFrom(0, 0, 300),
  acceptEncoding: fc.constantFrom('asSent' as const, 'normalise' as const, 'identity' as const),
  requestDirectives: fc.constantFrom('obey' as const, 'ignore' as const),
  setCookie: fc.constantFrom('refuse' as const, 'store' as const),
  identityFields: fc.constantFrom(
    { ignore: [], ignoreCookies: [], include: [], includeCookies: [] },
    { ignore: ['x-api-key'], ignoreCookies: ['session'], include: [], includeCookies: ['_ga'] },
    { ignore: [], ignoreCookies: [], include: ['user-agent'], includeCookies: [] },
  ),
});

function metadataOf(fields: Fields = [['cache-control', 'max-age=600']]): StoredResponse {
  return { status: 200, fields, nominated: [], requestAt: startAt, responseAt: startAt };
}

const tokens = createTokenTable([{ name: 'ada', secret: token, line: 1 }], new Uint8Array(32));
const noCredentials: CredentialRules = {
  realm: 'r',
  basic: undefined,
  bearer: undefined,
  apiKey: undefined,
  signedUrls: undefined,
  areForwarded: false,
};
const cors = { credentials: false, methods: ['GET'], requestFields: [], exposeFields: [], maxAgeSeconds: 1 };

/** Gates of the route: access, CORS, security fields and field rules. */
const gates = fc
  .record({
    credentials: fc.constantFrom<Partial<CredentialRules> | undefined>(
      ...[undefined, undefined, undefined, { bearer: tokens }, { apiKey: tokens }, { bearer: tokens, apiKey: tokens }],
      { bearer: tokens, areForwarded: true },
    ),
    deny: maybe(
      fc.constantFrom<PeerList>((address) => address === '2001:db8::1'),
      20,
    ),
    origins: fc.constantFrom(undefined, undefined, undefined, ['*'], ['https://app.example', 'null']),
    security: fc.constantFrom(undefined, undefined, { contentTypeOptions: true, strictTransportSecurity: 'max-age=9' }),
    change: fc.constantFrom<Partial<FieldRules> | undefined>(
      ...[undefined, undefined, undefined, undefined, { set: { 'x-new': '1' } }, { add: { vary: 'x-a' } }],
      ...[{ remove: ['etag'] }, { set: { age: '7' } }, { remove: ['age'] }, { add: { 'cache-status': 'other; hit' } }],
      ...[{ set: { 'cache-status': 'mine' } }, { remove: ['content-type'] }, { set: { 'content-type': 'a/b' } }],
      ...[{ set: { date: 'never' } }, { remove: ['content-range'] }, { set: { 'accept-ranges': 'none' } }],
    ),
  })
  .map(({ credentials, deny, origins, security, change }) =>
    createGate({
      access: createAccess({ ...anyone, deny, credentials: credentials && { ...noCredentials, ...credentials } }),
      allowances: boundlessAllowances,
      presentation: createPresentation({
        cors: origins && createCors({ ...cors, origins }),
        security: security && createSecurityFields(security),
        change: change && createFieldChange({ remove: [], set: {}, add: {}, ...change }),
      }),
    }),
  );

async function keep(store: Store, { metadata, sizeBytes }: StoredPlan, variant: string): Promise<void> {
  await using writer = await store.openWriter({ key, variant, metadata, sizeBytes });
  for (let start = 0, index = 0; start < sizeBytes; start += store.blockSizeBytes, index += 1) {
    const end = Math.min(sizeBytes, start + store.blockSizeBytes);
    await writer.writeBlock(index, patternBytes(start, end));
  }
  await writer.commit({ metadata, sizeBytes });
}

/** Reads what a client sees of a response: status, sorted fields, length and bytes (in hexadecimal). */
async function read(response: ProxyResponse) {
  const { body, status, fields } = response;
  const chunks: Uint8Array[] = [];
  if (body.kind === 'bytes') chunks.push(...body.chunks);
  if (body.kind === 'stream') for await (const chunk of body.stream) chunks.push(chunk);
  const isSent = status !== 304;
  return {
    status,
    fields: fields.map((field: Field) => field.join(': ')).sort(),
    length: body.kind === 'none' || body.kind === 'file' ? undefined : body.sizeBytes,
    bytes: isSent ? Buffer.concat(chunks).toString('hex') : '',
  };
}

/** An origin that refuses every request: a miss gets 502. */
const deadOrigin: Origin = {
  fetch: () => Promise.reject(new ProxyError('origin_refused')),
  close: async () => {},
};

type Reading = Awaited<ReturnType<typeof read>>;

/** Runs a request on the full path. Returns the response and its event. A request to the origin is answered with 502. */
async function whole(proxy: WholeProxy, request: ProxyRequest): Promise<{ reading: Reading; event: RequestEvent }> {
  const eventCount = proxy.requestEvents().length;
  const response = await proxy.handler(request);
  const reading = await read(response);
  response.onDelivered?.({ bytesSent: reading.bytes.length / 2, complete: true });
  return { reading, event: proxy.requestEvents()[eventCount] as RequestEvent };
}

describe('the fast path of a hit', () => {
  it('gives the same response and event as the full path, wherever it answers', { timeout: 120_000 }, async () => {
    const answered = new Map<number, number>();
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          { weight: 9, arbitrary: fc.array(storedPlans, { minLength: 1, maxLength: 1 }) },
          fc.array(storedPlans, { minLength: 2, maxLength: 2 }),
        ),
        fc.array(requestPlans, { minLength: 1, maxLength: 6 }),
        policies,
        gates,
        async (stored, requests, cache, gate) => {
          // With `normalise`, every request has a value, so no stored variant lacks Accept-Encoding.
          fc.pre(
            cache.acceptEncoding !== 'normalise' || !stored.some(({ metadata }) => metadata.nominated[0]?.[1] === null),
          );
          const proxy = createWholeProxy({ route: { cache }, origin: deadOrigin, gate } as WholeProxyOptions);
          for (const [index, plan] of stored.entries()) await keep(proxy.store, plan, index === 0 ? '' : 'other');
          for (const { sent, afterMs } of requests) {
            proxy.clock.advance(afterMs);
            const request = requestOf(sent, proxy.clock.now());
            const hit = hitOf(proxy.handler, request);
            if (hit === undefined) continue;
            answered.set(hit.status, (answered.get(hit.status) ?? 0) + 1);
            const eventCount = proxy.requestEvents().length;
            const response = responseOf(hit, proxy.clock.now);
            const reading = await read(response);
            response.onDelivered?.({ bytesSent: reading.bytes.length / 2, complete: true });
            const { isAtOnce: _, ...event } = proxy.requestEvents()[eventCount] as RequestEvent;
            const expected = await whole(proxy, request);
            expect(reading).toEqual(expected.reading);
            expect({ ...event, isAtOnce: undefined }).toEqual({ ...expected.event, isAtOnce: undefined });
          }
          await proxy.close();
        },
      ),
      { numRuns },
    );
    // The fast path has answered with every status that it can.
    expect([...answered.keys()].sort()).toEqual([200, 206, 304]);
  });

  const plain = { metadata: metadataOf(), sizeBytes: 10 };
  const gateOf = (parts: Partial<GateParts>) =>
    createGate({ access: openAccess, allowances: boundlessAllowances, presentation: plainPresentation, ...parts });
  const limited = (rules: Partial<AllowanceRules>) => ({
    allowances: createAllowances({ ...noLimits, ...rules }, { now: () => 0, after: () => () => {} }),
  });
  const changing = (change: Partial<FieldRules>) =>
    createPresentation({
      cors: undefined,
      security: undefined,
      change: createFieldChange({ remove: [], set: {}, add: {}, ...change }),
    });
  const noFields = { ignore: [], ignoreCookies: [], include: [], includeCookies: [] };
  const bypass = { fields: [], cookies: [], queryParameters: [] };
  const cacheKey = { query: 'all', fields: [], cookies: [] } as const;

  it.each<[name: string, isAnswered: boolean, options: WholeProxyOptions]>([
    ['nothing special', true, {}],
    ['a gate that is open', true, { gate: gateOf({}) }],
    [
      'a budget of bytes',
      true,
      { gate: gateOf(limited({ amplification: { factor: 10, freeBytes: 1, windowMs: 1 } })) },
    ],
    ['addresses that are refused', false, { gate: gateOf({ access: createAccess({ ...anyone, deny: () => true }) }) }],
    ['addresses that are allowed', true, { gate: gateOf({ access: createAccess({ ...anyone, allow: () => true }) }) }],
    ['a rate', true, { gate: gateOf(limited({ rate: { requests: 9, seconds: 9, burst: 9 } })) }],
    ['a limit on concurrent requests', false, { gate: gateOf(limited({ requestsPerClient: 9 })) }],
    ['fields for the client', true, { gate: gateOf({ presentation: changing({ set: { a: 'b' } }) }) }],
    ['a rule that sets Age', false, { gate: gateOf({ presentation: changing({ set: { age: '1' } }) }) }],
    ['a rule that removes Age', false, { gate: gateOf({ presentation: changing({ remove: ['age'] }) }) }],
    ['no cache', false, { route: { cache: { enabled: false } } }],
    ['a field to bypass it by', false, { route: { cache: { bypass: { ...bypass, fields: ['x-a'] } } } }],
    ['a cookie to bypass it by', false, { route: { cache: { bypass: { ...bypass, cookies: ['a'] } } } }],
    ['a parameter to bypass it by', false, { route: { cache: { bypass: { ...bypass, queryParameters: ['a'] } } } }],
    ['a field in the key', false, { route: { cache: { key: { ...cacheKey, fields: ['x-a'] } } } }],
    ['a cookie in the key', false, { route: { cache: { key: { ...cacheKey, cookies: ['a'] } } } }],
    [
      'a field that identifies the client, where the response states a lifetime',
      true,
      { route: { cache: { identityFields: { ...noFields, include: ['x-a'] } } } },
    ],
  ])('with %s answers: %s', async (_name, isAnswered, options) => {
    const proxy = createWholeProxy(options);
    await keep(proxy.store, plain, '');
    expect(hitOf(proxy.handler, requestOf({}, proxy.clock.now())) !== undefined).toBe(isAnswered);
    await proxy.close();
  });

  it('keeps no prepared fields for web origins that are not configured', async () => {
    const presentation = createPresentation({
      cors: createCors({ ...cors, origins: ['https://app.example'] }),
      security: undefined,
      change: undefined,
    });
    const proxy = createWholeProxy({ gate: gateOf({ presentation }) });
    await keep(proxy.store, plain, '');
    const fieldsFor = (fields: Sent['fields'] = {}) =>
      hitOf(proxy.handler, requestOf({ fields }, proxy.clock.now()))?.fields;
    const forAll = fieldsFor();
    expect(forAll).toBeDefined();
    for (const origin of ['', 'null', 'https://evil.example', `https://${'a'.repeat(60_000)}.example`])
      expect(fieldsFor({ origin })).toBe(forAll);
    expect(fieldsFor({ origin: 'https://app.example' })).not.toBe(forAll);
    await proxy.close();
  });

  it('does not answer where the entry is expired, invalid, replaced or gone', async () => {
    const proxy = createWholeProxy();
    const isHit = () => hitOf(proxy.handler, requestOf({}, proxy.clock.now())) !== undefined;
    const purge = (mode: 'soft' | 'hard') => proxy.cache.purge({ mode, keys: [key], prefixes: [], tags: [] });
    await keep(proxy.store, plain, '');
    expect(isHit()).toBe(true);
    await purge('soft');
    expect(isHit()).toBe(false);
    await keep(proxy.store, plain, '');
    expect(isHit()).toBe(true);
    const [entry] = (await proxy.store.find(key)) as [StoredEntry];
    await proxy.store.replaceMetadata(entry, { ...entry.metadata, isInvalid: true });
    expect(isHit()).toBe(false);
    await keep(proxy.store, { ...plain, metadata: metadataOf([['cache-control', 'max-age=1']]) }, '');
    expect(isHit()).toBe(true);
    proxy.clock.advance(1000);
    expect(isHit()).toBe(false);
    await keep(proxy.store, plain, '');
    await purge('hard');
    expect(isHit()).toBe(false);
    await proxy.close();
  });

  it('leaves a request at which it fails to the full path', async () => {
    const proxy = createWholeProxy();
    await keep(proxy.store, plain, '');
    vi.spyOn(proxy.store, 'peek').mockImplementation(() => {
      throw new Error('the store is broken');
    });
    expect(hitOf(proxy.handler, requestOf({}, proxy.clock.now()))).toBeUndefined();
    await proxy.close();
  });
});
