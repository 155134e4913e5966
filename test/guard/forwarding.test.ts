/** Which fields are passed on to the origin and to clients, and which are not. */

import { describe, expect, it } from 'vitest';
import { type Client, plainAddress } from '../../src/guard/client.ts';
import {
  type ForwardingRules,
  forwardedRequestFields,
  forwardedResponseFields,
  tunnelRequestFields,
} from '../../src/guard/fields/forwarding.ts';
import { fieldLines } from '../../src/http/fields.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const rules: ForwardingRules = {
  match: { hosts: [], pathPrefix: '/' },
  stripPathPrefix: false,
  host: 'origin',
  originUrl: new URL('http://origin.test:3000/base'),
  cache: { acceptEncoding: 'asSent', targetedFields: [] },
};

function requestWith(changes: Partial<ProxyRequest>): ProxyRequest {
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
    ...changes,
  };
}

/** Returns the client of a request without forwarding fields: the peer itself. */
const clientOf = (changes: Partial<ProxyRequest>): Client => ({
  address: plainAddress(requestWith(changes).peer.address),
  forwardedFor: [],
});

/** The fields that the proxy adds to every request. */
const ours = (authority = 'a.test', port = '443', host = authority) => [
  'cdn-loop: rangeway',
  'x-forwarded-for: 192.0.2.7',
  'x-forwarded-proto: https',
  'x-real-ip: 192.0.2.7',
  `x-forwarded-host: ${authority}`,
  `x-forwarded-port: ${port}`,
  `forwarded: for=192.0.2.7;host=${host};proto=https`,
];

const linesOf = (changes: Partial<ProxyRequest>, routeRules: Partial<ForwardingRules> = {}): string[] =>
  forwardedRequestFields(requestWith(changes), clientOf(changes), { ...rules, ...routeRules }, 'rangeway').map(
    ([name, value]) => `${name}: ${value}`,
  );

