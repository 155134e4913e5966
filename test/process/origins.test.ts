/** The options of `origin`, through the executable, in front of origins of every kind. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingMessage, type RequestListener } from 'node:http';
import { createSecureServer, type Http2ServerRequest } from 'node:http2';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/clocks/until.ts';
import { type RangewayProcess, startConfigured, startRangeway } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { testAuthority, testCertificate, testClientCertificate } from '../support/values/tls-certificate.ts';

const size = 400_000;
const file = Buffer.from(patternBytes(0, size));

/** An origin that records the paths of its requests. */
interface TestOrigin {
  readonly url: string;
  readonly seen: string[];
  /** Handlers of the next requests for a path, in order. All other requests get the usual answer. */
  readonly plays: Map<string, RequestListener[]>;
  stop(): Promise<void>;
}

const open: TestOrigin[] = [];

/** Opens an origin that answers with its name, the HTTP version and the Host. Paths ending in `/file` have ranges and a strong tag. */
async function openOrigin(
  name: string,
  create: (serve: RequestListener) => Server = (serve) => createServer(serve),
  place: number | string = 0,
): Promise<TestOrigin> {
  const seen: string[] = [];
  const plays: TestOrigin['plays'] = new Map();
  const sockets = new Set<Socket>();
  const server = create((request, response) => {
    const path = request.url ?? '';
    seen.push(path);
    const play = plays.get(path)?.shift();
    if (play !== undefined) return play(request, response);
    if (path.endsWith('/file')) return respondWithFile(request, response);
    const { authorized } = request.socket as TLSSocket;
    const host = request.headers.host ?? (request as unknown as Http2ServerRequest).authority;
    response.end(`${name} ${request.httpVersion} ${host}${authorized ? ' authorized' : ''}`);
  });
  server.on('upgrade', (_request: IncomingMessage, socket: Socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
    socket.write(name);
    socket.pipe(socket);
  });
  for (const event of ['connection', 'secureConnection']) {
    server.on(event, (socket: Socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    });
  }
  server.listen(...((typeof place === 'string' ? [place] : [place, '127.0.0.1']) as [string]));
  await once(server, 'listening');
  const isTls = server.listenerCount('secureConnection') > 1;
  const origin: TestOrigin = {
    url:
      typeof place === 'string'
        ? `unix:${place}`
        : `http${isTls ? 's' : ''}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    plays,
    async stop() {
      for (const socket of sockets) socket.destroy();
      if (!server.listening) return;
      server.close();
      await once(server, 'close');
    },
  };
  open.push(origin);
  return origin;
}

const respondWithFile: RequestListener = (request, response) => {
  const [, first] = /^bytes=(\d+)-$/.exec(request.headers.range ?? '') ?? [];
  const start = Number(first ?? 0);
  const fields = { etag: '"v1"', 'cache-control': 'max-age=60', 'content-length': size - start };
  response.writeHead(first === undefined ? 200 : 206, {
    ...fields,
    ...(first === undefined ? {} : { 'content-range': `bytes ${start}-${size - 1}/${size}` }),
  });
  response.end(file.subarray(start));
};

/** Returns a URL whose port is closed. */
async function closedUrl(): Promise<string> {
  const origin = await openOrigin('nobody');
  await origin.stop();
  return origin.url;
}

let dir: string;
let rangeway: RangewayProcess;
let base: string;
let a: TestOrigin;
let b: TestOrigin;
let dead: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-origins-'));
  const files = {
    'ca.pem': testAuthority,
    'client.pem': testClientCertificate.cert,
    'client.key': testClientCertificate.key,
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
  [a, b] = await Promise.all([openOrigin('a'), openOrigin('b')]);
  dead = await closedUrl();
  const withTls = { ...testCertificate, requestCert: true, rejectUnauthorized: false, ca: testClientCertificate.cert };
  const unix = await openOrigin('unix', undefined, join(dir, 'origin.sock'));
  const http1 = await openOrigin('tls', (serve) => createTlsServer(withTls, serve));
  const http2 = await openOrigin('h2', (serve) => createSecureServer(withTls, serve as never));
  const shown = { caFile: 'ca.pem', certFile: './client.pem', keyFile: join(dir, 'client.key') };
  const origins: Record<string, object> = {
    unix: { url: unix.url },
    'unix-named': { url: unix.url, host: 'app.example' },
    tls: { url: http1.url, ...shown },
    'tls-plain': { url: http1.url, caFile: 'ca.pem' },
    untrusted: { url: http1.url },
    h2: { url: http2.url, protocol: 'http2', ...shown },
    'h2-fallback': { url: http1.url, protocol: 'http2', ...shown },
    first: { url: a.url, alternatives: [b.url] },
    'first-dead': { url: dead, alternatives: [a.url], health: { failures: 2, restSeconds: 3600 } },
    'no-retries': { url: dead, alternatives: [a.url], retries: { attempts: 0 }, health: { failures: 1000 } },
    'named-host': { url: dead, alternatives: [a.url], host: 'app.example' },
    spread: { url: a.url, alternatives: [b.url], choice: 'spread' },
    checked: {
      url: a.url,
      alternatives: [b.url],
      health: { failures: 2, check: { path: '/up', intervalSeconds: 0.1, timeoutSeconds: 1, passes: 2 } },
    },
    failing: { url: a.url, alternatives: [b.url] },
    slow: { url: a.url, headersTimeoutSeconds: 0.3 },
    stalled: { url: a.url, bodyTimeoutSeconds: 0.3 },
    tunnels: { url: dead, alternatives: [b.url], health: { failures: 1, restSeconds: 3600 } },
  };
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    log: { format: 'json', level: 'debug' },
    routes: Object.entries(origins).map(([name, origin]) => ({
      name,
      match: { pathPrefix: `/${name}` },
      origin,
      cache: { enabled: name === 'failing' },
    })),
  };
  const started = await startConfigured(dir, config);
  rangeway = started;
  base = started.url;
});
afterAll(async () => {
  expect(await rangeway.stop('SIGTERM')).toBe(0);
  await Promise.all(open.map((origin) => origin.stop()));
  await rm(dir, { recursive: true, force: true });
});

async function ask(path: string) {
  const [response] = (await once(get(base + path, { agent: false }), 'response')) as [IncomingMessage];
  return { status: response.statusCode, via: response.headers.via, bytes: await buffer(response) };
}
const textOf = async (path: string) => {
  const { status, bytes } = await ask(path);
  return status === 200 ? bytes.toString() : String(status);
};
/** Waits for an `origin` line of the log about a route. */
const logged = (route: string, message: string) =>
  rangeway.waitFor(new RegExp(`"event":"origin"[^\\n]*"route":"${route}"[^\\n]*${message}`));

describe('origin', () => {
  it.each([
    ['/unix', /^unix 1\.1 127\.0\.0\.1:\d+$/],
    ['/unix-named', 'unix 1.1 app.example'],
    ['/tls', /^tls 1\.1 127\.0\.0\.1:\d+ authorized$/],
    ['/tls-plain', /^tls 1\.1 127\.0\.0\.1:\d+$/],
    ['/untrusted', '502'],
    ['/h2', /^h2 2\.0 127\.0\.0\.1:\d+ authorized$/],
    ['/h2-fallback', /^tls 1\.1 127\.0\.0\.1:\d+ authorized$/],
    ['/no-retries', '502'],
    ['/named-host', 'a 1.1 app.example'],
  ])('%s is answered: %s', async (path, want) => {
    expect(await textOf(path)).toEqual(typeof want === 'string' ? want : expect.stringMatching(want));
  });

  it('protocol: Via names the version', async () => {
    expect((await ask('/h2')).via).toMatch(/^2 rangeway-/);
    expect((await ask('/h2-fallback')).via).toMatch(/^1\.1 rangeway-/);
  });

  it('alternatives: the first available origin is asked, with the Host of the client', async () => {
    expect(await textOf('/first')).toBe(`a 1.1 ${new URL(base).host}`);
    expect(await textOf('/first-dead')).toBe(`a 1.1 ${new URL(base).host}`);
    expect(await textOf('/first-dead')).toBe(`a 1.1 ${new URL(base).host}`);
    await logged('first-dead', `the origin ${dead}/ is not asked for a while`);
  });

  it('alternatives: a GET with 503 from one origin is answered by the other', async () => {
    a.plays.set('/first/503', [(_request, response) => response.writeHead(503).end()]);
    expect(await textOf('/first/503')).toBe(`b 1.1 ${new URL(base).host}`);
  });

  it('choice: spread alternates between the origins', async () => {
    for (let count = 0; count < 6; count++) await ask('/spread');
    const seen = [a, b].map((origin) => origin.seen.filter((path) => path === '/spread').length);
    expect(seen).toEqual([3, 3]);
  });

  it('health.check: takes an origin out of use, and back into use', async () => {
    expect(await textOf('/checked')).toContain('a 1.1');
    await until('both origins were checked', async () => a.seen.includes('/up') && b.seen.includes('/up'));
    const unwell: RequestListener = (_request, response) => response.writeHead(500).end();
    a.plays.set(
      '/up',
      Array.from({ length: 4 }, () => unwell),
    );
    await logged('checked', 'is not asked for a while');
    expect(await textOf('/checked')).toContain('b 1.1');
    await logged('checked', 'is well again');
    expect(await textOf('/checked')).toContain('a 1.1');
  });

  it('headersTimeoutSeconds and bodyTimeoutSeconds: end an exchange with a stalled origin', async () => {
    a.plays.set('/slow', [() => undefined]);
    expect(await textOf('/slow')).toBe('504');
    a.plays.set('/stalled', [(_request, response) => response.writeHead(200, { 'content-length': 9 }).write('good')]);
    await expect(ask('/stalled')).rejects.toThrow();
  });

  it('a fill whose origin dies resumes at another one, and the client gets every byte', async () => {
    const begun = Promise.withResolvers<void>();
    a.plays.set('/failing/file', [
      (_request, response) => {
        response.writeHead(200, { etag: '"v1"', 'cache-control': 'max-age=60', 'content-length': size });
        response.write(file.subarray(0, 100_000), () => begun.resolve());
      },
    ]);
    const asking = ask('/failing/file');
    await begun.promise;
    await a.stop();
    const { status, bytes } = await asking;
    expect([status, bytes.equals(file)]).toEqual([200, true]);
    expect(b.seen).toContain('/failing/file');
  });

  it('tunnels go to an origin that is well', async () => {
    const answer = async (): Promise<string> => {
      const socket = connect(Number(new URL(base).port), '127.0.0.1');
      socket.write('GET /tunnels HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      let text = '';
      for await (const chunk of socket) {
        text += chunk;
        if (text.includes('\r\n\r\nb')) break;
      }
      return text.slice(9, 12) + text.slice(-1);
    };
    expect(await answer()).toMatch(/^502/);
    await logged('tunnels', 'is not asked for a while');
    expect(await answer()).toBe('101b');
  });
});

describe('a start fails with one line', () => {
  it.each<[name: string, origin: object, files: Record<string, string>, want: RegExp]>([
    ['no certificate', { certFile: 'no.pem', keyFile: 'client.key' }, {}, /cannot use \S+no\.pem: ENOENT/],
    ['no key', { certFile: 'client.pem', keyFile: 'no.key' }, {}, /cannot use \S+no\.key: ENOENT/],
    [
      'a key of another certificate',
      { certFile: 'client.pem', keyFile: 'other.key' },
      { 'other.key': testCertificate.key },
      /the certificate in \S+client\.pem is not for the key in \S+other\.key/,
    ],
    [
      'an invalid certificate',
      { certFile: 'junk.pem', keyFile: 'client.key' },
      { 'junk.pem': 'junk' },
      /there is no PEM certificate in \S+junk\.pem/,
    ],
    [
      'an invalid key',
      { certFile: 'client.pem', keyFile: 'junk.key' },
      { 'junk.key': 'junk' },
      /there is no PEM private key without a passphrase in \S+junk\.key/,
    ],
    [
      'an invalid authority',
      { caFile: 'junk.pem' },
      { 'junk.pem': 'junk' },
      /there is no PEM certificate in \S+junk\.pem/,
    ],
  ])('%s', async (_name, origin, files, want) => {
    for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
    const path = join(dir, 'failing.json');
    const routes = [{ origin: { url: 'https://127.0.0.1:1', ...origin } }];
    await writeFile(path, JSON.stringify({ listen: '127.0.0.1:0', store: { type: 'memory' }, routes }));
    await using failing = startRangeway(['--config', path]);
    expect(await failing.ended()).toBe(1);
    expect(failing.output()).toMatch(want);
    expect(failing.output().trim().split('\n')).toHaveLength(1);
  });
});
