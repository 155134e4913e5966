import { describe, expect, it } from 'vitest';
import {
  decideStoring,
  isForOneClient,
  type StoringPolicy,
  type StoringRefusal,
  storableFields,
} from '../../src/semantics/storing.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { fieldsOf, sentAt, sentDate, storedWith } from '../support/values/fields-of.ts';

const policy: StoringPolicy = { ...defaultCaching, setCookie: 'store' };
const fresh = 'Cache-Control: max-age=60';
const lastModified = 'Last-Modified: Wed, 31 Dec 2025 12:00:00 GMT';

interface Case {
  readonly request?: readonly string[];
  readonly response?: readonly string[];
  readonly method?: string;
  readonly status?: number;
  readonly policy?: Partial<StoringPolicy>;
}

function decide({ request = [], response = [], method = 'GET', status = 200, policy: own = {} }: Case): string {
  const decision = decideStoring({
    request: { method, fields: fieldsOf(...request) },
    response: storedWith(response, { status }),
    policy: { ...policy, ...own },
  });
  return decision.kind === 'store' ? 'store' : decision.reason;
}

describe('decideStoring, RFC 9111 §3', () => {
  const responses: readonly (readonly [response: readonly string[], decision: 'store' | StoringRefusal])[] = [
    [[fresh], 'store'],
    [['Cache-Control: s-maxage=60'], 'store'],
    [['Expires: Thu, 01 Jan 2026 13:00:00 GMT'], 'store'],
    [[lastModified], 'store'],
    // §5.2.2.5, §5.2.2.7: the most restrictive directive applies.
    [['Cache-Control: no-store'], 'no-store'],
    [['Cache-Control: max-age=60, No-Store'], 'no-store'],
    [[fresh, 'Cache-Control: no-store'], 'no-store'],
    [['Cache-Control: private, max-age=60'], 'private'],
    [['Cache-Control: private=""'], 'private'],
    [['Cache-Control: public, private, max-age=60'], 'private'],
    [['Cache-Control: private="x-user", max-age=60'], 'store'],
    [['Cache-Control: max-age=60; private'], 'private'],
    // §4.1.
    [[fresh, 'Vary: Accept-Encoding'], 'store'],
    [[fresh, 'Vary: *'], 'vary-star'],
    [[fresh, 'Vary: Foo, *'], 'vary-star'],
    [[fresh, 'Vary: Foo', 'Vary: , *'], 'vary-star'],
    // A live stream has no end; a lifetime that the origin states says otherwise.
    [[lastModified, 'Content-Type: multipart/x-mixed-replace; boundary=frame'], 'stream'],
    [['ETag: "a"', 'Content-Type: Text/Event-Stream ;charset=utf-8'], 'stream'],
    [['ETag: "a"', 'icy-metaint: 16000'], 'stream'],
    [['ETag: "a"', 'icy-br: 128', 'Content-Length: 2147483647'], 'stream'],
    [['Content-Type: video/mp4', 'Content-Length: 4294967295'], 'stream'],
    [
      ['Content-Type: video/mp4', 'Content-Length: 2147483647', 'Last-Modified: Wed, 31 Dec 2025 12:00:00 GMT'],
      'store',
    ],
    [['ETag: "a"', 'Cache-Control: no-cache', 'ice-audio-info: bitrate=128'], 'stream'],
    [['ETag: "a"', 'Cache-Control: max-age=0', 'Content-Type: text/event-stream'], 'stream'],
    [[fresh, 'Content-Type: text/event-stream'], 'store'],
    [['ETag: "a"', 'Content-Type: multipart/mixed; boundary=x'], 'store'],
    [['ETag: "a"', 'Content-Type: audio/mpeg', 'icycle: 1'], 'store'],
    // §7.3: Set-Cookie does not prevent storing a response for which the origin states a lifetime.
    [[fresh, 'Set-Cookie: a=b'], 'store'],
    [['Cache-Control: public, s-maxage=60', 'Set-Cookie: a=b'], 'store'],
    [['Expires: Thu, 01 Jan 2026 13:00:00 GMT', 'Set-Cookie: a=b'], 'store'],
    [['Cache-Control: max-age=0', 'ETag: "a"', 'Set-Cookie: a=b'], 'set-cookie'],
    [['Cache-Control: public', 'ETag: "a"', 'Set-Cookie: a=b'], 'set-cookie'],
    [[lastModified, 'Set-Cookie: a=b'], 'set-cookie'],
    [['Set-Cookie: a=b'], 'set-cookie'],
    [['Cache-Control: max-age=60, no-cache="Set-Cookie"', 'Set-Cookie: a=b'], 'store'],
    [['Cache-Control: max-age=60, private="Set-Cookie"', 'Set-Cookie: a=b'], 'store'],
    [['Cache-Control: no-cache="set-cookie"', 'ETag: "a"', 'Set-Cookie: a=b'], 'store'],
    // Content-Range has no meaning in a 200, RFC 9110 §14.4.
    [[fresh, 'Content-Range: bytes 0-9/100'], 'store'],
    // Responses that could never be reused.
    [['Cache-Control: max-age=0'], 'no-freshness'],
    [['Cache-Control: max-age=abc'], 'no-freshness'],
    [['Expires: 0'], 'no-freshness'],
    [['Cache-Control: max-age=0', 'ETag: "a"'], 'store'],
    [['Cache-Control: max-age=0', lastModified], 'store'],
    [['Cache-Control: max-age=0', 'ETag: unquoted'], 'no-freshness'],
    [['Cache-Control: no-cache'], 'no-freshness'],
    [['Cache-Control: no-cache, max-age=60'], 'no-freshness'],
    [['Cache-Control: no-cache', 'ETag: "a"'], 'store'],
    [['Cache-Control: no-cache="x", max-age=60'], 'store'],
    // Without a lifetime a response is stored for Range requests.
    [[], 'store'],
    [['Cache-Control: public'], 'store'],
  ];
  it.each(responses)('a 200 with %j: %s', (response, decision) => {
    expect(decide({ response })).toBe(decision);
  });

  it('stores no response without a lifetime and validator where rangeReuseSeconds is 0', () => {
    expect(decide({ policy: { rangeReuseSeconds: 0 } })).toBe('no-freshness');
    expect(decide({ policy: { rangeReuseSeconds: 0 }, response: ['ETag: "a"'] })).toBe('store');
    expect(decide({ policy: { rangeReuseSeconds: 0, defaultTtlSeconds: 10 } })).toBe('store');
  });

  const requests: readonly (readonly [request: readonly string[], cacheControl: string, decision: string])[] = [
    [[], 'max-age=60', 'store'],
    [['Cache-Control: no-store'], 'max-age=60', 'no-store'],
    [['Cache-Control: no-cache'], 'max-age=60', 'store'],
    [['Cookie: a=b'], 'max-age=60', 'store'],
    [['Range: bytes=0-1'], 'max-age=60', 'store'],
    // §3.5.
    [['Authorization: Basic eA=='], 'max-age=60', 'authorization'],
    [['Authorization: Basic eA=='], 'max-age=60, proxy-revalidate', 'authorization'],
    [['Authorization: Basic eA=='], 'max-age=60, public', 'store'],
    // They authenticate the connection.
    [['Authorization: NTLM TlRM'], 'max-age=60, public', 'connection-auth'],
    [['Authorization: negotiate YII='], 'max-age=60, public', 'connection-auth'],
    [['Authorization: NTLMish eA=='], 'max-age=60, public', 'store'],
    [['Authorization: Basic eA=='], 'max-age=60, must-revalidate', 'store'],
    [['Authorization: Basic eA=='], 's-maxage=60', 'store'],
    [['Authorization: Basic eA=='], 'public, private', 'private'],
  ];
  it.each(requests)('a request with %j, a response with %s: %s', (request, cacheControl, decision) => {
    expect(decide({ request, response: [`Cache-Control: ${cacheControl}`] })).toBe(decision);
  });

  it.each(['HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'get', 'FROB'])(
    'stores no response to %s',
    (method) => {
      expect(decide({ method, response: [fresh] })).toBe('method');
    },
  );

  const statuses: readonly (readonly [status: number, explicit: string, modified: string, silent: string])[] = [
    [100, 'status', 'status', 'status'],
    [103, 'status', 'status', 'status'],
    [200, 'store', 'store', 'store'],
    [201, 'store', 'no-freshness', 'no-freshness'],
    [203, 'store', 'store', 'no-freshness'],
    [204, 'store', 'store', 'no-freshness'],
    [206, 'status', 'status', 'status'],
    [299, 'store', 'no-freshness', 'no-freshness'],
    [300, 'store', 'store', 'no-freshness'],
    [301, 'store', 'store', 'no-freshness'],
    [302, 'store', 'no-freshness', 'no-freshness'],
    [303, 'store', 'no-freshness', 'no-freshness'],
    [304, 'status', 'status', 'status'],
    [307, 'store', 'no-freshness', 'no-freshness'],
    [308, 'store', 'store', 'no-freshness'],
    [400, 'store', 'no-freshness', 'no-freshness'],
    [401, 'status', 'status', 'status'],
    [403, 'store', 'no-freshness', 'no-freshness'],
    [404, 'store', 'store', 'no-freshness'],
    [405, 'store', 'store', 'no-freshness'],
    [406, 'status', 'status', 'status'],
    [407, 'status', 'status', 'status'],
    [408, 'status', 'status', 'status'],
    [410, 'store', 'store', 'no-freshness'],
    [412, 'status', 'status', 'status'],
    [413, 'status', 'status', 'status'],
    [414, 'store', 'store', 'no-freshness'],
    [416, 'status', 'status', 'status'],
    // RFC 6585 forbids these four.
    [428, 'status', 'status', 'status'],
    [429, 'status', 'status', 'status'],
    [431, 'status', 'status', 'status'],
    [511, 'status', 'status', 'status'],
    [499, 'store', 'no-freshness', 'no-freshness'],
    [500, 'store', 'no-freshness', 'no-freshness'],
    [501, 'store', 'store', 'no-freshness'],
    [503, 'store', 'no-freshness', 'no-freshness'],
    [599, 'store', 'no-freshness', 'no-freshness'],
    [600, 'status', 'status', 'status'],
    [999, 'status', 'status', 'status'],
  ];
  it.each(statuses)('status %i: with max-age %s, with Last-Modified %s, with neither %s', (status, ...decisions) => {
    const responses = [[fresh], [lastModified], []];
    expect(responses.map((response) => decide({ status, response }))).toEqual(decisions);
  });

  it('applies defaultTtlSeconds to heuristically cacheable statuses below 400 only', () => {
    const own = { defaultTtlSeconds: 60 };
    expect([200, 301, 302, 404, 503].map((status) => decide({ status, policy: own }))).toEqual([
      'store',
      'store',
      'no-freshness',
      'no-freshness',
      'no-freshness',
    ]);
  });

  it('applies defaultTtlByStatus to errors', () => {
    const own = { defaultTtlByStatus: { '404': 60, '5xx': 5, '503': 0 }, defaultTtlSeconds: 60 };
    const decisions = [302, 403, 404, 429, 500, 503].map((status) => decide({ status, policy: own }));
    expect(decisions).toEqual(['no-freshness', 'no-freshness', 'store', 'status', 'store', 'no-freshness']);
  });

  it('applies overrideTtlByStatus in place of the lifetime, but not in place of no-store and private', () => {
    const own = { overrideTtlByStatus: { '404': 0, '302': 60 } };
    expect(decide({ status: 404, response: [fresh], policy: own })).toBe('no-freshness');
    expect(decide({ status: 302, response: ['Cache-Control: max-age=0'], policy: own })).toBe('store');
    expect(decide({ status: 302, response: ['Cache-Control: no-store'], policy: own })).toBe('no-store');
    expect(decide({ status: 302, response: ['Cache-Control: private'], policy: own })).toBe('private');
  });

  const setCookies: readonly (readonly [policy: StoringPolicy['setCookie'], response: string, decision: string])[] = [
    ['strip', fresh, 'store'],
    ['strip', lastModified, 'set-cookie'],
    ['refuse', fresh, 'set-cookie'],
    ['refuse', 'Cache-Control: max-age=60, no-cache="set-cookie"', 'store'],
  ];
  it.each(setCookies)('with Set-Cookie, setCookie "%s" and %s: %s', (setCookie, response, decision) => {
    expect(decide({ response: [response, 'Set-Cookie: a=b'], policy: { setCookie } })).toBe(decision);
  });

  it('obeys a targeted field in place of Cache-Control, RFC 9213 §2.2', () => {
    const targeted = (value: string, ...more: string[]) =>
      decide({ response: [`CDN-Cache-Control: ${value}`, ...more] });
    expect(targeted('max-age=60', 'Cache-Control: no-store')).toBe('store');
    expect(targeted('no-store', fresh)).toBe('no-store');
    expect(targeted('private', fresh)).toBe('private');
    expect(targeted('max-age=0', fresh)).toBe('no-freshness');
    expect(targeted('no-store;', fresh)).toBe('store');
    expect(decide({ response: ['CDN-Cache-Control: no-store', fresh], policy: { targetedFields: [] } })).toBe('store');
  });

  const provoking: readonly (readonly [request: string, status: number, decision: string])[] = [
    ['X: plain', 400, 'store'],
    [`X: ${'x'.repeat(4100)}`, 400, 'provoked'],
    [`X: ${'x'.repeat(4100)}`, 500, 'provoked'],
    [`X: ${'x'.repeat(4100)}`, 404, 'provoked'],
    [`X: ${'x'.repeat(4100)}`, 200, 'store'],
    [`X: ${'x'.repeat(4100)}`, 301, 'store'],
    ['X: \u0001', 400, 'provoked'],
    ['X: caf\u00e9', 403, 'provoked'],
    ['Content-Type: text/plain', 405, 'provoked'],
    ['Max-Forwards: 1', 501, 'provoked'],
    // Fields for which a cloud storage may refuse any request.
    ['X-Amz-Server-Side-Encryption: AES256', 400, 'provoked'],
    ['X-Ms-Version: 1', 400, 'provoked'],
    ['X-Goog-Meta: 1', 403, 'provoked'],
    // Malformed negotiation fields count at any error status.
    ['Accept: junk', 400, 'provoked'],
    ['Accept: text/html;;', 404, 'provoked'],
    ['Accept: text/html, image/*;q=0.5, */*', 400, 'store'],
    ['Accept: text/html; charset="x y"', 400, 'store'],
    ['Accept: *;q=.2', 400, 'store'],
    ['Accept:', 400, 'store'],
    ['Accept-Language: de-DE, de;q=0.5, *', 400, 'store'],
    ['Accept-Language: de_DE', 404, 'provoked'],
    ['Accept-Language: ../etc', 500, 'provoked'],
    ['Accept-Encoding: gzip, br;q=1.0', 501, 'store'],
    ['Accept-Encoding: gzip;', 501, 'provoked'],
    ['Accept-Charset: utf-8, iso-8859-1;q=0.5', 400, 'store'],
    ['Accept-Charset: <', 400, 'provoked'],
    // Cookie, Referer and Origin may be the cause of a 400 or 403, but a 404, 410 or 503 is the same for all clients.
    ['Cookie: session=1', 403, 'provoked'],
    ['Referer: https://a.test/', 403, 'provoked'],
    ['Origin: https://a.test', 400, 'provoked'],
    ['Cookie: session=1', 404, 'store'],
    ['Referer: https://a.test/', 410, 'store'],
    ['Cookie: session=1', 503, 'store'],
    ['User-Agent: a browser', 403, 'store'],
  ];
  it.each(provoking)('a request with %j, answered with %i: %s', (request, status, decision) => {
    expect(decide({ request: [request], status, response: [fresh] })).toBe(decision);
  });

  const understanding: readonly (readonly [status: number, cacheControl: string, decision: string])[] = [
    [200, 'max-age=60, no-store, must-understand', 'store'],
    [404, 'max-age=60, must-understand', 'store'],
    [599, 'max-age=60, no-store, must-understand', 'status'],
    [299, 'max-age=60, must-understand', 'status'],
    [200, 'max-age=60, no-store, must-understand, private', 'private'],
    [200, 'max-age=60, no-store, must-understand=1', 'no-store'],
  ];
  it.each(understanding)('§5.2.2.3: a %i with %s: %s', (status, cacheControl, decision) => {
    expect(decide({ status, response: [`Cache-Control: ${cacheControl}`] })).toBe(decision);
  });

  it('§5.2.1.5: must-understand does not lift the no-store of a request', () => {
    const response = ['Cache-Control: max-age=60, no-store, must-understand'];
    expect(decide({ request: ['Cache-Control: no-store'], response })).toBe('no-store');
  });
});

describe('storableFields, RFC 9111 §3.1', () => {
  const date = `date: ${sentDate}`;
  const rows: readonly (readonly [name: string, lines: readonly string[], kept: readonly string[]])[] = [
    ['keeps unknown fields', [date, 'x-new: 1', 'x-new: 2'], [date, 'x-new: 1', 'x-new: 2']],
    [
      'leaves out the fields of the connection',
      [
        date,
        'connection: x-hop',
        'x-hop: 1',
        'keep-alive: 5',
        'transfer-encoding: chunked',
        'trailer: x',
        'upgrade: h2c',
      ],
      [date],
    ],
    [
      'leaves out the fields of proxies',
      [date, 'proxy-authenticate: a', 'proxy-authentication-info: b', 'proxy-authorization: c', 'proxy-connection: d'],
      [date],
    ],
    ['keeps Set-Cookie', [date, 'set-cookie: a=b', 'set-cookie: c=d'], [date, 'set-cookie: a=b', 'set-cookie: c=d']],
    ['keeps fields without meaning', [date, 'content-range: bytes 0-1/2'], [date, 'content-range: bytes 0-1/2']],
    [
      'leaves out fields that no-cache and private list',
      [date, 'cache-control: max-age=60, no-cache="A"', 'cache-control: private="b"', 'a: 1', 'b: 2', 'c: 3'],
      [date, 'cache-control: max-age=60, no-cache="A"', 'cache-control: private="b"', 'c: 3'],
    ],
    [
      'keeps fields that determine freshness',
      [date, 'age: 5', 'expires: 0', 'vary: a'],
      [date, 'age: 5', 'expires: 0', 'vary: a'],
    ],
    ['adds a Date where there is none, RFC 9110 §6.6.1', ['etag: "a"'], ['etag: "a"', date]],
  ];
  it.each(rows)('%s', (_name, lines, kept) => {
    expect(storableFields(fieldsOf(...lines), sentAt, policy)).toEqual(fieldsOf(...kept));
  });

  it.each(['strip', 'refuse'] as const)('leaves out Set-Cookie with setCookie "%s"', (setCookie) => {
    const kept = storableFields(fieldsOf(date, 'set-cookie: a=b'), sentAt, { ...policy, setCookie });
    expect(kept).toEqual(fieldsOf(date));
  });
});

describe('isForOneClient, RFC 9111 §3.5, §5.2.2.7', () => {
  const authorized = 'Authorization: Basic eA==';
  const rows: readonly (readonly [request: readonly string[], cacheControl: string, isForOne: boolean])[] = [
    [[], 'max-age=60', false],
    [[], 'private', true],
    [[], 'private="x"', false],
    [[], 'no-store', false],
    [[authorized], 'max-age=60', true],
    [[authorized], 'public', false],
    [[authorized], 'must-revalidate', false],
    [[authorized], 's-maxage=0', false],
    [[authorized], 'public, private', true],
  ];
  it.each(rows)('a request with %j, a response with %s: %s', (request, cacheControl, isForOne) => {
    const response = fieldsOf(`Cache-Control: ${cacheControl}`);
    expect(isForOneClient(fieldsOf(...request), response, policy)).toBe(isForOne);
  });
});
