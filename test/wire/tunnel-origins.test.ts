/** Tunnels to origins over TLS with a client certificate, at Unix sockets, and of a group; and bytes before the 101. */

import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { TunnelAdmission, TunnelRoute } from '../../src/listener/tunnel.ts';
import {
  echoOrigin,
  handshake,
  openTunnelListener,
  plainOrigin,
  rawOrigin,
  routeTo,
  sentFields,
} from '../support/clients/tunnels.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { peersQuiet, watchPeers } from '../support/clocks/peer-quiet.ts';
import { untilClosed } from '../support/clocks/until-closed.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { testAuthority, testCertificate, testClientCertificate } from '../support/values/tls-certificate.ts';

watchPeers();

describe('a tunnel', () => {
  it('leads to a Unix socket', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-tunnel-'));
    const path = join(dir, 'origin.sock');
    const seen: unknown[] = [];
    const origin = createServer();
    origin.on('upgrade', (request, socket) => {
      seen.push(request.url, request.headers.host);
      socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
      socket.pipe(socket);
    });
    await new Promise<void>((resolve) => origin.listen(path, resolve));
    await using listener = await openTunnelListener(() => ({ url: `unix:${path}`, target: '/chat', fields: [] }));
    await using client = await listener.connect();
    client.send(handshake);
    expect((await client.head())?.status).toBe(101);
    client.send('ping');
    expect((await client.take(4)).toString()).toBe('ping');
    expect(seen).toEqual(['/chat', 'localhost']);
    client.end();
    await client.rest();
    origin.close();
    await rm(dir, { recursive: true });
  });

  it('to a Unix socket that is not there is a 502', async () => {
    await using listener = await openTunnelListener(() => ({
      url: 'unix:/nowhere/origin.sock',
      target: '/',
      fields: [],
    }));
    await using client = await listener.connect();
    client.send(handshake);
    expect((await client.response())?.status).toBe(502);
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ error: 'origin_refused' })]);
  });

  it.each([
    ['shows a certificate is authorized', testClientCertificate, true],
    ['shows no certificate is not authorized', {}, false],
  ])('that %s', async (_name, shown, want) => {
    const secure = { ...testCertificate, requestCert: true, rejectUnauthorized: false, ca: testClientCertificate.cert };
    const origin = await echoOrigin(() => createTlsServer(secure));
    const url = origin.url.replace('http://127.0.0.1', 'https://localhost');
    const tls = { ca: testAuthority, ...shown };
    await using listener = await openTunnelListener(() => ({ url, target: '/', fields: sentFields, tls }));
    await using client = await listener.connect();
    client.send(handshake);
    expect((await client.head())?.status).toBe(101);
    expect((origin.sockets[0] as TLSSocket).authorized).toBe(want);
  });

  it.each<[name: string, origin: () => Promise<string>, reports: string[]]>([
    ['is opened', async () => (await echoOrigin()).url, ['well']],
    ['is refused by the origin', () => plainOrigin((response) => response.writeHead(403).end()), ['well']],
    ['is answered with 503', () => plainOrigin((response) => response.writeHead(503).end()), ['failed']],
    ['is cut off', () => rawOrigin((socket) => socket.once('data', () => socket.destroy())), ['failed']],
    ['gets no answer', () => rawOrigin(() => undefined), ['failed']],
    ['has no origin', async () => 'http://127.0.0.1:1', ['failed']],
  ])('that %s reports the health of its origin, and releases it', async (_name, origin, want) => {
    const reports: string[] = [];
    let releases = 0;
    const hold = {
      report: (outcome: string) => reports.push(outcome),
      release: () => {
        releases += 1;
      },
    };
    const url = await origin();
    await using listener = await openTunnelListener(() => ({ url, target: '/', fields: sentFields, hold }), {
      answerTimeoutMs: 300,
    });
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    client.end();
    await client.rest();
    await expect.poll(() => releases).toBe(1);
    expect(reports.slice(0, 1)).toEqual(want);
  });

  it('ends after the timeout of its route, even if the origin keeps sending', async () => {
    const asked = Promise.withResolvers<Socket>();
    const url = await rawOrigin((socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nX-Slow: ');
      socket.once('data', () => asked.resolve(socket));
    });
    const { after, advance } = createFakeClock();
    const timeouts = { connectMs: 5000, answerMs: 300 };
    const route = { url, target: '/', fields: sentFields, timeouts };
    await using listener = await openTunnelListener(() => route, { after });
    await using client = await listener.connect();
    client.send(handshake);
    const origin = await asked.promise;
    for (let passedMs = 0; passedMs < 300; passedMs += 100) {
      origin.write('a');
      await peersQuiet();
      advance(100);
    }
    expect((await client.response())?.status).toBe(504);
    await untilClosed(origin);
  });

  it.each(['end', 'reset'] as const)(
    'is given up once its client has left (%s), even before the origin answers',
    async (how) => {
      const asked = Promise.withResolvers<void>();
      let open = 0;
      const url = await rawOrigin((socket) => {
        open += 1;
        socket.on('close', () => {
          open -= 1;
        });
        socket.once('data', () => asked.resolve());
      });
      await using listener = await openTunnelListener(routeTo(url), { answerTimeoutMs: 60_000 });
      const client = await listener.connect();
      client.send(handshake);
      await asked.promise;
      client[how]();
      await expect.poll(() => listener.tunnelEvents.map(({ error }) => error)).toEqual(['client_gone']);
      await expect.poll(() => open).toBe(0);
    },
  );

  it('begins with the 101: bytes that the origin sends before are not passed on', async () => {
    const url = await rawOrigin((socket) =>
      socket.once('data', () => socket.write('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nhello')),
    );
    await using listener = await openTunnelListener(routeTo(url), { answerTimeoutMs: 5000 });
    await using client = await listener.connect();
    client.send(`${handshake}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`);
    expect((await client.response())?.status).toBe(502);
    expect(await client.rest()).toBe('');
    expect(listener.requests).toEqual([]);
  });

  it('sends no bytes behind the handshake to an origin that has not accepted it', async () => {
    const received: Buffer[] = [];
    const url = await rawOrigin((socket) => {
      socket.on('data', (data) => received.push(Buffer.from(data)));
      socket.once('data', () => socket.write('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno'));
    });
    await using listener = await openTunnelListener(routeTo(url));
    await using client = await listener.connect();
    client.send(`${handshake}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`);
    expect((await client.response())?.status).toBe(403);
    expect(await client.rest()).toBe('');
    expect(Buffer.concat(received).toString()).not.toContain('smuggled');
  });
});

