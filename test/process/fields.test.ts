/** The options about fields, from the configuration file to the bytes at the client and at the origin. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingHttpHeaders, type IncomingMessage, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RangewayProcess, startRangeway } from '../support/processes/rangeway-process.ts';

const app = 'https://app.test';

/** The routes, by the first segment of their paths. */
const routes: Record<string, object> = {
  plain: {},
  cors: { cors: { origins: [app] } },
  page: {
    cors: {
      origins: [app],
      credentials: true,
      methods: ['GET', 'PUT'],
      requestFields: ['X-Token'],
      exposeFields: ['X-Request-Id'],
      maxAgeSeconds: 60,
    },
  },
  all: { cors: { origins: ['*'] } },
  secure: {
    security: {
      strictTransportSecurity: 'max-age=63072000',
      contentTypeOptions: true,
      frameOptions: 'DENY',
      contentSecurityPolicy: "default-src 'none'",
      referrerPolicy: 'no-referrer',
    },
  },
  rules: {
    fields: {
      toOrigin: {
        remove: ['Cookie', 'X-Real-IP'],
        set: { 'X-Set': 'ours' },
        add: { 'X-Add': 'ours' },
        setSecret: { Authorization: 'env:TEST_ORIGIN_SECRET', 'X-Key': 'file:./key' },
      },
      toClient: { remove: ['Server', 'X-Theirs'], set: { 'X-Set': 'ours' }, add: { 'X-Add': 'ours' } },
    },
  },
  kept: { fields: { toClient: { set: { 'Cache-Control': 'public, max-age=600' } } } },
};

let origin: Server;
let dir: string;
const started: RangewayProcess[] = [];
/** The request fields that the origin has received, by path. */
const seen = new Map<string, IncomingHttpHeaders[]>();

