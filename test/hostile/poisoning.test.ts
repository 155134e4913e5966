/** Cache poisoning: parts of a request that are in no key do not change the response to another client. */

import { hash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Asked,
  type Got,
  openSharedGround,
  requestOf,
  type Said,
  type SharedGround,
} from '../support/proxies/shared-ground.ts';

/**
 * An origin that repeats the whole request in its response, and permits sharing. Via, Connection and Range are left out, as
 * they are the proxy's own. A prefix such as `/p1` gives each row of a table its own target.
 */
function reflect({ method, target, lines, body }: Asked): Said {
  const reflected = lines.filter((line) => !/^(?:via|connection|range):/i.test(line));
  const path = target.replace(/^\/p\d+/, '');
  const origin = reflected.find((line) => /^origin:/i.test(line))?.slice('origin: '.length);
  const text = [`${method} ${path}`, ...reflected, body].join('\n');
  return {
    fields: {
      'cache-control': 'max-age=60',
      etag: `"${hash('sha256', text)}"`,
      link: `<http://origin.test${path}>; rel=canonical`,
      'x-echo': reflected.map((line) => line.replace(':', '=')),
      ...(origin === undefined ? {} : { 'access-control-allow-origin': origin }),
    },
    body: text,
  };
}

let ground: SharedGround;
let alone: Got;
let rows = 0;
beforeAll(async () => {
  ground = await openSharedGround(reflect);
  alone = await ground.send(requestOf('GET /p0/page'));
});
afterAll(() => ground[Symbol.asyncDispose]());

/** Sends the attack twice, then the request of the victim, which must get the same response as without the attack. */
async function expectUnharmed(attack: (path: string) => string, victim = (path: string) => requestOf(`GET ${path}`)) {
  rows += 1;
  const path = `/p${rows}/page`;
  await ground.send(attack(path));
  await ground.send(attack(path));
  expect({ ...(await ground.send(victim(path))), isHit: false }).toEqual(alone);
}

