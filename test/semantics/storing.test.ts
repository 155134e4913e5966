import { describe, expect, it } from 'vitest';
import type { FreshnessPolicy } from '../../src/semantics/freshness.ts';
import { decideStoring, type StoringRefusal, storableFields } from '../../src/semantics/storing.ts';
import { fieldsOf, sentAt, sentDate, storedWith } from '../support/fields-of.ts';

const policy: FreshnessPolicy = { defaultTtlSeconds: 0, rangeReuseSeconds: 60 };
const fresh = 'Cache-Control: max-age=60';
const lastModified = 'Last-Modified: Wed, 31 Dec 2025 12:00:00 GMT';

interface Case {
  readonly request?: readonly string[];
  readonly response?: readonly string[];
  readonly method?: string;
  readonly status?: number;
  readonly policy?: Partial<FreshnessPolicy>;
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
    // §5.2.2.5, §5.2.2.7: the most restrictive holds.
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
    // Set-Cookie, unless the origin exempts it.
    [[fresh, 'Set-Cookie: a=b'], 'set-cookie'],
    [['Cache-Control: public, s-maxage=60', 'Set-Cookie: a=b'], 'set-cookie'],
    [['Cache-Control: max-age=60, no-cache="Set-Cookie"', 'Set-Cookie: a=b'], 'store'],
    [['Cache-Control: max-age=60, private="Set-Cookie"', 'Set-Cookie: a=b'], 'store'],
    [['Cache-Control: max-age=60, no-cache="x"', 'Set-Cookie: a=b'], 'set-cookie'],
    // Content-Range means nothing on a 200, RFC 9110 §14.4.
    [[fresh, 'Content-Range: bytes 0-9/100'], 'store'],
    // What could never be reused.
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
    // Nobody gives a lifetime: for Range requests.
    [[], 'store'],
    [['Cache-Control: public'], 'store'],
  ];
  it.each(responses)('a 200 with %j: %s', (response, decision) => {
    expect(decide({ response })).toBe(decision);
  });

  it('stores no response that nobody gives a lifetime when Range requests may not reuse it either', () => {
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
    [['Authorization: Basic eA=='], 'max-age=60, must-revalidate', 'store'],
    [['Authorization: Basic eA=='], 's-maxage=60', 'store'],
    [['Authorization: Basic eA=='], 'public, private', 'private'],
  ];
  it.each(requests)('a request with %j, a response with %s: %s', (request, cacheControl, decision) => {
    expect(decide({ request, response: [`Cache-Control: ${cacheControl}`] })).toBe(decision);
  });

  it.each(['HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'get', 'FROB'])('method %s', (method) => {
    expect(decide({ method, response: [fresh] })).toBe('method');
  });

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
    [400, 'status', 'status', 'status'],
    [401, 'status', 'status', 'status'],
    [403, 'store', 'no-freshness', 'no-freshness'],
    [404, 'store', 'no-freshness', 'no-freshness'],
    [405, 'store', 'no-freshness', 'no-freshness'],
    [410, 'store', 'no-freshness', 'no-freshness'],
    [412, 'status', 'status', 'status'],
    [414, 'store', 'no-freshness', 'no-freshness'],
    [416, 'status', 'status', 'status'],
    // RFC 6585 forbids these four.
    [428, 'status', 'status', 'status'],
    [429, 'status', 'status', 'status'],
    [431, 'status', 'status', 'status'],
    [511, 'status', 'status', 'status'],
    [499, 'store', 'no-freshness', 'no-freshness'],
    [500, 'store', 'no-freshness', 'no-freshness'],
    [501, 'store', 'no-freshness', 'no-freshness'],
    [503, 'store', 'no-freshness', 'no-freshness'],
    [599, 'store', 'no-freshness', 'no-freshness'],
    [600, 'status', 'status', 'status'],
    [999, 'status', 'status', 'status'],
  ];
  it.each(statuses)('status %i: with max-age %s, with Last-Modified %s, with neither %s', (status, ...decisions) => {
    const responses = [[fresh], [lastModified], []];
    expect(responses.map((response) => decide({ status, response }))).toEqual(decisions);
  });

  it('gives errors and redirects that are not cacheable by themselves no default lifetime', () => {
    const own = { defaultTtlSeconds: 60 };
    expect([200, 301, 302, 404, 503].map((status) => decide({ status, policy: own }))).toEqual([
      'store',
      'store',
      'no-freshness',
      'no-freshness',
      'no-freshness',
    ]);
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
    ['keeps what it does not know', [date, 'x-new: 1', 'x-new: 2'], [date, 'x-new: 1', 'x-new: 2']],
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
    ['leaves out Set-Cookie', [date, 'set-cookie: a=b', 'set-cookie: c=d'], [date]],
    [
      'leaves out Content-Range',
      [date, 'content-range: bytes 0-1/2', 'content-length: 2'],
      [date, 'content-length: 2'],
    ],
    [
      'leaves out what no-cache and private list',
      [date, 'cache-control: max-age=60, no-cache="A"', 'cache-control: private="b"', 'a: 1', 'b: 2', 'c: 3'],
      [date, 'cache-control: max-age=60, no-cache="A"', 'cache-control: private="b"', 'c: 3'],
    ],
    [
      'keeps what makes up freshness',
      [date, 'age: 5', 'expires: 0', 'vary: a'],
      [date, 'age: 5', 'expires: 0', 'vary: a'],
    ],
    ['adds a Date where there is none, RFC 9110 §6.6.1', ['etag: "a"'], ['etag: "a"', date]],
  ];
  it.each(rows)('%s', (_name, lines, kept) => {
    expect(storableFields(fieldsOf(...lines), sentAt)).toEqual(fieldsOf(...kept));
  });
});