describe('forwardedRequestFields', () => {
  it('passes on end-to-end fields, in order, with repeated names', () => {
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

  it('appends itself to CDN-Loop, RFC 8586 §2', () => {
    const lines = linesOf({ fields: fieldsOf('CDN-Loop: foo.cdn; a=1') }).filter((line) => line.startsWith('cdn-loop'));
    expect(lines).toEqual(['cdn-loop: foo.cdn; a=1', 'cdn-loop: rangeway']);
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
    'Forwarded-For: 192.0.2.1',
    'Forwarded-Proto: http',
    'X-Forwarded: for=192.0.2.1',
    'X-Forwarded-Server: evil.test',
    'X-Forwarded-Ssl: on',
    'X-Forwarded-Path: /evil',
    'X-Forwarded-By: 192.0.2.1',
    'X-Forward-For: 192.0.2.1',
    'X-Forwarder-For: 192.0.2.1',
    'X-Original-Forwarded-For: 192.0.2.1',
    'X-Originally-Forwarded-For: 192.0.2.1',
    'X.Forwarded.For: 192.0.2.1',
    'X~Forwarded-Host: evil.test',
    'X-Forwarded: x',
    'X_Real_IP: 192.0.2.1',
    'X-Client-IP: 192.0.2.1',
    'Client-IP: 192.0.2.1',
    'X-Cluster-Client-IP: 192.0.2.1',
    'X-Remote-IP: 192.0.2.1',
    'X-Remote-Addr: 192.0.2.1',
    'X-Originating-IP: 192.0.2.1',
    'CF-Connecting-IP: 192.0.2.1',
    'Fastly-Client-IP: 192.0.2.1',
    'WL-Proxy-Client-IP: 192.0.2.1',
    'Proxy-Client-IP: 192.0.2.1',
    'Front-End-Https: on',
    'X-Scheme: http',
    'X-Url-Scheme: http',
    'HTTPS: on',
    'X-Original-Host: evil.test',
    'X-HTTP-Host-Override: evil.test',
    'X-Backend-Host: evil.test',
    'X-Original-Path: /admin',
    'X-Original-URI: /admin',
    'X-Override-URL: /admin',
    'X-HTTP-DestinationURL: http://evil.test',
    'X-Envoy-Original-Path: /admin',
    'Request-Uri: /admin',
    'Base-Url: http://evil.test',
    'Proxy-Host: evil.test',
    'X-HTTP-Method: POST',
    'X_HTTP_Method_Override: POST',
    'Proxy: http://evil.test',
    'Fly-Client-IP: 192.0.2.1',
    'Fly-Forwarded-Proto: http',
    'X-Vercel-Forwarded-For: 192.0.2.1',
    'X-Appengine-User-IP: 192.0.2.1',
    'X-Azure-ClientIP: 192.0.2.1',
    'CloudFront-Viewer-Address: 192.0.2.1:443',
    'X-Nf-Client-Connection-Ip: 192.0.2.1',
    'X-ProxyUser-Ip: 192.0.2.1',
    'X-Envoy-External-Address: 192.0.2.1',
    'X-Envoy-Internal: true',
    'X-Real-Host: evil.test',
    'X-MS-Original-URL: /admin',
    'X-Matched-Path: /admin',
    'X-Middleware-Subrequest: middleware',
    'X-Middleware-Rewrite: /admin',
    'X-Invoke-Path: /admin',
    'Remote_User: ada',
    'X-Auth-Request_User: ada',
    'X-Auth-Request-Preferred_Username: ada',
    'X_Client_Cert: x',
    'OIDC-Claim-Sub: ada',
  ])('does not pass on %s, even of a trusted proxy', (line) => {
    const request = requestWith({ fields: fieldsOf('A: 1', line, 'B: 2') });
    for (const isVouchedFor of [false, true]) {
      const client = { ...clientOf({}), isVouchedFor };
      const lines = forwardedRequestFields(request, client, rules, 'rangeway').map(
        ([name, value]) => `${name}: ${value}`,
      );
      expect(lines).toEqual(['host: origin.test:3000', 'a: 1', 'b: 2', 'via: 2 rangeway', ...ours()]);
    }
  });

  it.each([
    'Remote-User: ada',
    'Remote-Groups: admin',
    'X-Remote-User: ada',
    'X-WebAuth-User: ada',
    'X-Auth-Request-User: ada',
    'X-Auth-Request-Access-Token: x',
    'X-Forwarded-User: ada',
    'X-Forwarded-Client-Cert: Hash=1',
    'X-Forwarded-Tls-Client-Cert-Info: x',
    'Client-Cert: :MIIB:',
    'Client-Cert-Chain: :MIIB:',
    'Ssl-Client-Verify: SUCCESS',
    'X-SSL-Client-S-DN: CN=ada',
    'X-Client-Cert: x',
    'X-ARR-ClientCert: x',
    'X-Amzn-Oidc-Identity: ada',
    'X-Goog-Authenticated-User-Email: ada',
    'X-MS-Client-Principal-Name: ada',
    'Cf-Access-Jwt-Assertion: x',
    'Teleport-Jwt-Assertion: x',
    'X-Sendfile-Type: X-Accel-Redirect',
    'X-Accel-Mapping: /srv=/internal',
    'Tailscale-User-Login: ada',
    'X-Appengine-Cron: true',
    'OIDC_CLAIM_sub: ada',
    'SM_USER: ada',
  ])('passes on %s of a trusted proxy only', (line) => {
    const request = requestWith({ fields: fieldsOf(line) });
    const linesFor = (client: Client) =>
      forwardedRequestFields(request, client, rules, 'rangeway').map(([name, value]) => `${name}: ${value}`);
    const [passed = ''] = fieldsOf(line).map(([name, value]) => `${name}: ${value}`);
    expect(linesFor(clientOf({}))).not.toContain(passed);
    expect(linesFor({ ...clientOf({}), isVouchedFor: true })).toContain(passed);
    const tunnel = tunnelRequestFields(request, clientOf({}), rules, 'rangeway');
    expect(tunnel.map(([name]) => name)).not.toContain(passed.slice(0, passed.indexOf(':')));
  });

  it.each([
    'X-API-Key: x',
    'X-Auth-Token: x',
    'X-Auth-Email: ada@a.test',
    'X-Client-Version: 1',
    'X-Client-Id: 1',
    'X-Azure-Ref: 1',
    'X-Vercel-Protection-Bypass: x',
    'CF-Access-Client-Id: x',
    'Fly-Prefer-Region: ams',
  ])('passes on %s of any client', (line) => {
    const [passed = ''] = fieldsOf(line).map(([name, value]) => `${name}: ${value}`);
    expect(linesOf({ fields: fieldsOf(line) })).toContain(passed);
  });

  it('does not pass on fields that Connection names', () => {
    expect(linesOf({ fields: fieldsOf('Connection: close, X-Hop', 'X-Hop: 1', 'X-End: 2') }).slice(1, 2)).toEqual([
      'x-end: 2',
    ]);
  });

  it('passes on a method override with POST, whose response is not shared', () => {
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
    ['a.test:8443', ours('a.test:8443', '8443', '"a.test:8443"')],
    ['[::1]:81', ours('[::1]:81', '81', '"[::1]:81"')],
    ['', [...ours().slice(0, 4), 'forwarded: for=192.0.2.7;proto=https']],
  ])('states client, scheme, host and port for the authority %j', (authority, lines) => {
    expect(linesOf({ authority }).slice(2)).toEqual(lines);
  });

  it.each([
    ['2001:db8::1', '2001:db8::1'],
    ['::ffff:192.0.2.9', '192.0.2.9'],
    ['::ffff:c000:209', '192.0.2.9'],
  ])('states the peer %s as %s', (address, want) => {
    expect(linesOf({ peer: { address, port: 1 } })).toContain(`x-forwarded-for: ${want}`);
  });

  const addressFields = (client: Client, address: string) =>
    forwardedRequestFields(requestWith({ peer: { address, port: 1 } }), client, rules, 'rangeway')
      .filter(([name]) => /^(?:x-forwarded-for|x-real-ip|forwarded)$/.test(name))
      .map(([, value]) => value);
  const hostAndProto = 'host=a.test;proto=https';
  it.each<[name: string, client: Client, peer: string, want: string[]]>([
    [
      'the client and each proxy',
      { address: '2001:db8::7', forwardedFor: ['2001:db8::7', '10.0.0.2'] },
      '10.0.0.1',
      [
        '2001:db8::7, 10.0.0.2, 10.0.0.1',
        '2001:db8::7',
        `for="[2001:db8::7]";${hostAndProto}, for=10.0.0.2, for=10.0.0.1`,
      ],
    ],
    ['a peer without an address', { address: '', forwardedFor: [] }, '', ['unknown', `for=unknown;${hostAndProto}`]],
    [
      'a client behind such a peer',
      { address: '192.0.2.7', forwardedFor: ['192.0.2.7'] },
      '',
      ['192.0.2.7, unknown', '192.0.2.7', `for=192.0.2.7;${hostAndProto}, for=unknown`],
    ],
    [
      'a client that is hidden',
      { address: '', forwardedFor: ['_gateway', '10.0.0.2'] },
      '::ffff:10.0.0.1',
      ['unknown, 10.0.0.2, 10.0.0.1', `for=_gateway;${hostAndProto}, for=10.0.0.2, for=10.0.0.1`],
    ],
  ])('states %s', (_name, client, peer, want) => expect(addressFields(client, peer)).toEqual(want));

  const toOrigin: ForwardingRules['toOrigin'] = {
    removed: new Set(['cookie', 'x-real-ip', 'authorization', 'x-forwarded-for']),
    removedFromShared: new Set(['origin']),
    constant: [['authorization', 'Basic eA==']],
    scope: '1',
  };
  const personal = fieldsOf('Cookie: a=b', 'Authorization: Bearer x', 'Origin: https://a.test', 'Accept: */*');
  const namesOf = (fields: ReturnType<typeof forwardedRequestFields>) =>
    fields.map(([name]) => name).filter((name) => /^(?:cookie|auth|origin|accept|x-real|x-forwarded-for)/.test(name));
  it.each([
    ['GET', ['accept']],
    ['HEAD', ['accept']],
    ['POST', ['origin', 'accept']],
    ['DELETE', ['origin', 'accept']],
  ])('removes from a %s the fields that the route removes', (method, want) => {
    const request = requestWith({ method, fields: personal });
    expect(namesOf(forwardedRequestFields(request, clientOf({}), { ...rules, toOrigin }, 'rangeway'))).toEqual(want);
  });

  it.each(['X_User: evil', 'x-user: evil', 'X.User: evil', 'X_uSER: evil'])(
    'removes %s where the route removes X-User: old gateways take one for the other',
    (line) => {
      const own = { ...toOrigin, removed: new Set(['x-user']) };
      const request = requestWith({ fields: fieldsOf(line, 'X-Users: 1') });
      const names = forwardedRequestFields(request, clientOf({}), { ...rules, toOrigin: own }, 'rangeway');
      expect(names.map(([name]) => name).filter((name) => /^x.user/.test(name))).toEqual(['x-users']);
    },
  );

  it('adds the fields of the route to a tunnel, and keeps Origin, by which the origin server checks the page', () => {
    const request = requestWith({ fields: personal });
    const fields = tunnelRequestFields(request, clientOf({}), { ...rules, toOrigin }, 'rangeway');
    expect(namesOf(fields)).toEqual(['origin', 'accept', 'authorization']);
    expect(fieldLines(fields, 'authorization')).toEqual(['Basic eA==']);
    expect(namesOf(tunnelRequestFields(request, clientOf({}), rules, 'rangeway'))).toContain('cookie');
  });

  it.each<[lines: readonly string[], acceptEncoding: 'asSent' | 'normalise' | 'identity', want: readonly string[]]>([
    [[], 'asSent', []],
    [['Accept-Encoding: gzip, br'], 'asSent', ['gzip, br']],
    [[], 'normalise', ['identity']],
    [['Accept-Encoding: gzip', 'X: 1', 'Accept-Encoding: br;q=0.5, foo'], 'normalise', ['br, gzip']],
    [[], 'identity', ['identity']],
    [['Accept-Encoding: gzip', 'X: 1', 'Accept-Encoding: br'], 'identity', ['identity']],
  ])('%j is sent on with acceptEncoding "%s"', (lines, acceptEncoding, want) => {
    const fields = forwardedRequestFields(
      requestWith({ fields: fieldsOf(...lines) }),
      clientOf({}),
      { ...rules, cache: { ...rules.cache, acceptEncoding } },
      'rangeway',
    );
    expect(fieldLines(fields, 'accept-encoding')).toEqual(want);
  });

  it('announces itself where Surrogate-Control is read, in place of the client', () => {
    const fields = fieldsOf('Surrogate-Capability: evil="ESI/1.0"');
    const cache: ForwardingRules['cache'] = { ...rules.cache, targetedFields: ['a', 'surrogate-control'] };
    const lines = linesOf({ fields }, { cache }).filter((line) => line.startsWith('surrogate-'));
    expect(lines).toEqual(['surrogate-capability: rangeway="Surrogate/1.0"']);
  });
});

describe('forwardedResponseFields', () => {
  it('passes on end-to-end fields, and appends itself to Via', () => {
    const fields = fieldsOf(
      'Connection: close, X-Hop',
      'X-Hop: 1',
      'Set-Cookie: a',
      'Content-Length: 5',
      'Transfer-Encoding: chunked',
      'Set-Cookie: b',
      'Alt-Svc: h3=":443"',
      'Proxy-Authenticate: Basic',
      'Content-Type: text/plain',
      'Via: 1.1 other',
    );
    expect(forwardedResponseFields(fields, '1.1', 'rangeway')).toEqual(
      fieldsOf('Set-Cookie: a', 'Set-Cookie: b', 'Content-Type: text/plain', 'Via: 1.1 other', 'Via: 1.1 rangeway'),
    );
  });

  it.each([
    [426, ['Upgrade: HTTP/3.0']],
    [200, []],
    [101, []],
  ])(
    'passes on Upgrade in a 426, which requires it, and in no other response (RFC 9110 §15.5.22): %d',
    (status, kept) => {
      const fields = fieldsOf('Upgrade: HTTP/3.0', 'Connection: upgrade');
      expect(forwardedResponseFields(fields, '1.1', 'rangeway', status)).toEqual(
        fieldsOf(...kept, 'Via: 1.1 rangeway'),
      );
    },
  );
});

describe('the cookie of a session of the dashboard', () => {
  it.each<[given: string, passed: string | undefined]>([
    ['rangeway_session=x', undefined],
    ['a=1; rangeway_session=x; b=2', 'a=1; b=2'],
    [' rangeway_session = x;a=1', 'a=1'],
    ['rangeway_session', undefined],
    ['my_rangeway_session=x; a=1', 'my_rangeway_session=x; a=1'],
    ['a=rangeway_session', 'a=rangeway_session'],
  ])('reaches no origin: %j', (given, passed) => {
    const request = requestWith({ fields: [['cookie', given]] });
    for (const forward of [forwardedRequestFields, tunnelRequestFields]) {
      const forwarded = forward(request, clientOf({}), rules, 'rangeway');
      expect(fieldLines(forwarded, 'cookie')).toEqual(passed === undefined ? [] : [passed]);
    }
  });
});
