/** The client of a request, and which forwarding fields of which peers count for it. */

import { describe, expect, it } from 'vitest';
import { parseAddressRange } from '../../src/config/address.ts';
import { createPeerList, type ForwardingTrust, identify } from '../../src/guard/client.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { codeOf } from '../support/origins/origin-request.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const trusted = ['10.0.0.0/8', '2001:db8:ffff::/48'].map(parseAddressRange).filter((range) => range !== undefined);

function trust(fields: ForwardingTrust['fields'], hasUnix = false): ForwardingTrust {
  return { isTrusted: createPeerList(hasUnix ? [...trusted, 'unix'] : trusted), fields };
}

function requestWith(lines: readonly string[], changes: Partial<ProxyRequest> = {}): ProxyRequest {
  return {
    method: 'GET',
    scheme: 'http',
    authority: 'inner.test',
    target: '/',
    version: '1.1',
    fields: fieldsOf(...lines),
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: '10.0.0.1', port: 40_000 },
    receivedAt: 0,
    signal: new AbortController().signal,
    sendInterim: () => undefined,
    ...changes,
  };
}

/** Formats the client's address, the forwarding chain, and scheme and authority of the request; or returns the error code. */
function identified(
  lines: readonly string[],
  fields: ForwardingTrust['fields'],
  changes: Partial<ProxyRequest> = {},
): string {
  try {
    const { request, client } = identify(requestWith(lines, changes), trust(fields, true));
    return `${client.address} [${client.forwardedFor.join(' ')}] ${request.scheme}://${request.authority}`;
  } catch (thrown) {
    return codeOf(thrown);
  }
}

const asIs = 'http://inner.test';

describe('identify', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['fe80::1%eth0', 'fe80::1'],
    ['', ''],
  ])('takes the untrusted peer %j for the client, and leaves its request unchanged', (address, want) => {
    const lines = ['X-Forwarded-For: 198.51.100.1', 'X-Forwarded-Proto: https', 'X-Forwarded-Host: evil.test'];
    const request = requestWith([...lines, 'Forwarded: for="'], { peer: { address, port: 1 } });
    for (const fields of ['x-forwarded', 'forwarded'] as const) {
      const result = identify(request, trust(fields));
      expect(result.request).toBe(request);
      expect(result.client).toEqual({ address: want, forwardedFor: [] });
    }
  });

  it('reports that a trusted proxy vouches for a request, and no other peer', () => {
    expect(identify(requestWith([]), trust('x-forwarded')).client.isVouchedFor).toBe(true);
    const untrusted = requestWith([], { peer: { address: '192.0.2.7', port: 1 } });
    expect(identify(untrusted, trust('x-forwarded')).client.isVouchedFor).toBeUndefined();
  });

  it('returns the same request where the fields of a trusted peer change nothing', () => {
    const request = requestWith(['X-Forwarded-For: 192.0.2.7', 'X-Forwarded-Proto: http']);
    expect(identify(request, trust('x-forwarded')).request).toBe(request);
  });

  it('leaves the rest of a request unchanged', () => {
    const request = requestWith(['X-Forwarded-Proto: https']);
    const { request: result } = identify(request, trust('x-forwarded'));
    expect(result).toMatchObject({ scheme: 'https', authority: 'inner.test', fields: request.fields, target: '/' });
    expect(result.signal).toBe(request.signal);
  });
});