/** Fields that are in no key. */
const unkeyed = [
  'X-Forwarded-Host: evil.test',
  'X-Forwarded-Host: victim.test"><script>alert(1)</script>',
  'X-Forwarded-Server: evil.test',
  'X-Forwarded-Proto: nothttps',
  'X-Forwarded-Scheme: http',
  'X-Forwarded-Port: 1234',
  'X-Forwarded-Ssl: off',
  'X-Forwarded-For: 198.51.100.66',
  'X-Forwarded-Prefix: /evil',
  'X-Forwarded-Path: /evil',
  'X-Forwarded-Uri: /evil',
  'X-Forwarded-Method: DELETE',
  'X-Forwarded: host=evil.test',
  'X-Forward-For: 198.51.100.66',
  'X-Forwarder-For: 198.51.100.66',
  'X-Original-Forwarded-For: 198.51.100.66',
  'Forwarded: for=198.51.100.66;host=evil.test;proto=http',
  'Forwarded-For: 198.51.100.66',
  'Forwarded-Proto: http',
  'X_Forwarded_Host: evil.test',
  'x_forwarded-host: evil.test',
  'X.Forwarded.Host: evil.test',
  'X~Forwarded~Host: evil.test',
  'X-Real-IP: 198.51.100.66',
  'X-Client-IP: 198.51.100.66',
  'Proxy: http://evil.test',
  'Http-Proxy: http://evil.test',
  'X-Waws-Unencoded-Url: /evil',
  'X-Original-Method: DELETE',
  'Host-Override: evil.test',
  'X-Host-Override: evil.test',
  'Remote-User: admin',
  'X-WebAuth-User: admin',
  'X-Auth-Request-User: admin',
  'X-Forwarded-User: admin',
  'Ssl-Client-Verify: SUCCESS',
  'X-SSL-Client-S-DN: CN=admin',
  'X-Client-Cert: evil',
  'X-ARR-ClientCert: evil',
  'Client-Cert: :ZXZpbA==:',
  'Fly-Client-IP: 198.51.100.66',
  'X-Vercel-Forwarded-For: 198.51.100.66',
  'X-Appengine-User-IP: 198.51.100.66',
  'X-Azure-ClientIP: 198.51.100.66',
  'X-Real-Host: evil.test',
  'X-MS-Original-URL: /evil',
  'X-Matched-Path: /evil',
  'X-Middleware-Subrequest: middleware',
  'Client-IP: 198.51.100.66',
  'True-Client-IP: 198.51.100.66',
  'X-Cluster-Client-IP: 198.51.100.66',
  'X-Remote-IP: 198.51.100.66',
  'X-Remote-Addr: 198.51.100.66',
  'X-Originating-IP: 198.51.100.66',
  'X-Custom-IP-Authorization: 127.0.0.1',
  'CF-Connecting-IP: 198.51.100.66',
  'CF-Visitor: {"scheme":"http"}',
  'Fastly-Client-IP: 198.51.100.66',
  'CloudFront-Forwarded-Proto: http',
  'X-Host: evil.test',
  'X-HTTP-Host-Override: evil.test',
  'X-Original-Host: evil.test',
  'X-Backend-Host: evil.test',
  'X-Proxy-Host: evil.test',
  'Proxy-Host: evil.test',
  'Base-Url: http://evil.test',
  'X-Original-URL: /admin',
  'X-Original-URI: /admin',
  'X-Original-Path: /admin',
  'X-Rewrite-URL: /admin',
  'X-Override-URL: /admin',
  'X-HTTP-DestinationURL: http://evil.test',
  'X-HTTP-Path-Override: /admin',
  'X-Envoy-Original-Path: /admin',
  'Request-Uri: /admin',
  'Front-End-Https: on',
  'HTTPS: on',
  'X-Scheme: http',
  'X-Url-Scheme: http',
  'X-HTTP-Method-Override: DELETE',
  'X-HTTP-Method: PUT',
  'X-Method-Override: POST',
  'X_HTTP_Method_Override: POST',
  'Surrogate-Capability: evil="ESI/1.0"',
  'Proxy-Authorization: Basic ZXZpbDpl',
  'Proxy-Connection: keep-alive',
  // Fields of the connection, and fields about the response to this one request.
  'TE: trailers',
  'Trailer: X-Evil',
  'Keep-Alive: timeout=1',
  'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA',
  'Upgrade: h2c',
  'Connection: X-Evil\r\nX-Evil: evil',
  'Connection: Host, Via, X-Forwarded-For',
  'Expect: 100-continue',
  'Range: bytes=0-0',
  'Range: bytes=-1',
  'Range: bytes=0-0,2-2,4-4',
  'Range: bytes=99999999-',
  'Range: pages=1-2',
  'If-Range: "evil"\r\nRange: bytes=0-0',
  'If-Match: "evil"',
  'If-None-Match: *',
  'If-None-Match: "evil"',
  'If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT',
  'If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT',
  'Content-Length: 0',
  // A page of another origin: response fields that name it are for its pages only.
  'Origin: https://evil.test',
  'Origin: null',
  // Credentials: responses to them are shared only with the origin's permission.
  'Authorization: Basic ZXZpbDpl',
  // Requests that do not store a response.
  'Cache-Control: no-store',
  'Cache-Control: only-if-cached',
];

describe('a field that is in no key', () => {
  it('has at least 80 rows', () => expect(new Set(unkeyed).size).toBeGreaterThanOrEqual(80));

  it.each(unkeyed)('%s', async (line) => {
    await expectUnharmed((path) => requestOf(`GET ${path}`, line));
  });

  it.each(unkeyed)('%s, before the victim requests a range', async (line) => {
    rows += 1;
    const path = `/p${rows}/page`;
    await ground.send(requestOf(`GET ${path}`, line));
    const got = await ground.send(requestOf(`GET ${path}`, 'Range: bytes=0-9'));
    expect([got.status, got.body]).toEqual([206, alone.body.slice(0, 10)]);
  });

  it.each(unkeyed)('%s, by HEAD', async (line) => {
    await expectUnharmed((path) => requestOf(`HEAD ${path}`, line));
  });
});

