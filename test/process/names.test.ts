/** Names and paths by which clients and origins know the same resources, through the whole server. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RawClient, rawValues } from '../support/clients/raw-client.ts';
import { startConfigured } from '../support/processes/rangeway-process.ts';

let origin: Server;
let port: number;
let dir: string;
/** The fields of the latest request at the origin. */
let seen: IncomingHttpHeaders;
/** How often the origin was asked for /dir/. */
let asked = 0;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-names-'));
  origin = createServer((request, response) => {
    seen = request.headers;
    const own = `http://${request.headers.host}`;
    response.setHeader('cache-control', 'max-age=600');
    if (request.url === '/dir/') {
      asked += 1;
      response.end(String(asked));
    } else if (request.method === 'POST') {
      response.writeHead(303, { location: `${own}/dir/` }).end();
    } else if (request.url === '/hint') {
      response.writeEarlyHints({ link: `<${own}/a.css>; rel=preload; as=style` }, () => response.end('x'));
    } else if (request.url?.startsWith('/other') === true) {
      response.writeHead(302, { location: 'https://login.example/?to=http://127.0.0.1/' }).end();
    } else {
      response.writeHead(302, {
        location: `${own}/dir/`,
        'content-location': `${own}/dir/index.html`,
        refresh: `3; url=${own}/dir/`,
        link: `<${own}/a.css>; rel=preload, </b.css>; rel=preload`,
      });
      response.end();
    }
  });
  // As an application that moved: it refuses what asks for a tunnel.
  origin.on('upgrade', (request, socket) => {
    seen = request.headers;
    socket.end(
      `HTTP/1.1 302 Found\r\nLocation: http://${request.headers.host}/login\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  port = (origin.address() as AddressInfo).port;
});
afterAll(async () => {
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});
beforeEach(() => {
  asked = 0;
});

const open = (routes: readonly object[], more: object = {}, environment: NodeJS.ProcessEnv = {}) =>
  startConfigured(dir, { listen: '127.0.0.1:0', store: { type: 'memory' }, routes, ...more }, environment);
const own = (options: object = {}) => ({ origin: { url: `http://127.0.0.1:${port}`, ...options } });

/** Sends a request with these lines of its head; returns the response. */
async function ask(url: string, lines: string, count = 1) {
  await using client = await RawClient.open(Number(new URL(url).port));
  client.send(`${lines.replaceAll('\n', '\r\n')}\r\n\r\n`);
  for (let interim = 1; interim < count; interim += 1) await client.head();
  const head = await client.head();
  if (head === undefined) throw new Error('no response');
  return head;
}

describe('the Host that an origin by address gets', () => {
  it('is that of the client, also of one that a page was led here by', async () => {
    await using proxy = await open([own()]);
    await ask(proxy.url, 'GET /x HTTP/1.1\nHost: evil.example\nOrigin: http://evil.example');
    expect([seen.host, seen.origin]).toEqual(['evil.example', 'http://evil.example']);
  });

  it('is its own with "origin", and then Origin and Referer with a name of this server follow it', async () => {
    await using proxy = await open([
      { ...own({ host: 'origin' }), match: { hosts: ['a.example'] } },
      own({ host: 'origin' }),
    ]);
    const at = `127.0.0.1:${port}`;
    const of = (host: string, page = `http://${host}`) =>
      ask(proxy.url, `POST /x HTTP/1.1\nHost: ${host}\nOrigin: ${page}\nReferer: ${page}/p?q\nContent-Length: 0`);
    for (const host of ['a.example', 'localhost:8080', '127.0.0.1:8080', '[::1]:8080']) {
      await of(host);
      expect([host, seen.host, seen.origin, seen.referer]).toEqual([host, at, `http://${at}`, `http://${at}/p?q`]);
    }
    await of('evil.example');
    expect([seen.host, seen.origin]).toEqual([at, 'http://evil.example']);
    await of('a.example', 'http://evil.example');
    expect([seen.host, seen.origin, seen.referer]).toEqual([at, 'http://evil.example', 'http://evil.example/p?q']);
  });

  it('is followed by Destination', async () => {
    await using proxy = await open([own({ host: 'origin' })]);
    await ask(proxy.url, 'MOVE /x HTTP/1.1\nHost: files.example\nDestination: http://files.example/y');
    expect(seen['destination']).toBe(`http://127.0.0.1:${port}/y`);
  });

  it('is followed by the Origin of a handshake', async () => {
    await using proxy = await open([own({ host: 'origin' })]);
    const response = await ask(
      proxy.url,
      'GET /ws HTTP/1.1\nHost: localhost:1\nOrigin: http://localhost:1\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    );
    expect([seen.host, seen.origin]).toEqual([`127.0.0.1:${port}`, `http://127.0.0.1:${port}`]);
    expect([response.status, rawValues(response, 'location')]).toEqual([302, ['/login']]);
  });
});

describe.each(['auto', 'origin', 'app.example'])('references with origin.host %s', (host) => {
  it('become those of the client, from the store too', async () => {
    await using proxy = await open([own({ host })]);
    for (const name of ['a.example', 'a.example', 'b.example:81', 'localhost']) {
      const response = await ask(proxy.url, `GET /x HTTP/1.1\nHost: ${name}`);
      expect(['location', 'content-location', 'refresh', 'link'].map((each) => rawValues(response, each))).toEqual([
        ['/dir/'],
        ['/dir/index.html'],
        ['3; url=/dir/'],
        ['</a.css>; rel=preload, </b.css>; rel=preload'],
      ]);
    }
    expect(rawValues(await ask(proxy.url, 'GET /other HTTP/1.1\nHost: a.example'), 'location')).toEqual([
      'https://login.example/?to=http://127.0.0.1/',
    ]);
    const hint = await ask(proxy.url, 'GET /hint HTTP/1.1\nHost: a.example');
    expect([hint.status, rawValues(hint, 'link')]).toEqual([103, ['</a.css>; rel=preload; as=style']]);
  });

  it('invalidate what they name', async () => {
    await using proxy = await open([own({ host })]);
    const get = () => ask(proxy.url, 'GET /dir/ HTTP/1.1\nHost: a.example');
    await get();
    await get();
    expect(asked).toBe(1);
    await ask(proxy.url, 'POST /form HTTP/1.1\nHost: a.example\nContent-Length: 0');
    await get();
    expect(asked).toBe(2);
  });
});

it('a prefix that is stripped is put back', async () => {
  await using proxy = await open([{ ...own(), match: { pathPrefix: '/app' }, stripPathPrefix: true }]);
  const response = await ask(proxy.url, 'GET /app/go HTTP/1.1\nHost: a.example');
  expect([rawValues(response, 'location'), rawValues(response, 'link')]).toEqual([
    ['/app/dir/'],
    ['</app/a.css>; rel=preload, </app/b.css>; rel=preload'],
  ]);
});

describe('a loopback listener whose route adds credentials', () => {
  const secret = { fields: { toOrigin: { setSecret: { Authorization: 'env:RANGEWAY_NAMES_SECRET' } } } };
  const environment = { RANGEWAY_NAMES_SECRET: 'Bearer secret' };

  it('answers 421 to a name that no route has', async () => {
    const routes = [
      { ...own(), ...secret },
      { ...own(), match: { hosts: ['a.example', '*.b.example'], pathPrefix: '/p' } },
    ];
    await using proxy = await open(routes, {}, environment);
    const statusOf = async (host: string, more = '') =>
      (await ask(proxy.url, `GET /dir/ HTTP/1.1\nHost: ${host}${more}`)).status;
    for (const host of [
      'evil.example',
      'evil.example:80',
      'b.example',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
    ]) {
      expect([host, await statusOf(host)]).toEqual([host, 421]);
    }
    for (const host of [
      'a.example',
      'x.b.example',
      'localhost:9',
      'app.localhost',
      '127.0.0.1',
      '[::1]:80',
      '10.0.0.1',
    ]) {
      expect([host, await statusOf(host)]).toEqual([host, 200]);
    }
    const upgrade =
      '\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==';
    expect(await statusOf('evil.example', upgrade)).toBe(421);
  });

  it('serves every name where it adds none, and where other machines reach it', async () => {
    await using plain = await open([own()]);
    expect((await ask(plain.url, 'GET /dir/ HTTP/1.1\nHost: any.example')).status).toBe(200);
    await using wide = await open([{ ...own(), ...secret }], { listen: '0.0.0.0:0' }, environment);
    expect((await ask(wide.url, 'GET /dir/ HTTP/1.1\nHost: any.example')).status).toBe(200);
  });
});