describe('identify by X-Forwarded-*', () => {
  const rows: readonly (readonly [lines: readonly string[], want: string])[] = [
    [[], `10.0.0.1 [] ${asIs}`],
    [['X-Forwarded-For:'], `10.0.0.1 [] ${asIs}`],
    [['X-Forwarded-For: 192.0.2.7'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    // From the right past trusted proxies, up to the first address that is not trusted.
    [['X-Forwarded-For: 192.0.2.7, 10.0.0.2'], `192.0.2.7 [192.0.2.7 10.0.0.2] ${asIs}`],
    [['X-Forwarded-For: 198.51.100.66, 192.0.2.7, 10.0.0.2'], `192.0.2.7 [192.0.2.7 10.0.0.2] ${asIs}`],
    [['X-Forwarded-For: 10.0.0.9, 192.0.2.7'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    [['X-Forwarded-For: 198.51.100.66', 'X-Forwarded-For: 192.0.2.7'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    [['X-Forwarded-For: 10.0.0.3, 10.0.0.2'], `10.0.0.3 [10.0.0.3 10.0.0.2] ${asIs}`],
    // Ports, brackets, and notations of addresses.
    [['X-Forwarded-For: 2001:DB8:0:0:0::1'], `2001:db8::1 [2001:db8::1] ${asIs}`],
    [['X-Forwarded-For: 2001:db8:0:0:1:0:0:1'], `2001:db8::1:0:0:1 [2001:db8::1:0:0:1] ${asIs}`],
    [['X-Forwarded-For: 192.0.2.7:4711'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    [['X-Forwarded-For: 2001:DB8::7'], `2001:db8::7 [2001:db8::7] ${asIs}`],
    [['X-Forwarded-For: [2001:db8::7]:4711, 2001:db8:ffff::2'], `2001:db8::7 [2001:db8::7 2001:db8:ffff::2] ${asIs}`],
    [['X-Forwarded-For: ::ffff:192.0.2.7'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    // An unknown or malformed address is no address, and never that of the proxy.
    [['X-Forwarded-For: unknown'], ` [unknown] ${asIs}`],
    [['X-Forwarded-For: 192.0.2.7, garbage'], ` [unknown] ${asIs}`],
    [['X-Forwarded-For: 192.0.2.7, _proxy, 10.0.0.2'], ` [_proxy 10.0.0.2] ${asIs}`],
    [['X-Forwarded-For: 192.0.2.7 10.0.0.2'], ` [unknown] ${asIs}`],
    [['X-Forwarded-For: 192.0.2.007'], ` [unknown] ${asIs}`],
    [['X-Forwarded-For: garbage, 192.0.2.7'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    // Scheme and authority.
    [['X-Forwarded-Proto: https'], '10.0.0.1 [] https://inner.test'],
    [['X-Forwarded-Proto: HTTPS'], '10.0.0.1 [] https://inner.test'],
    [['X-Forwarded-Proto: ftp'], `10.0.0.1 [] ${asIs}`],
    [['X-Forwarded-Host: a.test'], '10.0.0.1 [] http://a.test'],
    [['X-Forwarded-Host: a.test:8443', 'X-Forwarded-Port: 9'], '10.0.0.1 [] http://a.test:8443'],
    [['X-Forwarded-Host: a.test', 'X-Forwarded-Port: 8080'], '10.0.0.1 [] http://a.test:8080'],
    [['X-Forwarded-Host: [::1]', 'X-Forwarded-Port: 8080'], '10.0.0.1 [] http://[::1]:8080'],
    [['X-Forwarded-Port: 8080'], '10.0.0.1 [] http://inner.test:8080'],
    [['X-Forwarded-Proto: https', 'X-Forwarded-Port: 443'], '10.0.0.1 [] https://inner.test:443'],
    // A port that contradicts the scheme is ignored: it is that of another connection.
    [['X-Forwarded-Proto: https', 'X-Forwarded-Port: 80'], '10.0.0.1 [] https://inner.test'],
    [['X-Forwarded-Port: 443'], `10.0.0.1 [] ${asIs}`],
    [['X-Forwarded-Port: 0'], `10.0.0.1 [] ${asIs}`],
    [['X-Forwarded-Port: 65536'], `10.0.0.1 [] ${asIs}`],
    [['X-Forwarded-Port: 80a'], `10.0.0.1 [] ${asIs}`],
    [['X-Forwarded-Host: a b'], 'malformed_request'],
    [['X-Forwarded-Host: user@a.test'], 'malformed_request'],
    [['X-Forwarded-Host: a.test/path'], 'malformed_request'],
    [['X-Forwarded-Host: a.test:99999'], 'malformed_request'],
    [['X-Forwarded-Host:'], `10.0.0.1 [] ${asIs}`],
    // The members of the proxy next to the client count, not those that the client sent.
    [
      ['X-Forwarded-For: 192.0.2.7', 'X-Forwarded-Host: evil.test, a.test', 'X-Forwarded-Proto: https, http'],
      '192.0.2.7 [192.0.2.7] http://a.test',
    ],
    [
      [
        'X-Forwarded-For: 198.51.100.66, 192.0.2.7, 10.0.0.2',
        'X-Forwarded-Host: evil.test, a.test, b.test',
        'X-Forwarded-Proto: http, https, http',
      ],
      '192.0.2.7 [192.0.2.7 10.0.0.2] https://a.test',
    ],
    [
      ['X-Forwarded-For: 192.0.2.7, 10.0.0.2', 'X-Forwarded-Host: a.test', 'X-Forwarded-Proto: https'],
      '192.0.2.7 [192.0.2.7 10.0.0.2] https://a.test',
    ],
    [['X-Forwarded-Host: evil.test, a.test'], '10.0.0.1 [] http://a.test'],
    // The other family of fields is ignored.
    [['Forwarded: for=192.0.2.7;host=evil.test;proto=https'], `10.0.0.1 [] ${asIs}`],
    [['Forwarded: "'], `10.0.0.1 [] ${asIs}`],
    [['X-Real-IP: 192.0.2.7', 'X-Forwarded-Scheme: https', 'X-Forwarded-Ssl: on'], `10.0.0.1 [] ${asIs}`],
  ];
  it.each(rows)('%j', (lines, want) => expect(identified(lines, 'x-forwarded')).toBe(want));

  it('reads at most 100 addresses', () => {
    const way = ['192.0.2.7', ...Array.from({ length: 5000 }, () => '10.0.0.2')].join(', ');
    const { client } = identify(requestWith([`X-Forwarded-For: ${way}`]), trust('x-forwarded'));
    expect(client).toMatchObject({ address: '10.0.0.2', forwardedFor: Array.from({ length: 100 }, () => '10.0.0.2') });
  });

  it('trusts the peer of a Unix socket only where it is configured', () => {
    const peer = { address: '', port: 0 };
    const lines = ['X-Forwarded-For: 192.0.2.7', 'X-Forwarded-Proto: https'];
    expect(identified(lines, 'x-forwarded', { peer })).toBe('192.0.2.7 [192.0.2.7] https://inner.test');
    expect(identified([], 'x-forwarded', { peer })).toBe(` [] ${asIs}`);
    const request = requestWith(lines, { peer });
    expect(identify(request, trust('x-forwarded'))).toEqual({ request, client: { address: '', forwardedFor: [] } });
  });

  it('gives an HTTP/1.0 request without Host the forwarded authority', () => {
    const changes = { authority: '', version: '1.0' };
    expect(identified(['X-Forwarded-Host: a.test'], 'x-forwarded', changes)).toBe('10.0.0.1 [] http://a.test');
    expect(identified(['X-Forwarded-Port: 8080'], 'x-forwarded', changes)).toBe('10.0.0.1 [] http://');
  });
});

describe('identify by Forwarded, RFC 7239', () => {
  const rows: readonly (readonly [lines: readonly string[], want: string])[] = [
    [[], `10.0.0.1 [] ${asIs}`],
    [['Forwarded: for=192.0.2.7'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    [['Forwarded: For="[2001:db8::7]:4711";Proto=HTTPS'], '2001:db8::7 [2001:db8::7] https://inner.test'],
    [
      ['Forwarded: for=192.0.2.7;host=a.test;proto=https, for=10.0.0.2;host=b.test;proto=http'],
      '192.0.2.7 [192.0.2.7 10.0.0.2] https://a.test',
    ],
    [
      ['Forwarded: for=198.51.100.66;host=evil.test, for=192.0.2.7;host="a.test:8080"', 'Forwarded: for=10.0.0.2'],
      '192.0.2.7 [192.0.2.7 10.0.0.2] http://a.test:8080',
    ],
    [['Forwarded: host=evil.test, for=192.0.2.7'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    // A parameter that the client's element lacks is taken from the next element.
    [
      ['Forwarded: for=192.0.2.7, for=10.0.0.2;proto=https;host=a.test'],
      '192.0.2.7 [192.0.2.7 10.0.0.2] https://a.test',
    ],
    [['Forwarded: proto=https'], ' [unknown] https://inner.test'],
    [['Forwarded: for=unknown;proto=https'], ' [unknown] https://inner.test'],
    [['Forwarded: for=_hidden, for=10.0.0.2'], ` [_hidden 10.0.0.2] ${asIs}`],
    [['Forwarded: for=192.0.2.7;proto=ftp'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    [['Forwarded: for=192.0.2.7;host=""'], `192.0.2.7 [192.0.2.7] ${asIs}`],
    [['Forwarded: for=192.0.2.7;host="a b"'], 'malformed_request'],
    // A malformed field may hide the client, so the request is refused.
    [['Forwarded: for="', 'Forwarded: for=192.0.2.7'], 'malformed_request'],
    [['Forwarded: for=", for=192.0.2.7'], 'malformed_request'],
    [['Forwarded: for=192.0.2.7;for=192.0.2.8'], 'malformed_request'],
    // The other family of fields is ignored.
    [['X-Forwarded-For: 192.0.2.7', 'X-Forwarded-Proto: https', 'X-Forwarded-Host: a b'], `10.0.0.1 [] ${asIs}`],
  ];
  it.each(rows)('%j', (lines, want) => expect(identified(lines, 'forwarded')).toBe(want));
});