describe('a request line and a Host', () => {
  it.each<[name: string, attack: (path: string) => string]>([
    ['another Host', (path) => requestOf(`GET ${path}`, 'Host: evil.test')],
    ['another port', (path) => requestOf(`GET ${path}`, 'Host: victim.test:1234')],
    ['a dot after the host', (path) => requestOf(`GET ${path}`, 'Host: victim.test.')],
    ['capitals', (path) => requestOf(`GET ${path}`, 'Host: VICTIM.Test')],
    ['the default port', (path) => requestOf(`GET ${path}`, 'Host: victim.test:80')],
    ['an empty port', (path) => requestOf(`GET ${path}`, 'Host: victim.test:')],
    ['the absolute-form of another host', (path) => requestOf(`GET http://evil.test${path}`, 'Host: victim.test')],
    ['the absolute-form, with another Host', (path) => requestOf(`GET http://victim.test${path}`, 'Host: evil.test')],
    ['user information', (path) => requestOf(`GET http://evil@victim.test${path}`)],
    ['user information in Host', (path) => requestOf(`GET ${path}`, 'Host: evil@victim.test')],
    ['two Hosts', (path) => requestOf(`GET ${path}`, 'Host: victim.test', 'Host: evil.test')],
    ['no Host in HTTP/1.1', (path) => `GET ${path} HTTP/1.1\r\nConnection: close\r\n\r\n`],
    ['no Host in HTTP/1.0', (path) => requestOf(`GET ${path} HTTP/1.0`)],
    ['HTTP/1.0 with Host', (path) => requestOf(`GET ${path} HTTP/1.0`, 'Host: victim.test')],
    [
      'HTTP/1.0 without Host, with X-Forwarded-Host',
      (path) => requestOf(`GET ${path} HTTP/1.0`, 'X-Forwarded-Host: victim.test'),
    ],
    ['a path in Host', (path) => requestOf(`GET ${path}`, 'Host: victim.test/evil')],
    ['spaces in Host', (path) => requestOf(`GET ${path}`, 'Host: victim.test evil.test')],
    ['a fragment', (path) => requestOf(`GET ${path}#evil`)],
    ['a query', (path) => requestOf(`GET ${path}?utm=evil`)],
    ['another case of the method', (path) => requestOf(`get ${path}`)],
    ['an unknown method', (path) => requestOf(`PURGE ${path}`)],
  ])('%s', async (_name, attack) => await expectUnharmed(attack));
});

describe('a body in a GET', () => {
  const withBody = (method: string) => (path: string) =>
    `${requestOf(`${method} ${path}`, 'Content-Type: application/x-www-form-urlencoded', 'Content-Length: 6')}a=evil`;
  const chunked = (path: string) => `${requestOf(`GET ${path}`, 'Transfer-Encoding: chunked')}4\r\nevil\r\n0\r\n\r\n`;

  it.each([
    ['with a length', withBody('GET')],
    ['in chunks', chunked],
    ['of a HEAD', withBody('HEAD')],
  ])('%s is passed on, and the response is not stored', async (_name, attack) => {
    await expectUnharmed(attack);
    const seen = ground.asked.filter(({ target }) => target === `/p${rows}/page`);
    expect(seen.map(({ body }) => body)).toEqual(seen.length === 3 ? [seen[0]?.body, seen[0]?.body, ''] : []);
    expect(seen[0]?.body).toContain('evil');
  });

  it('stores nothing, and leaves the stored response unchanged', async () => {
    rows += 1;
    const path = `/p${rows}/page`;
    await ground.send(requestOf(`GET ${path}`));
    expect((await ground.send(withBody('GET')(path))).body).toContain('a=evil');
    const after = await ground.send(requestOf(`GET ${path}`));
    expect(after).toEqual({ ...alone, isHit: true });
  });
});

describe('response splitting', () => {
  it.each([
    ['a bare CR', 'X-Split: a\rSet-Cookie: evil=1'],
    ['a bare LF', 'X-Split: a\nSet-Cookie: evil=1'],
    ['a folded line', 'X-Split: a\r\n\tSet-Cookie: evil=1'],
    ['NUL', 'X-Split: a\0Set-Cookie: evil=1'],
    ['a CR in a name', 'X-Sp\rlit: a'],
    ['a CR in Host', 'Host: victim.test\rSet-Cookie: evil=1'],
  ])('by %s is refused', async (_name, line) => {
    rows += 1;
    const path = `/p${rows}/page`;
    expect((await ground.send(requestOf(`GET ${path}`, line))).status).toBe(400);
    const got = await ground.send(requestOf(`GET ${path}`));
    expect(got).toEqual(alone);
  });

  it.each(['%0d%0aSet-Cookie:%20evil=1', '%E5%98%8A%E5%98%8DSet-Cookie:%20evil=1', '\\r\\nSet-Cookie: evil=1'])(
    'by a query with %s affects that query only',
    async (text) => await expectUnharmed((path) => requestOf(`GET ${path}?${text.replaceAll(' ', '+')}`)),
  );
});