const originUrl = () => `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
const lastSeen = (path: string): IncomingHttpHeaders => seen.get(path)?.at(-1) ?? {};

beforeAll(async () => {
  origin = createServer((incoming, response) => {
    const { url: path = '', headers } = incoming;
    seen.set(path, [...(seen.get(path) ?? []), headers]);
    const fields = {
      'cache-control': 'max-age=60',
      etag: '"1"',
      server: 'theirs',
      'x-theirs': '1',
      'x-add': 'theirs',
      'x-set': 'theirs',
      'x-frame-options': 'ALLOWALL',
      'strict-transport-security': 'max-age=1',
      'access-control-allow-origin': headers.origin ?? 'https://constant.test',
      'access-control-allow-methods': 'DELETE',
    };
    if (path.endsWith('/hints')) response.writeEarlyHints({ link: '</a>; rel=preload', 'x-theirs': '1' });
    response.writeHead(path.includes('broken') ? 500 : 200, { ...fields, 'content-length': 10 }).end('0123456789');
  });
  origin.on('upgrade', ({ url: path = '', headers }: IncomingMessage, socket) => {
    seen.set(path, [...(seen.get(path) ?? []), headers]);
    socket.end('HTTP/1.1 403 Forbidden\r\nServer: theirs\r\nContent-Length: 0\r\n\r\n');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  dir = await mkdtemp(join(tmpdir(), 'rangeway-fields-'));
  await writeFile(join(dir, 'key'), 'key of a file\n');
});
afterAll(async () => {
  await Promise.all(started.map((each) => each.stop('SIGTERM')));
  origin.closeAllConnections();
  await once(origin.close(), 'close');
  await rm(dir, { recursive: true, force: true });
});

/** Starts a server with these routes (all, by default), and returns its URL. */
async function serve(options: object = {}, own: Record<string, object> = routes): Promise<string> {
  const file = join(dir, `${started.length}.json`);
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    pseudonym: 'edge',
    log: { format: 'json' },
    routes: Object.entries(own).map(([name, route]) => ({
      match: { pathPrefix: `/${name}` },
      origin: originUrl(),
      ...route,
    })),
    ...options,
  };
  await writeFile(file, JSON.stringify(config));
  const rangeway = startRangeway(['--config', file], { TEST_ORIGIN_SECRET: 'Bearer s3cret' });
  started.push(rangeway);
  return (await rangeway.waitFor(/ready on [^"]*?(http:[^\s",]+)[, ]/))[1] ?? '';
}

interface Got {
  readonly status: number | undefined;
  readonly fields: IncomingHttpHeaders;
  readonly body: string;
}

async function ask(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Got> {
  const [response]: IncomingMessage[] = await once(request(url, { headers, method, agent: false }).end(), 'response');
  if (response === undefined) throw new Error('no response');
  return { status: response.statusCode, fields: response.headers, body: await text(response) };
}

const claims = {
  'x-forwarded-for': '198.51.100.66, 192.0.2.7',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'evil.test, shop.test:8443',
  forwarded: 'for=198.51.100.66;host=evil.test, for="[2001:db8::7]:5";host=other.test;proto=https',
  // The identity of the client.
  'remote-user': 'ada',
  'x-client-cert': 'cert',
  'x-original-url': '/admin',
};

describe('trustedProxies, trustedFields and pseudonym', () => {
  it.each<[name: string, options: object, want: IncomingHttpHeaders]>([
    [
      'no peer',
      {},
      {
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-proto': 'http',
        'x-real-ip': '127.0.0.1',
        forwarded: expect.stringMatching(/^for=127\.0\.0\.1;host="127\.0\.0\.1:\d+";proto=http$/) as never,
      },
    ],
    [
      'other addresses',
      { trustedProxies: ['192.0.2.0/24', 'unix'] },
      { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'http', 'x-real-ip': '127.0.0.1' },
    ],
    [
      'the peer',
      { trustedProxies: ['127.0.0.0/8'] },
      {
        'x-forwarded-for': '192.0.2.7, 127.0.0.1',
        'x-forwarded-proto': 'https',
        'x-forwarded-host': 'shop.test:8443',
        'x-forwarded-port': '8443',
        'x-real-ip': '192.0.2.7',
        forwarded: 'for=192.0.2.7;host="shop.test:8443";proto=https, for=127.0.0.1',
        via: '1.1 edge',
        'cdn-loop': 'edge',
        'remote-user': 'ada',
        'x-client-cert': 'cert',
      },
    ],
    [
      'the peer and the next one',
      { trustedProxies: ['127.0.0.1', '192.0.2.7'] },
      {
        'x-forwarded-for': '198.51.100.66, 192.0.2.7, 127.0.0.1',
        'x-forwarded-host': 'evil.test',
        'remote-user': 'ada',
        'x-client-cert': 'cert',
      },
    ],
    [
      'the peer, by Forwarded',
      { trustedProxies: ['127.0.0.1'], trustedFields: 'forwarded', pseudonym: 'inner' },
      {
        'x-forwarded-for': '2001:db8::7, 127.0.0.1',
        'x-forwarded-host': 'other.test',
        'x-forwarded-port': '443',
        'x-real-ip': '2001:db8::7',
        forwarded: 'for="[2001:db8::7]";host=other.test;proto=https, for=127.0.0.1',
        via: '1.1 inner',
        'cdn-loop': 'inner',
        'remote-user': 'ada',
        'x-client-cert': 'cert',
      },
    ],
  ])('believe %s', async (_name, options, want) => {
    const base = await serve(options, { plain: {} });
    expect((await ask(`${base}/plain/who`, claims)).status).toBe(200);
    const seenFields = lastSeen('/plain/who');
    expect(seenFields).toMatchObject(want);
    const names = ['remote-user', 'x-client-cert', 'x-original-url'];
    expect(names.filter((name) => name in seenFields)).toEqual(names.filter((name) => name in want));
  });

  it('believe peers of a Unix socket where trustedProxies has "unix"', async () => {
    for (const [trustedProxies, want] of [
      [['unix'], '192.0.2.7, unknown'],
      [['127.0.0.1'], 'unknown'],
    ] as const) {
      const socketPath = join(dir, `${started.length}.sock`);
      await serve({ trustedProxies, listen: [`unix:${socketPath}`, '127.0.0.1:0'] }, { plain: {} });
      const [response]: IncomingMessage[] = await once(
        get({ socketPath, path: '/plain/unix', headers: { ...claims, host: 'h.test' }, agent: false }),
        'response',
      );
      if (response !== undefined) await text(response);
      expect(lastSeen('/plain/unix')['x-forwarded-for']).toBe(want);
      expect(lastSeen('/plain/unix')['x-real-ip']).toBe(want === 'unknown' ? undefined : '192.0.2.7');
    }
  });

  it('decide which client the log names', async () => {
    const base = await serve({ trustedProxies: ['127.0.0.1'] }, { plain: {} });
    await ask(`${base}/plain/log`, claims);
    const [line] = (await started.at(-1)?.waitFor(/.*"event":"request".*\/plain\/log.*/)) ?? [''];
    expect(JSON.parse(line)).toMatchObject({ client: '192.0.2.7' });
  });

  it.each([
    ['an invalid authority', { 'x-forwarded-host': 'a b' }, 400],
    ['a loop by Via', { via: '1.1 edge' }, 508],
    ['a loop by CDN-Loop', { 'cdn-loop': 'other; a=", EDGE;a=1' }, 508],
  ])('refuse %s', async (_name, headers, status) => {
    const base = await serve({ trustedProxies: ['127.0.0.1'] }, { plain: {} });
    expect((await ask(`${base}/plain/refused`, headers)).status).toBe(status);
    expect(seen.get('/plain/refused')).toBeUndefined();
  });
});

describe('the options of a route', () => {
  let base: string;
  beforeAll(async () => {
    base = await serve({ trustedProxies: ['127.0.0.1'] });
  });

  const preflight = (path: string, page: string) =>
    ask(
      base + path,
      { origin: page, 'access-control-request-method': 'GET', 'access-control-request-headers': 'range' },
      'OPTIONS',
    );

  it('cors: the proxy answers preflight requests itself', async () => {
    const { status, fields } = await preflight('/cors/a', app);
    expect([status, fields]).toEqual([
      204,
      expect.objectContaining({
        'access-control-allow-origin': app,
        'access-control-allow-methods': 'GET, HEAD',
        'access-control-allow-headers': expect.stringContaining('Range, If-Match') as string,
        'access-control-max-age': '7200',
        vary: 'Origin, Access-Control-Request-Method',
      }),
    ]);
    expect(seen.get('/cors/a')).toBeUndefined();
    expect((await preflight('/cors/a', 'https://evil.test')).fields['access-control-allow-origin']).toBeUndefined();
  });

  it('cors: every option has its field', async () => {
    expect((await preflight('/page/a', app)).fields).toMatchObject({
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'GET, PUT',
      'access-control-allow-headers': expect.stringMatching(/, X-Token$/) as string,
      'access-control-max-age': '60',
    });
    expect((await ask(`${base}/page/a`, { origin: app })).fields).toMatchObject({
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': expect.stringMatching(/Content-Range, ETag, X-Request-ID$/) as string,
    });
    const open = await ask(`${base}/all/a`);
    expect(open.fields).toMatchObject({ 'access-control-allow-origin': '*' });
    expect(open.fields.vary).toBeUndefined();
  });

  it.each<[name: string, path: string, headers: Record<string, string>, status: number]>([
    ['a 200', '/cors/b', {}, 200],
    ['a hit', '/cors/b', {}, 200],
    ['a 206', '/cors/b', { range: 'bytes=1-3' }, 206],
    ['a 304', '/cors/b', { 'if-none-match': '"1"' }, 304],
    ['a 412', '/cors/b', { 'if-match': '"2"' }, 412],
    ['a 416', '/cors/b', { range: 'bytes=50-' }, 416],
    ['an error of the origin', '/cors/broken', {}, 500],
    ['an error of the proxy itself', '/cors/c', { 'cache-control': 'only-if-cached' }, 504],
  ])('cors: %s varies by Origin, exposes fields, and has no CORS fields of the origin', async (...row) => {
    const [, path, headers, status] = row;
    const got = await ask(base + path, { ...headers, origin: app });
    expect(got.status).toBe(status);
    expect(got.fields['access-control-allow-origin']).toBe(app);
    expect(got.fields['access-control-expose-headers']).toContain('Content-Range');
    expect(got.fields['access-control-allow-methods']).toBeUndefined();
    const other = await ask(base + path, headers);
    expect(other.fields['access-control-allow-origin']).toBeUndefined();
    // Errors of the proxy itself vary by Accept as well.
    for (const { fields } of [got, other]) expect(fields.vary).toMatch(/^(?:Accept, )?Origin$/);
  });

  it('cors: all pages share one stored response, and GET requests to the origin have no Origin', async () => {
    for (const page of [app, 'https://evil.test']) await ask(`${base}/cors/shared`, { origin: page });
    expect(seen.get('/cors/shared')).toHaveLength(1);
    expect(lastSeen('/cors/shared').origin).toBeUndefined();
    await ask(`${base}/cors/shared`, { origin: app }, 'POST');
    expect(lastSeen('/cors/shared').origin).toBe(app);
    await ask(`${base}/plain/cors`, { origin: app });
    expect(lastSeen('/plain/cors').origin).toBe(app);
  });

  it('security: replaces the fields of the origin, and sends Strict-Transport-Security only over TLS', async () => {
    const over = (scheme: string) => ask(`${base}/secure/a`, { 'x-forwarded-proto': scheme });
    expect((await over('https')).fields).toMatchObject({
      'strict-transport-security': 'max-age=63072000',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'content-security-policy': "default-src 'none'",
      'referrer-policy': 'no-referrer',
    });
    expect((await over('http')).fields['strict-transport-security']).toBeUndefined();
    expect((await ask(`${base}/plain/a`)).fields['x-frame-options']).toBe('ALLOWALL');
  });

  const sent = { cookie: 'a=b', authorization: 'Basic dXNlcjp4', 'x-set': 'theirs', 'x-add': 'theirs' };

  it('fields.toOrigin: the origin gets the configured fields, and the cache may share the response', async () => {
    await ask(`${base}/rules/a`, sent);
    const head = lastSeen('/rules/a');
    expect(head).toMatchObject({
      authorization: 'Bearer s3cret',
      'x-key': 'key of a file',
      'x-set': 'ours',
      'x-add': 'theirs, ours',
    });
    expect([head.cookie, head['x-real-ip'], head['x-forwarded-for']]).toEqual([undefined, undefined, '127.0.0.1']);
    expect((await ask(`${base}/rules/a`)).fields['cache-status']).toContain('hit');
    // Without the rule, the client's own Authorization keeps the response from being shared.
    await ask(`${base}/plain/a1`, sent);
    await ask(`${base}/plain/a1`);
    expect(seen.get('/plain/a1')).toHaveLength(2);
  });

  it.each<[name: string, path: string, headers: Record<string, string>, status: number]>([
    ['a 200', '/rules/b', {}, 200],
    ['a 206', '/rules/b', { range: 'bytes=1-3' }, 206],
    ['a 304', '/rules/b', { 'if-none-match': '"1"' }, 304],
    ['an error of the origin', '/rules/broken', {}, 500],
    ['an error of the proxy itself', '/rules/c', { 'cache-control': 'only-if-cached' }, 504],
  ])('fields.toClient: %s', async (_name, path, headers, status) => {
    const got = await ask(base + path, headers);
    expect(got.status).toBe(status);
    expect(got.fields).toMatchObject({ 'x-set': 'ours', 'x-add': expect.stringMatching(/(?:^|, )ours$/) as string });
    expect([got.fields['server'], got.fields['x-theirs']]).toEqual([undefined, undefined]);
  });

  it('fields.toClient: sets Cache-Control for downstream caches on origin responses, and not on errors of the proxy itself', async () => {
    expect((await ask(`${base}/kept/a`)).fields['cache-control']).toBe('public, max-age=600');
    const error = await ask(`${base}/kept/b`, { 'cache-control': 'only-if-cached' });
    expect([error.status, error.fields['cache-control']]).toEqual([504, 'no-store']);
  });

  it('fields.toClient: removes fields from interim responses too', async () => {
    const hints: IncomingHttpHeaders[] = [];
    for (const path of ['/plain/hints', '/rules/hints']) {
      const asking = get(base + path, { agent: false });
      asking.on('information', ({ headers }) => hints.push(headers));
      const [response]: IncomingMessage[] = await once(asking, 'response');
      if (response !== undefined) await text(response);
    }
    expect(hints.map((headers) => headers['x-theirs'])).toEqual(['1', undefined]);
    expect(hints.map((headers) => headers['link'])).toEqual(['</a>; rel=preload', '</a>; rel=preload']);
  });

  it('fields, cors: the rules apply to a request for a tunnel, and its Origin is forwarded', async () => {
    const upgrade = (path: string) =>
      ask(base + path, {
        ...sent,
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        'sec-websocket-version': '13',
        origin: app,
      });
    const refused = await upgrade('/rules/socket');
    expect([refused.status, refused.fields['server'], refused.fields['x-set']]).toEqual([403, undefined, 'ours']);
    expect(lastSeen('/rules/socket')).toMatchObject({ authorization: 'Bearer s3cret', 'x-set': 'ours', origin: app });
    expect(lastSeen('/rules/socket').cookie).toBeUndefined();
    await upgrade('/cors/socket');
    expect(lastSeen('/cors/socket').origin).toBe(app);
  });
});

describe('rules', () => {
  it('are part of the keys of entries: after a restart with other rules no entry is used', async () => {
    const store = { dir: join(dir, 'store') };
    const asked = () => seen.get('/a/kept')?.length;
    for (const [remove, want] of [
      [[], 1],
      [[], 1],
      [['Cookie'], 2],
      [['Cookie'], 2],
    ] as const) {
      const base = await serve({ store }, { a: { fields: { toOrigin: { remove } } } });
      // Each start listens on another port. A key has the authority of the request, so Host is fixed.
      await ask(`${base}/a/kept`, { host: 'kept.test' });
      await started.at(-1)?.stop('SIGTERM');
      expect(asked()).toBe(want);
    }
  });

  it.each([
    [
      'a secret that is not set',
      { setSecret: { 'X-A': 'env:RANGEWAY_TEST_NOWHERE' } },
      1,
      /RANGEWAY_TEST_NOWHERE is not set/,
    ],
    [
      'a secret that cannot be read',
      { setSecret: { 'X-A': 'file:/nowhere/at/all' } },
      1,
      /file:\/nowhere\/at\/all cannot be read/,
    ],
    [
      'a rule for a field that rules may not touch',
      { remove: ['Via'] },
      2,
      /toOrigin\.remove\[0\].*"via" is how loops are found/,
    ],
  ])('with %s stop the start, with one line', async (_name, toOrigin, code, message) => {
    const file = join(dir, 'wrong.json');
    await writeFile(file, JSON.stringify({ routes: [{ origin: originUrl(), fields: { toOrigin } }] }));
    await using rangeway = startRangeway(['--config', file]);
    expect(await rangeway.ended()).toBe(code);
    expect(rangeway.output()).toMatch(message);
    expect(rangeway.output()).not.toMatch(/^\s+at /m);
  });
});
