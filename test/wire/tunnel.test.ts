/** WebSocket tunnels to a hand-written origin: the request it gets, the response the client gets, and how tunnels end. */

import { createServer as createTlsServer } from 'node:https';
import { createServer as createNetServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import type { TunnelRoute } from '../../src/listener/tunnel.ts';
import {
  accept,
  echoOrigin,
  handshake,
  key,
  listen,
  openTunnelListener,
  type RouteOf,
  rawOrigin,
  routeTo,
  sentFields,
} from '../support/clients/tunnels.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { peersQuiet, watchPeers } from '../support/clocks/peer-quiet.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { describeOwnServer, usually } from '../support/proxies/open-listener.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { testAuthority, testCertificate } from '../support/values/tls-certificate.ts';

watchPeers();

/** Routes everything to an origin, through tunnels with this idle timeout. */
function idleAfter(url: string, idleTimeoutMs: number): RouteOf {
  const route = { url, target: '/', fields: sentFields, idleTimeoutMs };
  return () => route;
}

describe('a tunnel', () => {
  it('carries bytes both ways after the 101', async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    const head = await client.head();
    expect(head?.status).toBe(101);
    client.send('ping');
    expect((await client.take(4)).toString()).toBe('ping');
    const bytes = patternBytes(0, 4 * 1024 * 1024);
    client.send(bytes);
    expect((await client.take(bytes.length)).equals(bytes)).toBe(true);
    expect(listener.requests).toEqual([]);
  });

  it('carries fields whose values are any bytes, both ways', async () => {
    const name = 'X-Name: f\xc3\xb6r \xfc';
    const url = await rawOrigin((socket) => {
      socket.once('data', (head) => {
        const sent = /X-Name: (.*)/i.exec(head.toString('latin1'))?.[1] ?? '';
        const fields = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n`;
        socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields}${name}\r\nX-Seen: ${sent}\r\n\r\n`, 'latin1');
      });
    });
    const sent: Fields = [...sentFields, ['x-name', 'f\xc3\xb6r \xfc']];
    await using listener = await openTunnelListener(() => ({ url, target: '/', fields: sent }));
    await using client = await listener.connect();
    client.send(handshake);
    const head = await client.head();
    expect(head?.lines.filter(([each]) => /^x-/i.test(each)).map(([, value]) => value)).toEqual([
      'f\xc3\xb6r \xfc',
      'f\xc3\xb6r \xfc',
    ]);
  });

  it('carries the bytes that the client sends with its handshake', async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(`${handshake}early`);
    expect((await client.head())?.status).toBe(101);
    client.send(' late');
    expect((await client.take(10)).toString()).toBe('early late');
  });

  it('sends the origin exactly the target and the end-to-end fields of its route', async () => {
    const asked = Promise.withResolvers<string>();
    const url = await rawOrigin((socket) => socket.once('data', (data) => asked.resolve(data.toString('latin1'))));
    const fields: Fields = [
      ...sentFields,
      ['connection', 'x-secret'],
      ['x-secret', '1'],
      ['content-length', '5'],
      ['te', 'x'],
    ];
    await using listener = await openTunnelListener(routeTo(url, fields));
    await using client = await listener.connect();
    client.send(handshake.replace('\r\n\r\n', '\r\nX-From-Client: 1\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n'));
    expect(await asked.promise).toBe(
      'GET /ws//../x?y&z=%20? HTTP/1.1\r\nHost: origin.example\r\nCookie: a=1; b=2\r\nSec-WebSocket-Version: 13\r\n' +
        `Sec-WebSocket-Key: ${key}\r\nSec-WebSocket-Protocol: chat\r\nVia: 1.1 rangeway\r\n` +
        'Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    );
  });

  it("names the origin's host where the route's fields name none", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url, []));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    expect(`http://${origin.requests[0]?.headers.host}`).toBe(origin.url);
  });

  describe('to an https origin', () => {
    const openTlsTunnel = async (tls: TunnelRoute['tls'], host = 'localhost') => {
      const origin = await echoOrigin(() => createTlsServer(testCertificate));
      const url = origin.url.replace('http://127.0.0.1', `https://${host}`);
      return openTunnelListener(() => ({ url, target: '/', fields: sentFields, tls }));
    };

    it.each([
      ['by the name of its URL, whatever Host says', { ca: testAuthority }, 'localhost', 101],
      ['by its address', { ca: testAuthority }, '127.0.0.1', 101],
      ['unless verification is off', { rejectUnauthorized: false }, 'localhost', 101],
      ['or refused', undefined, 'localhost', 502],
    ] satisfies [string, TunnelRoute['tls'], string, number][])('is verified %s', async (_name, tls, host, status) => {
      await using listener = await openTlsTunnel(tls, host);
      await using client = await listener.connect();
      client.send(handshake);
      expect((await client.head())?.status).toBe(status);
      if (status === 101) client.end();
      await client.rest();
      const error = status === 101 ? undefined : 'origin_certificate_refused';
      await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ status, error })]);
    });
  });

  it('is routed by the head of the request', async () => {
    const seen: unknown[] = [];
    const origin = await echoOrigin();
    await using listener = await openTunnelListener((request) => {
      seen.push(request);
      return { url: origin.url, target: request.target, fields: sentFields };
    });
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    expect(seen).toEqual([
      expect.objectContaining({
        method: 'GET',
        scheme: usually.scheme,
        authority: 'client.example',
        target: '/chat?a=1',
        version: '1.1',
        peer: usually.peer(client),
      }),
    ]);
    expect(origin.requests[0]?.url).toBe('/chat?a=1');
  });

  it("relays the origin's 101 without the other fields of the origin's connection", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    const head = (await client.head()) ?? { lines: [] };
    expect(head.lines).toEqual([
      ['Set-Cookie', 'a=1'],
      ['Set-Cookie', 'b=2'],
      ['Sec-WebSocket-Accept', accept],
      ['Connection', 'Upgrade'],
      ['Upgrade', 'websocket'],
    ]);
  });

  it('may be idle for longer than the answer timeout', async () => {
    const origin = await echoOrigin();
    const { after, advance } = createFakeClock();
    await using listener = await openTunnelListener(routeTo(origin.url), { answerTimeoutMs: 800, after });
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    advance(1_200);
    await peersQuiet();
    client.send('ping');
    expect((await client.take(4)).toString()).toBe('ping');
  });

  it('holds a fast origin back for a slow client', async () => {
    let sentBytes = 0;
    const chunk = Buffer.alloc(256 * 1024);
    const url = await rawOrigin((socket) => {
      const send = (): void => {
        while (sentBytes < 1024 * 1024 * 1024) {
          sentBytes += chunk.length;
          if (!socket.write(chunk)) return;
        }
      };
      socket.on('drain', send);
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
        send();
      });
    });
    await using listener = await openTunnelListener(routeTo(url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    await untilQuiet(() => sentBytes);
    expect(sentBytes).toBeLessThan(64 * 1024 * 1024);
  });
});

