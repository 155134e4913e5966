import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/main.ts';
import { describeSending } from '../../src/setup/move-to-socket.ts';
import { startRangeway } from '../support/processes/rangeway-process.ts';
import { createFakeCliIo } from '../support/proxies/fake-cli-io.ts';

const dir = mkdtempSync(join(tmpdir(), 'rangeway-serve-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close().closeAllConnections();
});

/** Opens an origin that answers every request with `answer`, and returns its URL. */
async function openOrigin(answer: (response: ServerResponse, host: string) => void): Promise<string> {
  const server = createServer((request, response) => answer(response, request.headers.host ?? ''));
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}`;
}

const openPlainOrigin = () => openOrigin((response, host) => response.end(`for ${host}`));

const listening = /http:\/\/127\.0\.0\.1:\d+/;
const sending = describeSending('auto');
const anyPort = ['--listen', '127.0.0.1:0', '--log-format', 'json'];

/** Returns a loopback address with a port that is free. */
async function freeAddress(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `127.0.0.1:${address.port}`;
}

/** Parses the lines of a log in JSON. */
function linesIn(output: string): Record<string, unknown>[] {
  return output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

describe('rangeway <origin>', () => {
  it('logs its address when it is ready, serves, logs each request, and exits with 0', async () => {
    const origin = await openPlainOrigin();
    await using started = startRangeway([origin, ...anyPort, '--store', 'memory']);
    const [url] = await started.waitFor(listening);
    expect(linesIn(started.output())).toMatchObject([
      { level: 'info', event: 'life', stage: 'ready', addresses: [url] },
    ]);

    const response = await fetch(`${url}/file?token=abc`, { headers: { range: 'bytes=0-2' } });
    expect([response.status, await response.text()]).toEqual([206, 'for']);
    await started.waitFor(/"event":"request"/);
    expect(await started.stop('SIGTERM'), started.output()).toBe(0);
    const lines = linesIn(started.output());
    expect(lines.find(({ event }) => event === 'request')).toMatchObject({
      method: 'GET',
      target: '/file?token=[redacted]',
      status: 206,
      bytes: 3,
    });
    expect(lines.at(-1)).toMatchObject({ event: 'life', stage: 'stopped' });
  });

  it.each<[originHost: string, want: (origin: string, url: string) => string]>([
    ['origin', (origin) => new URL(origin).host],
    ['keep', (_origin, url) => new URL(url).host],
    ['media.example', () => 'media.example'],
  ])('--origin-host %s sets the Host that the origin gets', async (originHost, want) => {
    const origin = await openPlainOrigin();
    await using started = startRangeway([origin, ...anyPort, '--store', 'memory', '--origin-host', originHost]);
    const [url] = await started.waitFor(listening);
    expect(await (await fetch(url)).text()).toBe(`for ${want(origin, url)}`);
  });

  it('keeps a disk store in XDG_CACHE_HOME, one for each address', async () => {
    const caches = join(dir, 'caches');
    const address = await freeAddress();
    const args = ['http://127.0.0.1:3000', '--listen', address, '--log-format', 'json'];
    await using first = startRangeway(args, { XDG_CACHE_HOME: caches });
    await first.waitFor(listening);

    await using second = startRangeway(args, { XDG_CACHE_HOME: caches });
    expect(await second.ended()).toBe(1);
    expect(second.output()).toBe(
      `rangeway: cannot listen on ${address}: a Rangeway seems to run there already; choose another address with --listen\n`,
    );
    expect(await first.stop('SIGINT'), first.output()).toBe(0);
    const directory = address.replace(':', '-');
    expect(readdirSync(join(caches, 'rangeway'))).toEqual([directory]);
    expect(readdirSync(join(caches, 'rangeway', directory))).not.toEqual([]);
  });

  it('keeps the disk store of port 0 in a temporary directory, and removes it at the end', async () => {
    const [caches, temporary] = [join(dir, 'no-caches'), join(dir, 'temporary')];
    mkdirSync(temporary);
    const environment = { XDG_CACHE_HOME: caches, TMPDIR: temporary };
    await using first = startRangeway(['http://127.0.0.1:3000', ...anyPort], environment);
    await using second = startRangeway(['http://127.0.0.1:3000', ...anyPort], environment);
    for (const started of [first, second]) {
      const [, place = ''] = await started.waitFor(
        /, storing in ([^",]+), sendfile (?:on|off), administered on unix:[^"]+"/,
      );
      expect(dirname(place)).toBe(temporary);
      expect(readdirSync(place)).toContain('index.sqlite');
    }
    expect(readdirSync(temporary)).toHaveLength(2);
    for (const started of [first, second]) expect(await started.stop('SIGTERM'), started.output()).toBe(0);
    expect(readdirSync(temporary)).toEqual([]);
    expect(existsSync(caches)).toBe(false);
  });

  it.each<[store: string[], want: string]>([
    [['--store', 'memory'], 'memory'],
    [['--dir', join(dir, 'home', 'a-store')], `${join('~', 'a-store')}, ${sending}`],
    [['--dir', join(dir, 'a-store')], `${join(dir, 'a-store')}, ${sending}`],
  ])('logs its address, its origin and its store: %j', async (store, want) => {
    await using started = startRangeway(['http://127.0.0.1:3000/', ...anyPort, ...store], { HOME: join(dir, 'home') });
    const [url] = await started.waitFor(listening);
    const message = `ready on ${url}, in front of http://127.0.0.1:3000, storing in ${want}, administered on unix:/`;
    expect(linesIn(started.output())[0]).toMatchObject({ msg: expect.stringContaining(message) });
  });
});