describe('while credentials are checked', () => {
  /** An admission that waits until the test decides the route. */
  function createGate() {
    const decided = Promise.withResolvers<TunnelRoute>();
    const asked = Promise.withResolvers<void>();
    const left: unknown[] = [];
    const admit = (): TunnelAdmission => ({
      route() {
        asked.resolve();
        return decided.promise;
      },
      present: (response) => response,
      leave: ({ error }) => left.push(error?.code),
    });
    return { admit, asked: asked.promise, left, decided };
  }

  it('the bytes that a client sends are kept', async () => {
    const origin = await echoOrigin();
    const gate = createGate();
    await using listener = await openTunnelListener(routeTo(origin.url), { admit: gate.admit });
    await using client = await listener.connect();
    client.send(`${handshake}one `);
    await gate.asked;
    client.send('two ');
    const much = Buffer.alloc(1024 * 1024, 'x');
    client.send(much);
    await untilQuiet(() => client.socket.bytesWritten);
    gate.decided.resolve({ url: origin.url, target: '/', fields: sentFields });
    expect((await client.head())?.status).toBe(101);
    expect((await client.take(8)).toString()).toBe('one two ');
    expect((await client.take(much.length)).equals(much)).toBe(true);
    client.end();
    await client.rest();
    await expect.poll(() => gate.left).toEqual([undefined]);
  });

  it.each(['end', 'reset'] as const)('a client that leaves (%s) leaves nothing behind', async (how) => {
    let open = 0;
    const url = await rawOrigin((socket) => {
      open += 1;
      socket.on('close', () => {
        open -= 1;
      });
      socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'),
      );
    });
    const gate = createGate();
    await using listener = await openTunnelListener(routeTo(url), { admit: gate.admit });
    const client = await listener.connect();
    client.send(`${handshake}early`);
    await gate.asked;
    client[how]();
    gate.decided.resolve({ url, target: '/', fields: sentFields });
    await expect.poll(() => gate.left.length).toBe(1);
    expect(await listener.listener.close(5000)).toEqual({ cut: 0 });
    await expect.poll(() => open).toBe(0);
  });

  it('a refusal is answered, and the bytes behind the handshake are no request', async () => {
    const gate = createGate();
    await using listener = await openTunnelListener(routeTo('http://127.0.0.1:1'), { admit: gate.admit });
    await using client = await listener.connect();
    client.send(`${handshake}GET / HTTP/1.1\r\nHost: a\r\n\r\n`);
    await gate.asked;
    gate.decided.reject(new ProxyError('credentials_required', { fields: [['www-authenticate', 'Basic realm="a"']] }));
    const response = await client.response();
    expect(response?.status).toBe(401);
    expect(await client.rest()).toBe('');
    expect(listener.requests).toEqual([]);
    await expect.poll(() => gate.left).toEqual(['credentials_required']);
  });
});