describe('the end of a tunnel', () => {
  const ended = {
    kind: 'tunnel',
    status: 101,
    authority: 'client.example',
    target: '/chat?a=1',
    peer: usually.address,
  };

  it.each(['end', 'reset'] as const)("comes with the client's %s, on both sides", async (how) => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    client.send('bye');
    await client.take(3);
    client[how]();
    await expect.poll(() => origin.sockets[0]?.destroyed).toBe(true);
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ ...ended, error: undefined })]);
    expect(listener.tunnelEvents[0]?.durationMs).toBeGreaterThan(0);
    expect(await listener.listener.close(10_000)).toEqual({ cut: 0 });
  });

  it("comes with the origin's end, after its last bytes", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    origin.sockets[0]?.unpipe().end('last words');
    expect(await client.rest()).toBe('last words');
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining(ended)]);
  });

  it("comes with the origin's end, even if the client does not end its side", async () => {
    const origin = await echoOrigin();
    const { after, advance } = createFakeClock();
    await using listener = await openTunnelListener(routeTo(origin.url), { after });
    await using client = await listener.connect();
    client.socket.allowHalfOpen = true;
    client.send(handshake);
    await client.head();
    origin.sockets[0]?.unpipe().end();
    expect(await client.rest()).toBe('');
    const closed = listener.listener.close(10_000);
    await peersQuiet();
    advance(3_000);
    expect(await closed).toEqual({ cut: 0 });
  });

  it("comes with the client's end, even if the origin does not end its side", async () => {
    const closed = Promise.withResolvers<void>();
    const origin = createNetServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => {});
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
        // Only a connection that is closed in both directions refuses these bytes.
        const send = (): void => {
          if (!socket.destroyed) socket.write('more', () => setImmediate(send));
        };
        send();
        socket.on('close', closed.resolve);
      });
    });
    // The reset ends it, not the time that unwritten bytes are given: the clock stands still.
    const { after } = createFakeClock();
    await using listener = await openTunnelListener(routeTo(await listen(origin)), { after });
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    client.reset();
    await expect.poll(() => listener.tunnelEvents.length).toBe(1);
    await closed.promise;
  });

  it("comes with the origin's reset, which is reported", async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    origin.sockets[0]?.resetAndDestroy();
    expect(await client.rest()).toBe('');
    await expect
      .poll(() => listener.tunnelEvents)
      .toEqual([expect.objectContaining({ ...ended, error: 'origin_reset' })]);
  });

  it('comes after the idle timeout', async () => {
    const origin = await echoOrigin();
    const { after, advance } = createFakeClock();
    await using listener = await openTunnelListener(idleAfter(origin.url, 60_000), { after });
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    advance(59_000);
    expect(listener.tunnelEvents).toEqual([]);
    advance(6_000);
    expect(await client.rest()).toBe('');
    const expected = { ...ended, error: 'tunnel_idle', errorDetail: 'nothing came for 60000 ms' };
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining(expected)]);
    await expect.poll(() => origin.sockets[0]?.destroyed).toBe(true);
  });

  it.each(['origin', 'client'] as const)('does not come while bytes flow from the %s', async (from) => {
    const connected = Promise.withResolvers<Socket>();
    const url = await rawOrigin((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
        connected.resolve(socket);
      });
    });
    const { after, advance } = createFakeClock();
    await using listener = await openTunnelListener(idleAfter(url, 60_000), { after });
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    const origin = await connected.promise;
    for (let minutes = 0; minutes < 10; minutes += 1) {
      if (from === 'origin') origin.write('x');
      else client.send('x');
      await peersQuiet();
      advance(50_000);
    }
    expect(listener.tunnelEvents).toEqual([]);
    origin.end();
    expect(await client.rest()).toBe(from === 'origin' ? 'x'.repeat(10) : '');
  });

  it('comes when the listener closes, after the grace period', async () => {
    const origin = await echoOrigin();
    await using listener = await openTunnelListener(routeTo(origin.url));
    await using client = await listener.connect();
    client.send(handshake);
    await client.head();
    expect(await listener.listener.close(50)).toEqual({ cut: 1 });
    expect(await client.rest()).toBe('');
    await expect.poll(() => origin.sockets[0]?.destroyed).toBe(true);
    expect(listener.tunnelEvents).toEqual([expect.objectContaining(ended)]);
  });
});

