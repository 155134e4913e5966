import { describe, expect, it } from 'vitest';
import { defaultIdentityRules, identityParts, isAnonymous, permitsSharing } from '../../src/semantics/identity.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { fieldsOf, sentDate, storedWith } from '../support/values/fields-of.ts';

const rules = defaultIdentityRules;
const namesOf = (lines: readonly string[], own = rules) => identityParts(fieldsOf(...lines), own).map(([name]) => name);

describe('identityParts', () => {
  /** Request heads as programs send them. None of them identifies the user. */
  const clients: readonly (readonly [name: string, lines: readonly string[]])[] = [
    ['curl', ['Host: a.test', 'User-Agent: curl/8.14.1', 'Accept: */*']],
    ['curl -C -', ['Host: a.test', 'Range: bytes=100-', 'User-Agent: curl/8.14.1', 'Accept: */*']],
    [
      'curl --http2',
      ['Host: a.test', 'User-Agent: curl/8', 'Accept: */*', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c'],
    ],
    [
      'wget',
      ['Host: a.test', 'User-Agent: Wget/1.25.0', 'Accept: */*', 'Accept-Encoding: identity', 'Connection: Keep-Alive'],
    ],
    [
      'aria2',
      [
        'User-Agent: aria2/1.37.0',
        'Accept: */*,application/metalink4+xml,application/metalink+xml',
        'Host: a.test',
        'Pragma: no-cache',
        'Cache-Control: no-cache',
        'Want-Digest: SHA-512;q=1, SHA-256;q=1, SHA;q=0.1',
      ],
    ],
    [
      'axel',
      ['Host: a.test', 'Accept: */*', 'Range: bytes=1-', 'User-Agent: Axel/2.17.14', 'Accept-Encoding: identity'],
    ],
    ['zsync', ['Host: a.test', 'User-Agent: zsync/0.6.2', 'Range: bytes=0-1023', 'Referer: http://a.test/f.zsync']],
    ['GDAL', ['Host: a.test', 'Range: bytes=0-16383', 'Accept: */*', 'User-Agent: GDAL/3.10.3']],
    [
      'apt',
      ['Host: a.test', 'If-Range: Thu, 01 Jan 2026 12:00:00 GMT', 'Range: bytes=1-', 'User-Agent: Debian APT-HTTP/1.3'],
    ],
    [
      'ffmpeg',
      [
        'User-Agent: Lavf/61.7.100',
        'Accept: */*',
        'Range: bytes=0-',
        'Connection: close',
        'Host: a.test',
        'Icy-MetaData: 1',
      ],
    ],
    [
      'VLC',
      [
        'Host: a.test',
        'Accept: */*',
        'Accept-Language: de_DE',
        'User-Agent: VLC/3.0.21 LibVLC/3.0.21',
        'Range: bytes=0-',
      ],
    ],
    [
      'mpv',
      ['User-Agent: libmpv', 'Accept: */*', 'Range: bytes=0-', 'Connection: close', 'Host: a.test', 'Icy-MetaData: 1'],
    ],
    [
      'AVPlayer of Apple',
      [
        'Host: a.test',
        'X-Playback-Session-Id: 5B3DF5E9-2C6B-4F3B-9A47-7C5E0F0F8A3D',
        'Range: bytes=0-1',
        'Accept: */*',
        'User-Agent: AppleCoreMedia/1.0.0.22F76 (iPhone; U; CPU OS 18_5 like Mac OS X; de_de)',
        'Accept-Language: de-DE,de;q=0.9',
        'Accept-Encoding: identity',
        'Connection: keep-alive',
      ],
    ],
    [
      'ExoPlayer with CMCD',
      [
        'User-Agent: ExoPlayerDemo/2.19.1',
        'Accept-Encoding: identity',
        'CMCD-Object: br=3200,d=4004,ot=v,tb=6000',
        'CMCD-Request: bl=21300,mtp=48100',
        'CMCD-Session: cid="f",sf=d,sid="6e2fb550-c457-11e9-bb97-0800200c9a66",st=v',
        'CMCD-Status: rtp=15000',
      ],
    ],
    [
      'a television set',
      [
        'Host: a.test',
        'getcontentFeatures.dlna.org: 1',
        'transferMode.dlna.org: Streaming',
        'getMediaInfo.sec: 1',
        'getCaptionInfo.sec: 1',
        'User-Agent: SEC_HHP_[TV] Samsung Q70/1.0',
      ],
    ],
    [
      'Chrome, a video',
      [
        'Host: a.test',
        'Connection: keep-alive',
        'sec-ch-ua-platform: "Linux"',
        'User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36',
        'sec-ch-ua: "Chromium";v="150", "Not)A;Brand";v="8"',
        'sec-ch-ua-mobile: ?0',
        'sec-ch-ua-full-version-list: "Chromium";v="150.0.1.2"',
        'Accept: */*',
        'Sec-Fetch-Site: same-origin',
        'Sec-Fetch-Mode: no-cors',
        'Sec-Fetch-Dest: video',
        'Sec-Fetch-Storage-Access: active',
        'Referer: http://a.test/',
        'Accept-Encoding: identity;q=1, *;q=0',
        'Accept-Language: de-DE,de;q=0.9',
        'Range: bytes=0-',
        'DNT: 1',
        'Sec-GPC: 1',
      ],
    ],
    [
      'Chrome, a page with analytics cookies',
      [
        'Host: a.test',
        'Cache-Control: max-age=0',
        'Upgrade-Insecure-Requests: 1',
        'Sec-Purpose: prefetch;prerender',
        'Purpose: prefetch',
        'Save-Data: on',
        'Downlink: 10',
        'RTT: 50',
        'ECT: 4g',
        'DPR: 2',
        'Cookie: _ga=GA1.1.123.456; _ga_AB12=GS1.1; _gid=GA1.2; _gat_gtag_UA_1=1; _fbp=fb.1.2.3; _fbc=fb.1.2; _gcl_au=1.1',
        'Cookie: __utma=1; __utmz=2; _pk_id.1.1fff=ab; _pk_ses.1.1fff=1; _hjSessionUser_1=eyJ; _clck=a; _uetsid=b',
        'Cookie: _gat=1; _gat_UA-1-2=1; _gac_UA-1-2=1; _dc_gtm_UA-1-2=1; __utmt_b=1; __utmli=a; __utmxx=1; _hjid=1; _pk_ref.1.1fff=a',
        'Cookie: _gac_gb_G1=1; _gcl_aw=1; _gcl_dc=1; _ym_visorc=w; _ym_visorc_123=w; _pk_cvar.1.1f=a; _hjTLDTest=1; __utmv=1',
        'If-None-Match: "a"',
        'If-Modified-Since: Thu, 01 Jan 2026 12:00:00 GMT',
      ],
    ],
    [
      'Firefox',
      [
        'Host: a.test',
        'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
        'Accept: video/webm,video/ogg,video/*;q=0.9,*/*;q=0.5',
        'Accept-Language: de,en-US;q=0.7,en;q=0.3',
        'Range: bytes=0-',
        'Connection: keep-alive',
        'Sec-Fetch-Dest: video',
        'Accept-Encoding: identity',
        'Priority: u=4',
        'Alt-Used: a.test',
        'TE: trailers',
        'Pragma: no-cache',
      ],
    ],
    [
      'a script in a page',
      [
        'Host: a.test',
        'Origin: https://b.test',
        'Content-Type: application/json',
        'Content-Length: 0',
        'X-Requested-With: XMLHttpRequest',
        'Service-Worker: script',
        'sentry-trace: d4cda95b652f4a1592b449d5929fda1b-6e0c63257de34c92-1',
        'baggage: sentry-environment=prod,sentry-trace_id=d4cda95b652f4a1592b449d5929fda1b',
      ],
    ],
    [
      'a traced request behind proxies',
      [
        'Host: a.test',
        'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
        'tracestate: congo=t61rcWkgMzE',
        'b3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1',
        'X-B3-TraceId: 463ac35c9f6413ad48485a3953bb6124',
        'X-Request-ID: 7f3c',
        'X-Correlation-ID: 7f3d',
        'X-Amzn-Trace-Id: Root=1-67891233-abcdef012345678912345678',
        'X-Cloud-Trace-Context: 105445aa7843bc8bf206b12000100000/1;o=1',
        'X-Datadog-Trace-Id: 1',
        'Request-Id: |7f.',
        'CF-Ray: 8f1',
        'CDN-Loop: cloudflare',
        'Via: 1.1 varnish',
        'Forwarded: for=192.0.2.7',
        'X-Forwarded-For: 192.0.2.7',
        'X-Forwarded-Host: a.test',
        'X-Forwarded-Port: 443',
        'X-Forwarded-Proto: https',
        'X-Real-IP: 192.0.2.7',
        'Surrogate-Capability: rangeway="Surrogate/1.0"',
        'Max-Forwards: 10',
        'Early-Data: 1',
      ],
    ],
  ];
  it.each(clients)('finds no identity in the head: %s', (_name, lines) => {
    expect(namesOf(lines)).toEqual([]);
    expect(isAnonymous(fieldsOf(...lines), rules)).toBe(true);
  });

  it.each<[line: string, names: readonly string[]]>([
    ['Authorization: Bearer a', ['authorization']],
    ['Proxy-Authorization: Basic YTpi', ['proxy-authorization']],
    ['X-API-Key: a', ['x-api-key']],
    ['X-Auth-Token: a', ['x-auth-token']],
    ['X-Access-Token: a', ['x-access-token']],
    ['X-CSRF-Token: a', ['x-csrf-token']],
    ['Private-Token: a', ['private-token']],
    ['Job-Token: a', ['job-token']],
    ['Api-Key: a', ['api-key']],
    ['Ocp-Apim-Subscription-Key: a', ['ocp-apim-subscription-key']],
    ['X-Amz-Security-Token: a', ['x-amz-security-token']],
    ['X-Goog-IAP-JWT-Assertion: a', ['x-goog-iap-jwt-assertion']],
    ['CF-Access-Jwt-Assertion: a', ['cf-access-jwt-assertion']],
    ['DPoP: a', ['dpop']],
    ['Signature: sig1=:YQ==:', ['signature']],
    ['From: alice@a.test', ['from']],
    ['Remote-User: alice', ['remote-user']],
    ['X-Forwarded-User: alice', ['x-forwarded-user']],
    ['X-Forwarded-Email: alice@a.test', ['x-forwarded-email']],
    ['X-Forwarded-Client-Cert: Subject="CN=alice"', ['x-forwarded-client-cert']],
    ['X-Tenant-ID: 7', ['x-tenant-id']],
    ['X-Device-ID: 7', ['x-device-id']],
    ['Sec-Session-Response: a', ['sec-session-response']],
    ['Sec-Token-Binding: a', ['sec-token-binding']],
    ['Sec-WebSocket-Protocol: token.a', ['sec-websocket-protocol']],
    ['Accept-Token: a', ['accept-token']],
    ['X-Unknown:', ['x-unknown']],
    ['baggage: userId=alice,sentry-release=1', ['baggage']],
    ['Cookie: sessionid=a; _ga=b; theme=dark', ['cookie:sessionid', 'cookie:theme']],
    ['Cookie: _gallery=a; _g=b; _GA=c; gid=d', ['cookie:_GA', 'cookie:_g', 'cookie:_gallery', 'cookie:gid']],
    ['Cookie: token', ['cookie:token']],
    // Session cookies as Rails and Phoenix name them, of applications "ga", "gateway", "hjem", "pk", "gcl", "gac", "fbp".
    ...['_ga_session', '_ga_key', '_gateway_session', '_gat_key', '_hjem_session', '_hj_session', '_pk_session'].map(
      (name): [line: string, names: readonly string[]] => [`Cookie: ${name}=a`, [`cookie:${name}`]],
    ),
    ...['_pk_key', '_gcl_session', '_gac_key', '_fbp_session', '_ym_visorcery_session', '__utmost', '_dc_gtm_key'].map(
      (name): [line: string, names: readonly string[]] => [`Cookie: ${name}=a`, [`cookie:${name}`]],
    ),
  ])('finds %s', (line, names) => {
    expect(namesOf([line, 'Accept: */*'])).toEqual(names);
    expect(isAnonymous(fieldsOf(line), rules)).toBe(false);
  });

  it('returns the values of all lines, sorted by name', () => {
    const lines = ['X-B: 2', 'Cookie: b=2; a=1', 'X-A: 1', 'X-B: 3', 'Cookie: a=0'];
    expect(identityParts(fieldsOf(...lines), rules)).toEqual([
      ['cookie:a', 'a=1'],
      ['cookie:a', 'a=0'],
      ['cookie:b', 'b=2'],
      ['x-a', '1'],
      ['x-b', '2, 3'],
    ]);
  });

  it.each<[name: string, own: Partial<typeof rules>, lines: readonly string[], names: readonly string[]]>([
    ['a field that is ignored', { ignore: ['x-app'] }, ['X-App: 1', 'X-App-Id: 2'], ['x-app-id']],
    ['fields that are ignored by their beginning', { ignore: ['x-app-*'] }, ['X-App: 1', 'X-App-Id: 2'], ['x-app']],
    ['Cookie that is ignored as a whole', { ignore: ['cookie'] }, ['Cookie: a=1'], []],
    [
      'cookies that are ignored',
      { ignoreCookies: ['theme', 'ab_*'] },
      ['Cookie: theme=1; ab_x=2; id=3'],
      ['cookie:id'],
    ],
    ['a field that is included', { include: ['user-agent'] }, ['User-Agent: a', 'Accept: b'], ['user-agent']],
    [
      'a field that is included and ignored',
      { include: ['x-app-id'], ignore: ['x-app-*'] },
      ['X-App-Id: 2', 'X-App-B: 1'],
      ['x-app-id'],
    ],
    ['cookies that are included', { includeCookies: ['_ga'] }, ['Cookie: _ga=1; _gid=2'], ['cookie:_ga']],
    ['baggage that is included as a whole', { include: ['baggage'] }, ['baggage: sentry-a=1'], ['baggage']],
  ])('follows configured rules: %s', (_name, own, lines, names) => {
    expect(namesOf(lines, { ...rules, ...own })).toEqual(names);
    expect(isAnonymous(fieldsOf(...lines), { ...rules, ...own })).toBe(names.length === 0);
  });
});

describe('permitsSharing', () => {
  const lastModified = 'Last-Modified: Wed, 31 Dec 2025 12:00:00 GMT';
  const policy = defaultCaching;

  it.each<[lines: readonly string[], isShared: boolean]>([
    [['Cache-Control: max-age=60'], true],
    [['Cache-Control: s-maxage=60'], true],
    [['Cache-Control: s-maxage=0'], true],
    [['Expires: Thu, 01 Jan 2026 13:00:00 GMT'], true],
    [['Cache-Control: public'], true],
    [['Cache-Control: public, max-age=0'], true],
    [['Cache-Control: public', lastModified], true],
    [['CDN-Cache-Control: max-age=60'], true],
    [['Cache-Control: max-age=0, stale-while-revalidate=60'], true],
    [['Cache-Control: max-age=0, stale-if-error=60'], true],
    [[], false],
    [['ETag: "a"'], false],
    [[lastModified], false],
    [['Cache-Control: no-cache'], false],
    [['Cache-Control: must-revalidate', lastModified], false],
    [['Cache-Control: no-transform', lastModified], false],
    [['Cache-Control: immutable', lastModified], false],
    [['Cache-Control: stale-while-revalidate=60', lastModified], false],
    // A lifetime of 0 does not permit sharing: with max-stale, or while the origin fails, the response could still be served.
    [['Cache-Control: max-age=0', 'ETag: "a"'], false],
    [['Cache-Control: max-age=x'], false],
    [['Expires: 0', 'ETag: "a"'], false],
    [[`Date: ${sentDate}`, `Expires: ${sentDate}`], false],
    // A targeted field replaces Cache-Control (RFC 9213 §2.2).
    [['CDN-Cache-Control: no-transform', 'Cache-Control: max-age=60, public', 'ETag: "a"'], false],
    [['Pragma: public'], false],
  ])('%j: %s', (lines, isShared) => {
    expect(permitsSharing(storedWith(lines), policy)).toBe(isShared);
  });

  it.each<[name: string, own: Partial<typeof policy>, lines: readonly string[], isShared: boolean]>([
    ['defaultTtlSeconds', { defaultTtlSeconds: 60 }, [], true],
    ['defaultTtlByStatus', { defaultTtlByStatus: { '2xx': 60 } }, [lastModified], true],
    ['defaultTtlByStatus of other statuses', { defaultTtlByStatus: { '4xx': 60 } }, [lastModified], false],
    ['overrideTtlByStatus', { overrideTtlByStatus: { 200: 60 } }, [lastModified], true],
    ['overrideTtlByStatus of 0', { overrideTtlByStatus: { 200: 0 } }, ['Cache-Control: max-age=60'], false],
    [
      'staleIfErrorSeconds, which does not count',
      { staleIfErrorSeconds: 60, staleWhileRevalidateSeconds: 60 },
      [lastModified],
      false,
    ],
    ['rangeReuseSeconds, which does not count', { rangeReuseSeconds: 600 }, [], false],
  ])('by %s', (_name, own, lines, isShared) => {
    expect(permitsSharing(storedWith(lines), { ...policy, ...own })).toBe(isShared);
  });
});
