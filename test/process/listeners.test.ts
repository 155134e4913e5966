/** The options of listeners, from the configuration file to the bytes on the wire. */

import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { get as getOverTls, type RequestOptions } from 'node:https';
import { type AddressInfo, createServer as createNetServer, type Server as NetServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RawClient, rawValues } from '../support/clients/raw-client.ts';
import { type RangewayProcess, startActivated, startRangeway } from '../support/processes/rangeway-process.ts';
import {
  exactCertificate,
  testAuthority,
  testCertificate,
  writeTestCertificate,
} from '../support/values/tls-certificate.ts';

let origin: Server;
let originUrl: string;
let dir: string;
beforeAll(async () => {
  origin = createServer((request, response) => {
    response.setHeader('cache-control', 'no-store');
    response.end(JSON.stringify({ path: request.url, forwardedFor: request.headers['x-forwarded-for'] }));
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
afterAll(() => {
  origin.closeAllConnections();
  origin.close();
});
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-listeners-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** Writes a configuration file, and returns the arguments that name it. */
async function configure(options: object): Promise<string[]> {
  const config = { store: { type: 'memory' }, log: { format: 'json' }, routes: [{ origin: originUrl }], ...options };
  await writeFile(join(dir, 'rangeway.json'), JSON.stringify(config));
  return ['--config', join(dir, 'rangeway.json')];
}

/** Waits until the server is ready, and returns its addresses. */
async function addressesOf(rangeway: RangewayProcess): Promise<string[]> {
  const [line] = await rangeway.waitFor(/^.*"stage":"ready".*$/m);
  return (JSON.parse(line) as { addresses: string[] }).addresses;
}

async function start(options: object): Promise<{ rangeway: RangewayProcess; addresses: string[] }> {
  const rangeway = startRangeway(await configure(options));
  return { rangeway, addresses: await addressesOf(rangeway) };
}

const portOf = (address = '') => Number(new URL(address).port);
const request = 'GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n';

/** Fetches a response over TLS, with the subject of the server's certificate. */
async function overTls(
  url: string,
  options: RequestOptions = {},
): Promise<{ status?: number; body: string; subject: unknown }> {
  const message = getOverTls(url, { ca: testAuthority, servername: 'localhost', agent: false, ...options });
  const [response] = await once(message, 'response');
  const { subject } = (response.socket as TLSSocket).getPeerCertificate();
  return { status: response.statusCode, body: await text(response), subject: subject.CN };
}

describe('listeners', () => {
  it('of every kind work side by side, and their addresses are logged', async () => {
    const pair = await writeTestCertificate(dir);
    const other = await writeTestCertificate(dir, 'other', exactCertificate);
    const certificates = [pair, other].map(({ certFile, keyFile }) => ({ certFile, keyFile }));
    const listen = [
      '127.0.0.1:0',
      { address: '127.0.0.1:0', tls: { certificates } },
      { address: '127.0.0.1:0', tls: { certificates, minVersion: '1.3' }, http2: false },
      { address: '127.0.0.1:0', redirectToHttpsPort: 8443 },
      { address: '127.0.0.1:0', http2: true },
      { address: '127.0.0.1:0', proxyProtocol: true },
      { address: 'unix:./web.sock', mode: '0660' },
    ];
    const { rangeway, addresses } = await start({ listen, trustedProxies: ['127.0.0.1'] });
    await using _stopped = rangeway;
    const [plain, tls, tls13, redirect, cleartext2, proxied] = addresses;
    expect(addresses.map((address) => address.replace(/:\d+$/, ''))).toEqual([
      'http://127.0.0.1',
      'https://127.0.0.1',
      'https://127.0.0.1',
      'http://127.0.0.1',
      'http://127.0.0.1',
      'http://127.0.0.1',
      `unix:${join(dir, 'web.sock')}`,
    ]);

    expect((await fetch(`${plain}/plain`)).status).toBe(200);

    expect(await overTls(`${tls}/tls`)).toMatchObject({ status: 200, subject: 'localhost' });
    const exact = { servername: 'exact.example.org', rejectUnauthorized: false };
    expect(await overTls(`${tls}/tls`, exact)).toMatchObject({ status: 200, subject: 'exact' });
    expect(await overTls(`${tls13}/tls`)).toMatchObject({ status: 200 });
    await expect(overTls(`${tls13}/tls`, { maxVersion: 'TLSv1.2' })).rejects.toThrow(/alert protocol version/);
    expect(await overHttp2(tls ?? '', { ca: testAuthority, servername: 'localhost' })).toContain('"/h2"');
    await expect(overHttp2(tls13 ?? '', { ca: testAuthority, servername: 'localhost' })).rejects.toThrow(
      /no application/,
    );

    await using onRedirect = await RawClient.open(portOf(redirect));
    const response = await onRedirect.exchange(request);
    expect([response.status, ...rawValues(response, 'location')]).toEqual([308, 'https://localhost:8443/x']);

    expect(await overHttp2(cleartext2 ?? '')).toContain('"/h2"');
    expect((await fetch(`${cleartext2}/h1`)).status).toBe(200);

    await using behindProxy = await RawClient.open(portOf(proxied));
    behindProxy.send('PROXY TCP4 192.0.2.9 127.0.0.1 1 2\r\n');
    expect((await behindProxy.exchange(request)).body.toString()).toContain('192.0.2.9');
    await rangeway.waitFor(/"peer":"192\.0\.2\.9"/);

    const path = join(dir, 'web.sock');
    expect((await stat(path)).mode & 0o777).toBe(0o660);
    await using local = await RawClient.open(path);
    expect((await local.exchange(request)).status).toBe(200);

    expect(await rangeway.stop('SIGTERM')).toBe(0);
    expect(existsSync(path)).toBe(false);
  });

  async function overHttp2(url: string, options: object = {}): Promise<string> {
    const session = connectHttp2(url, options);
    const failed = once(session, 'close').then(() => Promise.reject(new Error('closed')));
    failed.catch(() => {});
    try {
      const error = once(session, 'error').then(([reason]) => Promise.reject(reason));
      error.catch(() => {});
      return await Promise.race([text(session.request({ ':path': '/h2' })), error, failed]);
    } finally {
      session.destroy();
    }
  }

  it('take a new certificate without a restart, and keep the old one while the new one is broken', async () => {
    const pair = await writeTestCertificate(dir);
    const listen = [{ address: '127.0.0.1:0', tls: { certificates: [pair] } }];
    const { rangeway, addresses } = await start({ listen });
    await using _stopped = rangeway;
    const subject = async () => (await overTls(`${addresses[0]}/`, { rejectUnauthorized: false })).subject;
    await writeFile(pair.keyFile, exactCertificate.key);
    await rangeway.waitFor(
      /"level":"error".*server\.key is not the one of this certificate; the certificate in use stays/,
    );
    expect(await subject()).toBe('localhost');
    const fresh = await writeTestCertificate(dir, 'fresh', exactCertificate);
    await rename(fresh.certFile, pair.certFile);
    await rangeway.waitFor(/server\.pem has changed and is in use/);
    expect(await subject()).toBe('exact');
  });

  it('close connections beyond limits.connections', async () => {
    const { rangeway, addresses } = await start({
      listen: '127.0.0.1:0',
      limits: { connections: 1, connectionsPerClient: 0 },
    });
    await using _stopped = rangeway;
    await using first = await RawClient.open(portOf(addresses[0]));
    expect((await first.exchange(request)).status).toBe(200);
    await using second = await RawClient.open(portOf(addresses[0]));
    expect(await second.rest()).toBe('');
    await rangeway.waitFor(/"error":"too_many_connections"/);
  });

  it('close connections of one client beyond limits.connectionsPerClient, trusted proxies excepted', async () => {
    const limits = { connectionsPerClient: 1 };
    const listen = ['127.0.0.1:0', { address: '127.0.0.1:0', proxyProtocol: true }];
    const { rangeway, addresses } = await start({ listen, limits, trustedProxies: ['127.0.0.1'] });
    await using _stopped = rangeway;
    const [plain, proxied] = addresses.map(portOf);
    for (let count = 0; count < 3; count += 1) {
      const client = await RawClient.open(plain ?? 0);
      expect((await client.exchange(request)).status).toBe(200);
    }
    const header = 'PROXY TCP4 192.0.2.9 127.0.0.1 1 2\r\n';
    await using first = await RawClient.open(proxied ?? 0);
    first.send(header);
    expect((await first.exchange(request)).status).toBe(200);
    await using second = await RawClient.open(proxied ?? 0);
    second.send(header + request);
    expect(await second.rest()).toBe('');
  });
});

describe('sockets that systemd has opened', () => {
  async function opened(place: object): Promise<NetServer> {
    const server = createNetServer();
    server.listen(place);
    await once(server, 'listening');
    return server;
  }

  it('are all used with "systemd"', async () => {
    const path = join(dir, 'passed.sock');
    const web = await opened({ port: 0, host: '127.0.0.1' });
    const servers = [web, await opened({ path })];
    const { port } = web.address() as AddressInfo;
    await using rangeway = startActivated(await configure({ listen: 'systemd' }), servers, ['web', 'local']);
    expect(await addressesOf(rangeway)).toEqual([`http://127.0.0.1:${port}`, 'systemd:local']);
    // Closes the sockets here without removing the socket's file, so that only the server accepts from now on.
    await rename(path, `${path}.kept`);
    for (const server of servers) server.close();
    await rename(`${path}.kept`, path);
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200);
    await using local = await RawClient.open(path);
    expect((await local.exchange(request)).status).toBe(200);
    expect(await rangeway.stop('SIGTERM')).toBe(0);
    expect(existsSync(path)).toBe(true);
  });

  it('are used by name, with options of their own', async () => {
    const servers = [await opened({ port: 0, host: '127.0.0.1' }), await opened({ port: 0, host: '127.0.0.1' })];
    const [first, second] = servers.map((server) => (server.address() as AddressInfo).port);
    const listen = ['systemd:web', { address: 'systemd:plain', redirectToHttpsPort: 443 }];
    await using rangeway = startActivated(await configure({ listen }), servers, ['plain', 'web']);
    expect(await addressesOf(rangeway)).toEqual([`http://127.0.0.1:${second}`, `http://127.0.0.1:${first}`]);
    for (const server of servers) server.close();
    expect((await fetch(`http://127.0.0.1:${first}/`, { redirect: 'manual' })).status).toBe(308);
    expect((await fetch(`http://127.0.0.1:${second}/`)).status).toBe(200);
  });

  it('that no listener uses are reported', async () => {
    const servers = [await opened({ port: 0, host: '127.0.0.1' }), await opened({ port: 0, host: '127.0.0.1' })];
    await using rangeway = startActivated(await configure({ listen: 'systemd:web' }), servers, ['web', 'spare']);
    await rangeway.waitFor(/"level":"warn".*a socket was passed that no listener is for: systemd:spare/);
    for (const server of servers) server.close();
  });
});

describe('a listener that cannot be opened', () => {
  const failure = async (options: object): Promise<{ code: number | null; output: string }> => {
    await using rangeway = startRangeway(await configure(options));
    const code = await rangeway.ended();
    return { code, output: rangeway.output() };
  };

  it('because no sockets were passed is reported in one line', async () => {
    const { code, output } = await failure({ listen: 'systemd' });
    expect(code).toBe(1);
    expect(output).toContain(
      'cannot listen on systemd: no sockets were passed to this process; start it by a socket unit',
    );
  });

  it('because of a certificate is reported in one line, which names the file', async () => {
    const pair = await writeTestCertificate(dir, 'bad', { ...testCertificate, key: exactCertificate.key });
    const { code, output } = await failure({ listen: [{ address: '127.0.0.1:0', tls: { certificates: [pair] } }] });
    expect(code).toBe(1);
    expect(output.trim()).toBe(
      `rangeway: cannot use ${pair.certFile}: the key in ${pair.keyFile} is not the one of this certificate`,
    );
  });

  it('closes the listeners that were open already', async () => {
    const busy = createNetServer().listen(0, '127.0.0.1');
    await once(busy, 'listening');
    const { port } = busy.address() as AddressInfo;
    const { code, output } = await failure({ listen: ['unix:./first.sock', `127.0.0.1:${port}`] });
    busy.close();
    expect(code).toBe(1);
    expect(output).toContain(`cannot listen on 127.0.0.1:${port}: the port is in use`);
    expect(existsSync(join(dir, 'first.sock'))).toBe(false);
  });

  it('because another server has the Unix socket leaves that server alone', async () => {
    const { rangeway } = await start({ listen: 'unix:./web.sock' });
    await using _stopped = rangeway;
    const { code, output } = await failure({ listen: 'unix:./web.sock' });
    expect(code).toBe(1);
    expect(output).toContain(`cannot listen on unix:${join(dir, 'web.sock')}: another process listens there`);
    await using client = await RawClient.open(join(dir, 'web.sock'));
    expect((await client.exchange(request)).status).toBe(200);
  });

  it('because a killed server left its Unix socket is opened all the same', async () => {
    const { rangeway } = await start({ listen: 'unix:./web.sock' });
    await rangeway.stop('SIGKILL');
    expect(existsSync(join(dir, 'web.sock'))).toBe(true);
    const { rangeway: next } = await start({ listen: 'unix:./web.sock' });
    expect(await next.stop('SIGTERM')).toBe(0);
  });
});
