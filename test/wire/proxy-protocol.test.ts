/** Connections that begin with the PROXY protocol: which client they name, and which connections are closed at once. */

import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { peersQuiet, watchPeers } from '../support/clocks/peer-quiet.ts';
import { untilClosed } from '../support/clocks/until-closed.ts';
import { openListener, type TestListener, textResponse } from '../support/proxies/open-listener.ts';
import { testAuthority } from '../support/values/tls-certificate.ts';

const get = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';
const v1 = 'PROXY TCP4 192.0.2.9 198.51.100.7 56324 443\r\n';
const client = { address: '192.0.2.9', port: 56_324 };
const start = '\r\n\r\n\0\r\nQUIT\n';
const v2 = `${start}\x21\x21\0\x24\x20\x01\x0d\xb8${'\0'.repeat(11)}\x09${'\0'.repeat(16)}\xdc\x04\x01\xbb`;

const proxyProtocolFrom = (address: string) => address === '127.0.0.1';
const open = (more: Parameters<typeof openListener>[1] = {}): Promise<TestListener> =>
  openListener(({ peer }) => textResponse(JSON.stringify(peer)), { proxyProtocolFrom, ...more });

async function dial(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {});
  // A connection that is closed at once may be gone before `connect` is seen here.
  await Promise.race([once(socket, 'connect'), once(socket, 'close')]).catch(() => {});
  return socket;
}

/** Sends bytes. Returns everything that arrives until the connection ends, or '' where it fails. */
async function answerTo(socket: Socket, bytes = ''): Promise<string> {
  socket.write(bytes, 'latin1');
  return text(socket).catch(() => '');
}

const refusal = (detail: string | RegExp) => [
  {
    kind: 'refusal',
    peer: '127.0.0.1',
    status: 400,
    error: 'proxy_header_refused',
    detail: typeof detail === 'string' ? detail : expect.stringMatching(detail),
  },
];

describe('a trusted proxy', () => {
  it.each<[what: string, header: string, peer: { address: string; port: number } | 'itself']>([
    ['version 1', v1, client],
    ['version 2', v2, { address: '2001:db8::9', port: 56_324 }],
    ['a client at a Unix socket', `${start}\x21\x31\0\xd8${'a'.repeat(216)}`, { address: '', port: 0 }],
    ['the proxy itself (LOCAL)', `${start}\x20\0\0\0`, 'itself'],
    ['an unknown client (UNKNOWN)', 'PROXY UNKNOWN\r\n', 'itself'],
    ['an unknown client (AF_UNSPEC)', `${start}\x21\0\0\0`, 'itself'],
  ])('names the peer: %s', async (_what, header, peer) => {
    await using listener = await open();
    const socket = await dial(listener.port);
    const itself = { address: '127.0.0.1', port: socket.localPort };
    expect(await answerTo(socket, header + get)).toContain(JSON.stringify(peer === 'itself' ? itself : peer));
    expect(listener.events).toEqual([]);
  });

  it('may send its header byte by byte', async () => {
    await using listener = await open();
    const socket = await dial(listener.port);
    for (const byte of v2) {
      socket.write(byte, 'latin1');
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await answerTo(socket, get)).toContain('2001:db8::9');
  });

  it('sends one header on each connection: a second one is no request', async () => {
    await using listener = await open();
    const answer = await answerTo(await dial(listener.port), v1 + v1 + get);
    expect(answer).toMatch(/^HTTP\/1\.1 (400|501) /);
    expect(listener.requests).toEqual([]);
  });

  it('sends its header before TLS', async () => {
    await using listener = await open({ carrier: 'tls' });
    for (const parts of [[v1], [...v1]]) {
      const socket = await dial(listener.port);
      for (const part of parts) socket.write(part);
      const secure = connectTls({ socket, ca: testAuthority, servername: 'localhost' });
      secure.end(get);
      expect(await text(secure)).toContain(JSON.stringify(client));
    }
    expect(listener.requests.map(({ scheme }) => scheme)).toEqual(['https', 'https']);
  });

  it('sends its header before HTTP/2', async () => {
    await using listener = await open({ http2: true });
    const socket = await dial(listener.port);
    socket.write(v1);
    const session = connectHttp2('http://localhost', { createConnection: () => socket });
    expect(await text(session.request())).toBe(JSON.stringify(client));
    await new Promise<void>((resolve) => session.close(resolve));
    expect(await answerTo(await dial(listener.port), v1 + get)).toContain(JSON.stringify(client));
  });
});