describeOwnServer('a tunnel for another protocol', () => {
  const asks = (protocol: string, more = '', line = 'POST /exec/1/start HTTP/1.1') =>
    `${line}\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n${more}\r\n`;
  const limits = { upgrades: new Set(['tcp', 'spdy/3.1']) };

  /** An origin that records the request, its content included, changes the protocol, and sends everything back. */
  async function changing(contentBytes = 0) {
    const seen: string[] = [];
    const url = await rawOrigin((socket) => {
      let text = '';
      socket.on('data', (bytes: Buffer) => {
        const before = text.length;
        text += bytes.toString('latin1');
        const headEnd = text.indexOf('\r\n\r\n') + 4;
        const end = headEnd + contentBytes;
        if (headEnd < 4 || text.length < end) return;
        if (before < end) {
          seen.push(text.slice(0, end));
          socket.write('HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n');
        }
        socket.write(bytes.subarray(Math.max(0, end - before)));
      });
    });
    return { url, seen };
  }

  it('carries bytes both ways, with its method and its name', async () => {
    const { url, seen } = await changing();
    await using listener = await openTunnelListener(routeTo(url), {}, limits);
    await using client = await listener.connect();
    client.send(asks('tcp'));
    const head = await client.head();
    expect([head?.status, head?.lines.find(([name]) => /^upgrade$/i.test(name))?.[1]]).toEqual([101, 'tcp']);
    client.send('ping');
    expect((await client.take(4)).toString()).toBe('ping');
    expect(seen[0]).toMatch(/^POST [\s\S]*\r\nUpgrade: tcp\r\n/i);
    expect(seen[0]).toMatch(/\r\nContent-Length: 0\r\n/i);
  });

  it.each(['at once', 'later'])('passes on the content of its request, which comes %s', async (when) => {
    const { url, seen } = await changing(12);
    await using listener = await openTunnelListener(routeTo(url), {}, limits);
    await using client = await listener.connect();
    client.send(asks('tcp', 'Content-Length: 12\r\n') + (when === 'at once' ? '{"tty":true}and' : '{"tty'));
    if (when === 'later') {
      await peersQuiet();
      client.send('":true}and');
    }
    expect((await client.head())?.status).toBe(101);
    client.send(' more');
    expect((await client.take(8)).toString()).toBe('and more');
    expect(seen[0]).toMatch(/\r\n\r\n\{"tty":true\}$/);
  });

  it.each<[name: string, request: string]>([
    ['that is not in the list', asks('other')],
    ['that is HTTP/2', asks('h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__\r\n', 'GET / HTTP/1.1')],
    ['with another method', asks('tcp', '', 'PUT / HTTP/1.1')],
    ['with chunks', `${asks('tcp', 'Transfer-Encoding: chunked\r\n')}0\r\n\r\n`],
    ['with HTTP/1.0', asks('tcp', '', 'POST / HTTP/1.0')],
  ])('%s is an ordinary request', async (_name, request) => {
    await using listener = await openTunnelListener(routeTo('http://127.0.0.1:1'), {}, limits);
    await using client = await listener.connect();
    client.send(request);
    expect((await client.response())?.body.toString()).toBe('plain');
  });
});
