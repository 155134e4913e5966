/** Which fields are passed on, and which are not. */

import { describe, expect, it } from 'vitest';
import type { Client } from '../../src/guard/client.ts';
import { type ForwardingRules, forwardedRequestFields, forwardedResponseFields } from '../../src/guard/forwarding.ts';
import { plainAddress } from '../../src/guard/peers.ts';
import { fieldLines } from '../../src/http/fields.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { fieldsOf } from '../support/fields-of.ts';

const rules: ForwardingRules = {
  host: 'origin',
  originUrl: new URL('http://origin.test:3000/base'),
  cache: { acceptEncoding: 'asSent', targetedFields: [] },
};

function requestWith(given: Partial<ProxyRequest>): ProxyRequest {
  return {
    method: 'GET',
    scheme: 'https',
    authority: 'a.test',
    target: '/',
    version: '2',
    fields: [],
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: '192.0.2.7', port: 40_000 },
    receivedAt: 0,
    signal: new AbortController().signal,
    sendInterim: () => undefined,
    ...given,
  };
}

/** The peer itself. */
const clientOf = (given: Partial<ProxyRequest>): Client => ({
  address: plainAddress(requestWith(given).peer.address),
  forwardedFor: [],
});

/** What every request gets. */
const ours = (authority = 'a.test', port = '443') => [
  'x-forwarded-for: 192.0.2.7',
  'x-forwarded-proto: https',
  'x-real-ip: 192.0.2.7',
  `x-forwarded-host: ${authority}`,
  `x-forwarded-port: ${port}`,
];

const linesOf = (given: Partial<ProxyRequest>, byRoute: Partial<ForwardingRules> = {}): string[] =>
  forwardedRequestFields(requestWith(given), clientOf(given), { ...rules, ...byRoute }, 'rangeway').map(
    ([name, value]) => `${name}: ${value}`,
  );