describe('a connection that is closed at once', () => {
  it('comes from a peer that is not trusted, whatever it sends', async () => {
    await using listener = await open({ proxyProtocolFrom: () => false });
    expect(await answerTo(await dial(listener.port), v1 + get)).toBe('');
    expect(listener.requests).toEqual([]);
    expect(listener.events).toEqual(refusal('not one of trustedProxies'));
  });

  it.each<[what: string, bytes: string, detail: string | RegExp]>([
    ['a request in place of the header', get, 'no PROXY protocol'],
    ['TLS in place of the header', '\x16\x03\x01\x02\x00', 'no PROXY protocol'],
    ['a malformed header', 'PROXY TCP4 1.2.3 4.5.6.7 1 2\r\n', /version 1/],
    ['a header without an end', `PROXY ${'x'.repeat(200)}`, /without an end/],
    ['a header of another version', `${start}\x31\x11\0\0`, 'version 3 in the form of version 2'],
    ['a header that is too long', `${start}\x21\x11\xff\xff`, 'a header of 65535 bytes'],
  ])('begins with %s', async (_what, bytes, detail) => {
    await using listener = await open();
    expect(await answerTo(await dial(listener.port), bytes)).toBe('');
    expect(listener.requests).toEqual([]);
    expect(listener.events).toEqual(refusal(detail));
  });
});

describe('a missing header', () => {
  watchPeers();
  const limits = { headersTimeoutMs: 800 };

  it('is not waited for forever', async () => {
    const { after, advance } = createFakeClock();
    await using listener = await open({ limits, after });
    const socket = await dial(listener.port);
    await peersQuiet();
    advance(800);
    expect(await answerTo(socket)).toBe('');
    expect(listener.events).toEqual([]);
  });

  it('that keeps arriving byte by byte is not waited for either', async () => {
    const { after, advance } = createFakeClock();
    await using listener = await open({ limits, after });
    const socket = await dial(listener.port);
    socket.write('PROXY UNKNOWN ');
    for (let passedMs = 0; passedMs < 800; passedMs += 100) {
      socket.write('x');
      await peersQuiet();
      advance(100);
    }
    expect(await answerTo(socket)).toBe('');
    expect(listener.events).toEqual([
      expect.objectContaining({ kind: 'refusal', error: 'request_timeout', peer: '127.0.0.1' }),
    ]);
  });

  it.each(['end', 'destroy', 'resetAndDestroy'] as const)(
    'because its proxy leaves (%s) leaves nothing behind',
    async (leave) => {
      await using listener = await open();
      const socket = await dial(listener.port);
      socket.write('PROXY TCP4');
      await new Promise((resolve) => setImmediate(resolve));
      socket[leave]();
      expect(await listener.listener.close(10_000)).toEqual({ cut: 0 });
    },
  );

  it('does not keep a listener from closing', async () => {
    await using listener = await open();
    const unused = await dial(listener.port);
    const begun = await dial(listener.port);
    begun.write('PROXY TCP4');
    const closed = listener.listener.close(200);
    expect(await answerTo(unused)).toBe('');
    expect(await answerTo(begun)).toBe('');
    expect(await closed).toEqual({ cut: 0 });
  });

  it.each(['tcp', 'tls', 'looked'] as const)(
    'is not the case, but a missing request after it: it is not logged, and closing does not wait (%s)',
    async (carrier) => {
      await using listener = await open({ carrier, limits: { headersTimeoutMs: 300 } });
      // A load balancer that checks its health.
      const looking = await dial(listener.port);
      looking.end(`${start}\x20\0\0\0`, 'latin1');
      await untilClosed(looking.resume());
      const waiting = await dial(listener.port);
      expect(await answerTo(waiting, v1)).toBe('');
      const unused = await dial(listener.port);
      const isRead = new Promise((resolve) => unused.write(v1, resolve));
      await isRead;
      expect(listener.events).toEqual([]);
      await settled(listener);
      const closed = listener.listener.close(10_000);
      expect(await text(unused)).toBe('');
      expect(await closed).toEqual({ cut: 0 });
      expect(listener.events).toEqual([]);
    },
  );

  /** Waits until earlier bytes have been read: a later connection has been read by then. Clears the events. */
  async function settled(listener: TestListener): Promise<void> {
    const other = await dial(listener.port);
    await answerTo(other, 'no header\r\n');
    listener.events.length = 0;
  }
});
