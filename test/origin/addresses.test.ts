/** Which addresses an origin is asked at: both loopback addresses for localhost, and the new one where a name has changed. */

import dns from 'node:dns';
import { once } from 'node:events';
import type { ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createHttp2Origin } from '../../src/origin/http2/http2-origin.ts';
import { createUndiciOrigin, lookUpLoopback, maxConnectionAgeMs } from '../../src/origin/undici-origin.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { openHttp2Server } from '../support/origins/http2-server.ts';
import { originRequest, readBody } from '../support/origins/origin-request.ts';
import { testAuthority } from '../support/values/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

const servers: Server[] = [];

/** Starts an origin that answers with the number of its connection, and keeps connections. */
async function listen(host: string, name: string, port = 0): Promise<number> {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    const body = `${name} ${connections}`;
    socket.on('error', () => {});
    socket.on('data', () => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`));
  });
  servers.push(server.listen(port, host));
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

afterEach(() => {
  vi.restoreAllMocks();
  for (const server of servers.splice(0)) server.close();
});

/** Has every name resolve to these addresses, as a hosts file would. */
function resolveTo(addresses: () => readonly string[]): void {
  vi.spyOn(dns, 'lookup').mockImplementation(((_name: string, options: dns.LookupOptions, callback: unknown) => {
    const found = addresses().map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    const answer = callback as (error: Error | null, ...found: unknown[]) => void;
    if (found[0] === undefined) answer(Object.assign(new Error('none'), { code: 'ENOTFOUND', syscall: 'getaddrinfo' }));
    else if (options.all === true) answer(null, found);
    else answer(null, found[0].address, found[0].family);
  }) as unknown as typeof dns.lookup);
}

describe('localhost as an origin (RFC 6761 §6.3)', () => {
  it.each([
    ['127.0.0.1', 'localhost'],
    ['::1', 'localhost'],
    ['127.0.0.1', 'app.localhost'],
    ['::1', 'app.localhost'],
  ])('reaches a server on %s as %s, whichever of them the hosts file has', async (address, name) => {
    for (const hosts of [[], ['127.0.0.1'], ['::1'], ['::1', '127.0.0.1']]) {
      const port = await listen(address, 'local');
      resolveTo(() => hosts);
      const origin = createUndiciOrigin(originOptions({ url: `http://${name}:${port}` }));
      expect((await readBody(await origin.fetch(originRequest()))).bytes.toString()).toBe('local 1');
      await origin.close();
      vi.restoreAllMocks();
    }
  });

  it('has the order of the hosts file, and one family where one is asked for', () => {
    const look = (hosts: readonly string[], options: dns.LookupOptions): unknown => {
      resolveTo(() => hosts);
      let answer: unknown[] = [];
      lookUpLoopback('localhost', options, (...given) => (answer = given));
      return answer;
    };
    const four = { address: '127.0.0.1', family: 4 };
    const six = { address: '::1', family: 6 };
    expect(look([], { all: true })).toEqual([null, [four, six]]);
    expect(look(['::1'], { all: true })).toEqual([null, [six, four]]);
    expect(look(['192.0.2.1'], { all: true })).toEqual([null, [four, six]]);
    expect(look(['127.0.0.1'], { all: true, family: 6 })).toEqual([null, [six]]);
    expect(look(['::1'], {})).toEqual([null, '::1', 6]);
  });
});

describe('a connection to a name', () => {
  it('takes no request after a minute, so that a changed address is followed', async () => {
    const port = await listen('127.0.0.1', 'old');
    await listen('127.0.0.2', 'new', port);
    let address = '127.0.0.1';
    resolveTo(() => [address]);
    let now = Date.now();
    vi.spyOn(Date, 'now').mockImplementation(() => now);
    const origin = createUndiciOrigin(originOptions({ url: `http://moving.example:${port}`, connections: 1 }));
    const ask = async () => (await readBody(await origin.fetch(originRequest()))).bytes.toString();

    expect(await ask()).toBe('old 1');
    address = '127.0.0.2';
    now += maxConnectionAgeMs - 1;
    expect(await ask()).toBe('old 1');
    now += 2;
    expect(await ask()).toBe('new 1');
    expect(await ask()).toBe('new 1');
    await origin.close();
  });

  it('takes no request after a minute over HTTP/2 either; streams that have begun go on', async () => {
    const streams: ServerHttp2Stream[] = [];
    await using server = await openHttp2Server({}, (stream) => {
      streams.push(stream);
      stream.respond({});
      stream.write('half');
    });
    resolveTo(() => ['127.0.0.1']);
    const clock = createFakeClock();
    const url = `https://files.example.org:${new URL(server.url).port}`;
    const tls = { ca: testAuthority, rejectUnauthorized: true };
    const origin = createHttp2Origin({ ...originOptions({ url, tls }), clock });
    const first = await origin.fetch(originRequest());
    clock.advance(maxConnectionAgeMs - 1);
    const second = await origin.fetch(originRequest());
    expect(server.sessions.length).toBe(1);
    clock.advance(1);
    const third = await origin.fetch(originRequest());
    expect(server.sessions.length).toBe(2);
    for (const stream of streams) stream.end();
    for (const response of [first, second, third]) {
      expect((await readBody(response)).bytes.toString()).toBe('half');
    }
    await origin.close();
  });

  it('is kept where the URL has an address, which cannot change', async () => {
    const port = await listen('127.0.0.1', 'here');
    let now = Date.now();
    vi.spyOn(Date, 'now').mockImplementation(() => now);
    const origin = createUndiciOrigin(originOptions({ url: `http://127.0.0.1:${port}`, connections: 1 }));
    const ask = async () => (await readBody(await origin.fetch(originRequest()))).bytes.toString();
    expect(await ask()).toBe('here 1');
    now += 10 * maxConnectionAgeMs;
    expect(await ask()).toBe('here 1');
    await origin.close();
  });
});