describe('rangeway --config', () => {
  it('serves the routes of a file', async () => {
    const file = join(dir, 'routes.json');
    const [one, two] = [await openPlainOrigin(), await openPlainOrigin()];
    const routes = [
      { match: { pathPrefix: '/two' }, origin: { url: two, host: 'two.example' } },
      { origin: { url: one, host: 'one.example' } },
    ];
    writeFileSync(
      file,
      JSON.stringify({ listen: '127.0.0.1:0', store: { type: 'memory' }, log: { format: 'json' }, routes }),
    );
    await using started = startRangeway(['--config', file]);
    const [url] = await started.waitFor(listening);
    expect(started.output()).toContain(`ready on ${url}, in front of 2 routes, storing in memory`);
    expect(await (await fetch(`${url}/one`)).text()).toBe('for one.example');
    expect(await (await fetch(`${url}/two`)).text()).toBe('for two.example');
  });
});

describe('a server that cannot start gives the reason in one line, and exits with 1', () => {
  const origin = 'http://127.0.0.1:3000';

  it('port in use', async () => {
    const taken = new URL(await openPlainOrigin()).host;
    await using started = startRangeway([origin, '--store', 'memory', '--listen', taken]);
    expect(await started.ended()).toBe(1);
    expect(started.output()).toBe(
      `rangeway: cannot listen on ${taken}: the port is in use; choose another with --listen\n`,
    );
  });

  it('an address that this machine does not have', async () => {
    await using started = startRangeway([origin, '--store', 'memory', '--listen', '192.0.2.1:0']);
    expect(await started.ended()).toBe(1);
    expect(started.output()).toBe(
      'rangeway: cannot listen on 192.0.2.1:0: this machine does not have the address 192.0.2.1\n',
    );
  });

  it('a store directory that is a file', async () => {
    const file = join(dir, 'a-file');
    writeFileSync(file, '');
    await using started = startRangeway([origin, ...anyPort, '--dir', file]);
    expect(await started.ended()).toBe(1);
    expect(started.output()).toMatch(/^rangeway: cannot use .*a-file.*: E.*\n$/);
  });

  it.skipIf(!existsSync('/proc/self'))('a store directory that cannot be created', async () => {
    await using started = startRangeway([origin, ...anyPort, '--dir', '/proc/rangeway/store']);
    expect(await started.ended()).toBe(1);
    expect(started.output()).toMatch(/^rangeway: cannot use \/proc\/rangeway.*: ENOENT.*\n$/);
  });
});

describe('signals', () => {
  /** Starts a server in this process with an unfinished response. `finish` lets the origin end the response. */
  async function serveSlowly() {
    const { promise: asked, resolve: ask } = Promise.withResolvers<ServerResponse>();
    const origin = await openOrigin((response) => {
      response.writeHead(200, { 'content-length': '4' }).write('ab');
      ask(response);
    });
    const io = createFakeCliIo();
    const ended = run([origin, ...anyPort, '--store', 'memory'], io);
    const [url] = await io.waitFor(listening);
    const response = await fetch(url);
    const finish = async () => (await asked).end('cd');
    return { io, ended, response, finish };
  }

  it('the first lets running responses end', async () => {
    const { io, ended, response, finish } = await serveSlowly();
    io.signal('SIGTERM');
    await io.waitFor(/"stage":"stopping"/);
    await finish();
    expect(await response.text()).toBe('abcd');
    expect(await ended).toBe(0);
    expect(io.exits).toEqual([]);
  });

  it('the same signal within 500 ms, as npm passes it on, changes nothing', async () => {
    const { io, ended, finish } = await serveSlowly();
    io.signal('SIGINT');
    io.signal('SIGINT', 500);
    expect(io.exits).toEqual([]);
    await finish();
    expect(await ended).toBe(0);
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('a second %s ends the process at once', async (signal, code) => {
    const { io, ended, finish } = await serveSlowly();
    io.signal('SIGTERM');
    io.signal(signal, 501);
    expect(io.exits).toEqual([code]);
    await finish();
    await ended;
  });
});