describe('a field that the origin may answer by', () => {
  /** Passed on and in no key: an origin that answers by these must send Vary, or the route must be configured. */
  const passed = [
    'User-Agent: evil',
    'Referer: https://evil.test/',
    'Accept: text/evil',
    'Accept-Language: ev',
    'Accept-Encoding: x-evil',
    'Cookie: evil=1',
    'Cache-Control: max-stale=5, evil=1',
    'X-Custom: evil',
  ];
  const nameOf = (line: string) => line.slice(0, line.indexOf(':'));

  async function poisoned(line: string, route: object, answer = reflect): Promise<boolean> {
    await using own = await openSharedGround(answer, [route]);
    await own.send(requestOf('GET /p0/page', line));
    const { body } = await own.send(requestOf('GET /p0/page'));
    if (body !== alone.body) expect(body).toContain(line.slice(line.indexOf(':') + 1));
    return body !== alone.body;
  }

  it.each(passed)('%s: does no harm with Vary, with a rule that removes it, or as a part of the key', async (line) => {
    const name = nameOf(line);
    expect(await poisoned(line, {})).toBe(true);
    const answer = (asked: Asked): Said => {
      const response = reflect(asked);
      return { ...response, fields: { ...response.fields, vary: name } };
    };
    expect(await poisoned(line, {}, answer)).toBe(false);
    expect(await poisoned(line, { fields: { toOrigin: { remove: [name] } } })).toBe(false);
    expect(await poisoned(line, { cache: { key: { fields: [name] } } })).toBe(false);
  });

  it('Accept-Encoding: does no harm where the response has Content-Encoding without Vary (gzip_vary off)', async () => {
    const answer = (asked: Asked): Said => {
      const isEncoded = asked.field('accept-encoding')?.includes('gzip') === true;
      const fields = { 'cache-control': 'max-age=60', ...(isEncoded ? { 'content-encoding': 'gzip' } : {}) };
      return { fields, body: isEncoded ? '\x1f\x8b' : 'plain' };
    };
    await using own = await openSharedGround(answer);
    const encoded = requestOf('GET /page', 'Accept-Encoding: gzip');
    expect((await own.send(encoded)).body).toBe('\x1f\x8b');
    for (const isHit of [false, true]) {
      expect(await own.send(requestOf('GET /page'))).toMatchObject({ body: 'plain', isHit });
    }
  });
});

describe('a page of another origin', () => {
  /** Repeats Origin without Vary, also in a 304 and in the response to HEAD. */
  const echo = (asked: Asked): Said => {
    const origin = asked.field('origin');
    const fields = {
      'cache-control': 'max-age=0',
      etag: '"1"',
      ...(origin === undefined
        ? {}
        : { 'access-control-allow-origin': origin, 'access-control-allow-credentials': 'true' }),
    };
    return asked.field('if-none-match') === '"1"' ? { status: 304, fields } : { fields, body: 'page' };
  };
  const corsOf = ({ fields }: Got) => fields.filter((line) => /^(?:access-control|vary)/i.test(line));

  it.each(['GET', 'HEAD'])('does not change the stored response by a validation with %s', async (method) => {
    await using own = await openSharedGround(echo);
    await own.send(requestOf('GET /page'));
    const attacker = await own.send(requestOf(`${method} /page`, 'Origin: https://evil.test'));
    expect(corsOf(attacker)).toEqual([
      'Access-Control-Allow-Origin: https://evil.test',
      'Access-Control-Allow-Credentials: true',
    ]);
    const victim = await own.send(requestOf('GET /page'));
    expect([victim.status, victim.body, corsOf(victim)]).toEqual([200, 'page', []]);
  });

  it('is not sent to the origin server on a route with cors', async () => {
    const route = { cors: { origins: ['https://app.test', 'https://evil.test'] } };
    await using own = await openSharedGround((asked) => ({ ...reflect(asked), status: 200 }), [route]);
    await own.send(requestOf('GET /page', 'Origin: https://evil.test'));
    const victim = await own.send(requestOf('GET /page', 'Origin: https://app.test'));
    expect(victim.isHit).toBe(true);
    expect(victim.body).not.toMatch(/evil|^origin/im);
    expect(victim.fields).toContain('Access-Control-Allow-Origin: https://app.test');
    expect((await own.send(requestOf('GET /page'))).fields.join()).not.toMatch(/evil|Allow-Origin/);
  });
});
