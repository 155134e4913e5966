/** What each change of the configuration does to a running server and to its connections. */

import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RawClient, rawValues } from '../support/clients/raw-client.ts';
import {
  configOf,
  openPlainOrigin,
  openReloadedServer,
  type PlainOrigin,
  type ReloadedServer,
  type WrittenConfig,
} from '../support/processes/reloaded-server.ts';

let origin: PlainOrigin;
let dir: string;
/** Lets the origin send the rest of `/held`. */
let release: () => void;
beforeEach(async () => {
  const held = Promise.withResolvers<void>();
  release = held.resolve;
  dir = await mkdtemp(join(tmpdir(), 'rangeway-reload-'));
  origin = await openPlainOrigin(async (request, response) => {
    response.setHeader('cache-control', 'no-store');
    if (request.url !== '/held') return void response.end(`origin, ${request.url}`);
    response.writeHead(200, { 'content-length': 8 }).write('half');
    await held.promise;
    response.end('half');
  });
});
afterEach(async () => {
  release();
  await origin[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const get = (path = '/') => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const base = (): WrittenConfig => ({ listen: '127.0.0.1:0', routes: [{ origin: origin.url }] });
const setField = (value: string) => ({ origin: origin.url, fields: { toClient: { set: { 'x-from': value } } } });

/** Checks whether the connection is kept after the next response. */
async function isKept(client: RawClient): Promise<boolean> {
  const response = await client.exchange(get());
  return rawValues(response, 'connection').includes('keep-alive');
}

describe('an idle connection', () => {
  it.each<[change: string, want: 'goes on' | 'takes one further request', written: () => WrittenConfig]>([
    ['nothing', 'goes on', () => ({})],
    ['the routes', 'goes on', () => ({ routes: [setField('b')] })],
    ['trustedProxies', 'goes on', () => ({ trustedProxies: ['10.0.0.0/8'] })],
    ['trustedFields', 'goes on', () => ({ trustedFields: 'forwarded' })],
    ['the log level', 'goes on', () => ({ log: { level: 'debug' } })],
    ['shutdownGraceSeconds', 'goes on', () => ({ shutdownGraceSeconds: 1 })],
    ['the limit of connections', 'goes on', () => ({ limits: { connections: 10, connectionsPerClient: 5 } })],
    ['the number of places', 'goes on', () => ({ listen: ['127.0.0.1:0', `unix:${join(dir, 'new')}`] })],
    ['a time limit', 'takes one further request', () => ({ limits: { keepAliveTimeoutSeconds: 60 } })],
    ['the size of requests', 'takes one further request', () => ({ limits: { fieldsBytes: 4096 } })],
    ['http2', 'takes one further request', () => ({ listen: [{ address: '127.0.0.1:0', http2: true }] })],
    [
      'redirectToHttpsPort',
      'takes one further request',
      () => ({ listen: [{ address: '127.0.0.1:0', redirectToHttpsPort: 443 }] }),
    ],
    [
      'proxyProtocol',
      'takes one further request',
      () => ({ listen: [{ address: '127.0.0.1:0', proxyProtocol: true }], trustedProxies: ['127.0.0.1'] }),
    ],
    ['its own place', 'takes one further request', () => ({ listen: `unix:${join(dir, 'new')}` })],
  ])('%s changes: it %s', async (_change, want, written) => {
    await using reloaded = await openReloadedServer(base());
    await using client = await reloaded.connect();
    expect(await isKept(client)).toBe(true);
    await reloaded.reload({ ...base(), ...written() });
    expect(await isKept(client)).toBe(want === 'goes on');
    if (want !== 'goes on') expect(await client.closed).toBeUndefined();
  });

  it('is served by the routes of the new configuration, whether it is kept or closed', async () => {
    await using reloaded = await openReloadedServer({ ...base(), routes: [setField('old')] });
    await using kept = await reloaded.connect();
    expect(rawValues(await kept.exchange(get()), 'x-from')).toEqual(['old']);
    await reloaded.reload({ ...base(), routes: [setField('new')] });
    expect(rawValues(await kept.exchange(get()), 'x-from')).toEqual(['new']);
    await reloaded.reload({ ...base(), routes: [setField('newest')], limits: { fieldsBytes: 4096 } });
    expect(rawValues(await kept.exchange(get()), 'x-from')).toEqual(['newest']);
  });

  it('counts toward the new limit of connections', async () => {
    await using reloaded = await openReloadedServer(base());
    await using _first = await reloaded.connect();
    await reloaded.reload({ ...base(), limits: { connections: 1, fieldsBytes: 4096 } });
    const second = await reloaded.connect().then(
      (client) => client.rest(),
      () => '',
    );
    expect(second).toBe('');
    expect(reloaded.events).toContainEqual(expect.objectContaining({ error: 'too_many_connections' }));
  });
});

describe('a new connection', () => {
  it('gets the new options of its place', async () => {
    await using reloaded = await openReloadedServer(base());
    const [address] = reloaded.server.addresses;
    await reloaded.reload({ ...base(), listen: [{ address: '127.0.0.1:0', redirectToHttpsPort: 8443 }] });
    expect(reloaded.server.addresses).toEqual([address]);
    await using client = await reloaded.connect();
    expect(rawValues(await client.exchange(get('/x')), 'location')).toEqual(['https://a:8443/x']);
  });

  it('is accepted at a new place, and at an earlier one that is bound again', async () => {
    const path = join(dir, 'socket');
    await using reloaded = await openReloadedServer(base());
    const port = Number(new URL(reloaded.server.addresses[0] ?? '').port);
    await reloaded.reload({ ...base(), listen: `unix:${path}` });
    expect(reloaded.server.addresses).toEqual([`unix:${path}`]);
    await using client = await reloaded.connect();
    expect((await client.exchange(get('/y'))).body.toString()).toBe('origin, /y');
    await reloaded.reload({ ...base(), listen: [{ address: `127.0.0.1:${port}` }] });
    await using again = await reloaded.connect();
    expect((await again.exchange(get('/z'))).body.toString()).toBe('origin, /z');
  });

  it('that arrives at a new place before the commit is served', async () => {
    const path = join(dir, 'socket');
    await using reloaded = await openReloadedServer(base());
    const listen = ['127.0.0.1:0', `unix:${path}`];
    const prepared = await reloaded.server.prepareReload(configOf({ ...base(), listen }));
    await using early = await RawClient.open(path);
    early.send(get('/early'));
    await prepared.commit();
    expect((await early.response())?.body.toString()).toBe('origin, /early');
  });
});

describe('a response in progress', () => {
  it.each<[change: string, written: () => WrittenConfig]>([
    ['its route is removed', () => ({ routes: [{ match: { pathPrefix: '/other' }, origin: 'http://127.0.0.1:9' }] })],
    ['its origin has changed', () => ({ routes: [{ origin: 'http://127.0.0.1:9' }] })],
    ['its place is removed', () => ({ listen: `unix:${join(dir, 'new')}` })],
    ['its listener is replaced', () => ({ limits: { fieldsBytes: 4096 } })],
  ])('goes on to its end where %s', async (_change, written) => {
    await using reloaded = await openReloadedServer(base());
    await using client = await reloaded.connect();
    client.send(get('/held'));
    await client.head();
    expect((await client.take(4)).toString()).toBe('half');
    await reloaded.reload({ ...base(), ...written() });
    release();
    expect((await client.take(4)).toString()).toBe('half');
  });

  it('keeps the connection to its origin, which is closed after it', async () => {
    await using reloaded = await openReloadedServer(base());
    await using client = await reloaded.connect();
    client.send(get('/held'));
    await client.head();
    await reloaded.reload({ ...base(), routes: [{ origin: 'http://127.0.0.1:9' }] });
    expect(origin.connections).toBe(1);
    release();
    await client.take(8);
    await origin.allClosed();
  });
});

describe('a tunnel', () => {
  it('goes on where its route, its origin and its place are removed', async () => {
    origin.server.on('upgrade', (_request, socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      socket.pipe(socket);
    });
    await using reloaded = await openReloadedServer(base());
    await using client = await reloaded.connect();
    client.send('GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    expect((await client.head())?.status).toBe(101);
    await reloaded.reload({ listen: `unix:${join(dir, 'new')}`, routes: [{ origin: 'http://127.0.0.1:9' }] });
    client.send('still there');
    expect((await client.take(11)).toString()).toBe('still there');
  });
});

describe('a configuration with', () => {
  const other = async (): Promise<{ address: string; close: () => void }> => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1' }, resolve));
    const { port } = server.address() as { port: number };
    return { address: `127.0.0.1:${port}`, close: () => void server.close() };
  };

  const rows: [what: string, written: (place: string) => WrittenConfig, want: object][] = [
    [
      'a place that another server has',
      (place) => ({ listen: [`unix:${join(dir, 'new')}`, place] }),
      { code: 'EADDRINUSE' },
    ],
    [
      'a missing certificate',
      () => ({
        listen: [{ address: '127.0.0.1:0', tls: { certificates: [{ certFile: '/nowhere', keyFile: '/nowhere' }] } }],
      }),
      { message: expect.stringMatching(/^cannot use \/nowhere/) },
    ],
    [
      'a socket that was not passed',
      () => ({ listen: 'systemd:web' }),
      { message: expect.stringMatching(/^cannot listen on systemd:web/) },
    ],
    [
      'a missing secret',
      () => ({ routes: [{ origin: origin.url, access: { basic: 'file:/nowhere' } }] }),
      { message: expect.stringMatching(/^the secret file:\/nowhere cannot be read/) },
    ],
    [
      'an option that needs a restart',
      () => ({ store: { type: 'memory', maxSizeBytes: '10MB' }, pseudonym: 'other' }),
      {
        reason: 'invalid',
        message: 'store.maxSizeBytes, pseudonym cannot be changed while the server runs: this needs a restart',
      },
    ],
  ];

  it.each(rows)('%s is refused, and changes nothing', async (_what, written, want) => {
    const { address, close } = await other();
    await using reloaded = await openReloadedServer({ ...base(), routes: [setField('old')] });
    const { site, addresses } = reloaded.server;
    await using client = await reloaded.connect();
    expect(await isKept(client)).toBe(true);
    const config = configOf({ ...base(), routes: [setField('new')], ...written(address) });
    await expect(reloaded.server.prepareReload(config)).rejects.toMatchObject(want);
    expect(reloaded.server.site).toBe(site);
    expect(reloaded.server.addresses).toEqual(addresses);
    expect(rawValues(await client.exchange(get()), 'x-from')).toEqual(['old']);
    // The prepared sockets were closed, so the place can be bound now.
    await reloaded.reload({ ...base(), listen: `unix:${join(dir, 'new')}` });
    close();
  });
});

describe('a prepared reload', () => {
  it('that is abandoned changes nothing', async () => {
    const path = join(dir, 'socket');
    await using reloaded = await openReloadedServer(base());
    const { site } = reloaded.server;
    const prepared = await reloaded.server.prepareReload(configOf({ ...base(), listen: `unix:${path}` }));
    await prepared.abandon();
    await prepared.commit();
    expect(reloaded.server.site).toBe(site);
    await using client = await reloaded.connect();
    expect((await client.exchange(get('/x'))).body.toString()).toBe('origin, /x');
    await reloaded.reload({ ...base(), listen: `unix:${path}` });
  });

  it('makes the next one wait', async () => {
    await using reloaded = await openReloadedServer(base());
    const first = await reloaded.server.prepareReload(configOf({ ...base(), routes: [setField('first')] }));
    const second = reloaded.server.prepareReload(configOf({ ...base(), routes: [setField('second')] }));
    await first.commit();
    await (await second).commit();
    await using client = await reloaded.connect();
    expect(rawValues(await client.exchange(get()), 'x-from')).toEqual(['second']);
  });

  it('is abandoned when the server stops, and no other is prepared', async () => {
    const reloaded: ReloadedServer = await openReloadedServer(base());
    const prepared = await reloaded.server.prepareReload(configOf(base()));
    const closed = reloaded.server.close(0);
    await prepared.commit();
    await expect(reloaded.server.prepareReload(configOf(base()))).rejects.toMatchObject({ reason: 'unavailable' });
    await closed;
  });
});

describe('the end of a server', () => {
  it('waits for connections of earlier configurations, and cuts them after the grace period', async () => {
    const reloaded = await openReloadedServer(base());
    await using client = await reloaded.connect();
    client.send(get('/held'));
    await client.head();
    await reloaded.reload({ ...base(), limits: { fieldsBytes: 4096 } });
    await using idle = await reloaded.connect();
    await reloaded.reload({ ...base(), limits: { fieldsBytes: 8192 } });
    await reloaded.server.close(50);
    expect(await idle.closed).toBeUndefined();
    expect(await client.rest()).toBe('half');
    expect(reloaded.events).toContainEqual(
      expect.objectContaining({ stage: 'cut', message: expect.stringMatching(/^cut 1 /) }),
    );
  });
});