describe('forwardedRequestFields', () => {
  it('passes on what goes from end to end, in order, duplicates kept', () => {
    const fields = fieldsOf(
      'Host: a.test',
      'Range: bytes=0-1',
      'Cookie: a',
      'X-A: 1',
      'Cookie: b',
      'Accept-Encoding: br',
    );
    expect(linesOf({ fields })).toEqual([
      'host: origin.test:3000',
      'range: bytes=0-1',
      'cookie: a',
      'x-a: 1',
      'cookie: b',
      'accept-encoding: br',
      'via: 2 rangeway',
      ...ours(),
    ]);
  });

  it('appends itself to Via', () => {
    expect(linesOf({ fields: fieldsOf('Via: 1.1 other'), version: '1.0' }).slice(1, 3)).toEqual([
      'via: 1.1 other',
      'via: 1.0 rangeway',
    ]);
  });

  it.each([
    'Connection: keep-alive',
    'Keep-Alive: timeout=5',
    'Proxy-Connection: keep-alive',
    'Proxy-Authorization: Basic YTpi',
    'TE: trailers',
    'Transfer-Encoding: chunked',
    'Upgrade: h2c',
    'Content-Length: 5',
    'Expect: 100-continue',
    'Forwarded: for=192.0.2.1',
    'X-Forwarded-For: 192.0.2.1',
    'X-Forwarded-Host: evil.test',
    'X-Forwarded-Port: 1',
    'X-Forwarded-Proto: http',
    'X-Forwarded-Scheme: http',
    'X-Forwarded-Prefix: /evil',
    'X-Forwarded-Anything: evil',
    'X_Forwarded_For: 192.0.2.1',
    'X-Forwarded_Host: evil.test',
    'X-Real-IP: 192.0.2.1',
    'True-Client-IP: 192.0.2.1',
    'X-Host: evil.test',
    'Surrogate-Capability: evil="ESI/1.0"',
    'X-Original-URL: /admin',
    'X-Rewrite-URL: /admin',
    'X-HTTP-Method-Override: POST',
    'X-Method-Override: POST',
    'Rangeway-Explain: ?1',
  ])('does not pass on %s', (line) => {
    expect(linesOf({ fields: fieldsOf('A: 1', line, 'B: 2') })).toEqual([
      'host: origin.test:3000',
      'a: 1',
      'b: 2',
      'via: 2 rangeway',
      ...ours(),
    ]);
  });

  it('does not pass on what Connection names', () => {
    expect(linesOf({ fields: fieldsOf('Connection: close, X-Hop', 'X-Hop: 1', 'X-End: 2') }).slice(1, 2)).toEqual([
      'x-end: 2',
    ]);
  });

  it('passes on a method override where no response is shared', () => {
    const fields = fieldsOf('X-HTTP-Method-Override: PATCH');
    expect(linesOf({ method: 'POST', fields })).toContain('x-http-method-override: PATCH');
  });

  it.each<[ForwardingRules['host'], string, string]>([
    ['origin', 'a.test', 'host: origin.test:3000'],
    ['keep', 'a.test', 'host: a.test'],
    ['keep', 'A.Test:443', 'host: a.test'],
    ['keep', 'a.test:8443', 'host: a.test:8443'],
    ['keep', '', 'host: origin.test:3000'],
    [{ name: 'b.test' }, 'a.test', 'host: b.test'],
  ])('Host by policy %j for %j', (host, authority, want) => {
    const lines = linesOf({ authority, fields: fieldsOf(`Host: ${authority}`) }, { host });
    expect(lines.filter((line) => line.startsWith('host:'))).toEqual([want]);
    expect(lines[0]).toBe(want);
  });

  it.each<[authority: string, lines: string[]]>([
    ['A.Test:443', ours('a.test', '443')],
    ['a.test:8443', ours('a.test:8443', '8443')],
    ['[::1]:81', ours('[::1]:81', '81')],
    ['', ours().slice(0, 3)],
  ])('tells who is there for %j', (authority, lines) => {
    expect(linesOf({ authority }).slice(2)).toEqual(lines);
  });

  it.each([
    ['2001:db8::1', '2001:db8::1'],
    ['::ffff:192.0.2.9', '192.0.2.9'],
    ['::ffff:c000:209', '::ffff:c000:209'],
  ])('shows the peer %s as %s', (address, want) => {
    expect(linesOf({ peer: { address, port: 1 } })).toContain(`x-forwarded-for: ${want}`);
  });

  it.each<[lines: readonly string[], acceptEncoding: 'asSent' | 'normalise', want: readonly string[]]>([
    [[], 'asSent', []],
    [['Accept-Encoding: gzip, br'], 'asSent', ['gzip, br']],
    [[], 'normalise', ['identity']],
    [['Accept-Encoding: gzip', 'X: 1', 'Accept-Encoding: br;q=0.5, foo'], 'normalise', ['br, gzip']],
  ])('%j is sent on, %s', (lines, acceptEncoding, want) => {
    const fields = forwardedRequestFields(
      requestWith({ fields: fieldsOf(...lines) }),
      clientOf({}),
      { ...rules, cache: { ...rules.cache, acceptEncoding } },
      'rangeway',
    );
    expect(fieldLines(fields, 'accept-encoding')).toEqual(want);
  });

  it('announces itself where Surrogate-Control is read, and nobody else', () => {
    const fields = fieldsOf('Surrogate-Capability: evil="ESI/1.0"');
    const cache: ForwardingRules['cache'] = { ...rules.cache, targetedFields: ['a', 'surrogate-control'] };
    const lines = linesOf({ fields }, { cache }).filter((line) => line.startsWith('surrogate-'));
    expect(lines).toEqual(['surrogate-capability: rangeway="Surrogate/1.0"']);
  });
});

describe('forwardedResponseFields', () => {
  it('passes on what goes from end to end, and appends itself to Via', () => {
    const fields = fieldsOf(
      'Connection: close, X-Hop',
      'X-Hop: 1',
      'Set-Cookie: a',
      'Content-Length: 5',
      'Transfer-Encoding: chunked',
      'Set-Cookie: b',
      'Alt-Svc: h3=":443"',
      'Rangeway-Explain: ?1',
      'Proxy-Authenticate: Basic',
      'Content-Type: text/plain',
      'Via: 1.1 other',
    );
    expect(forwardedResponseFields(fields, '1.1', 'rangeway')).toEqual(
      fieldsOf('Set-Cookie: a', 'Set-Cookie: b', 'Content-Type: text/plain', 'Via: 1.1 other', 'Via: 1.1 rangeway'),
    );
  });
});
