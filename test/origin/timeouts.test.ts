/** Timeouts of origins: for a connection, a head, and the next bytes of a body, even where bytes keep arriving. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHttp2Origin } from '../../src/origin/http2/http2-origin.ts';
import type { Origin } from '../../src/origin/origin.ts';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import { drip } from '../support/clocks/drip.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { endHeaders, type FrameExchange, frame, lines, openFrameOrigin } from '../support/origins/http2-frames.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { testAuthority } from '../support/values/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

const tls = { ca: testAuthority, rejectUnauthorized: true };
/** What the origins of a test keep sending. */
let drips: DisposableStack;
let dir: string;
beforeEach(async () => {
  drips = new DisposableStack();
  dir = await mkdtemp(join(tmpdir(), 'rangeway-timeouts-'));
});
afterEach(async () => {
  drips.dispose();
  await rm(dir, { recursive: true });
});

/** Sends a text byte by byte, and then its last byte repeatedly. */
function sendByBytes(socket: Socket, text: string): void {
  let at = 0;
  const send = () => {
    if (!socket.destroyed) socket.write(text[Math.min(at++, text.length - 1)] ?? '');
  };
  drips.use(drip(send));
}

async function failureOf(origin: Origin): Promise<string> {
  try {
    const response = await origin.fetch(originRequest());
    return `${response.status} ${(await readBody(response)).error}`;
  } catch (thrown) {
    return codeOf(thrown);
  } finally {
    await origin.close();
  }
}

const head = 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n';

describe.each(['TCP', 'a Unix socket'])('over %s', (kind) => {
  it.each<[name: string, play: (socket: Socket) => void, want: string]>([
    ['says nothing', () => undefined, 'origin_timeout'],
    ['sends a byte of a status line at a time', (socket) => sendByBytes(socket, 'HTTP/1.1 200 OKaa'), 'origin_timeout'],
    [
      'sends a byte of a field at a time',
      (socket) => sendByBytes(socket, 'HTTP/1.1 200 OK\r\nX-A: a'),
      'origin_timeout',
    ],
    ['stops within the head', (socket) => socket.write(head.slice(0, 20)), 'origin_timeout'],
    ['stops behind the head', (socket) => socket.write(head), '200 origin_timeout'],
    ['stops within the body', (socket) => socket.write(`${head}good`), '200 origin_timeout'],
    [
      'sends interim responses without end',
      (socket) => socket.write('HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000)),
      'origin_ill_framed',
    ],
  ])('fails where an origin %s', async (_name, play, want) => {
    const server = createServer((socket) => socket.on('error', () => undefined).once('data', () => play(socket)));
    const path = join(dir, 's');
    server.listen(...((kind === 'TCP' ? [0, '127.0.0.1'] : [path]) as [string]));
    await once(server, 'listening');
    const url = kind === 'TCP' ? `http://127.0.0.1:${(server.address() as AddressInfo).port}` : `unix:${path}`;
    const limits = { headersTimeoutMs: 1_000, bodyTimeoutMs: 1_000 };
    expect(await failureOf(createUndiciOrigin(originOptions({ url, ...limits })))).toBe(want);
    server.close();
    await once(server, 'close');
  });
});

describe('over HTTP/2', () => {
  const start = (stream: number) => frame('headers', 0, stream, lines([':status', '200']));
  it.each<[name: string, play: (exchange: FrameExchange) => void, want: string]>([
    ['says nothing', () => undefined, 'origin_timeout'],
    [
      'sends a byte of a head at a time',
      ({ socket, stream }) =>
        sendByBytes(socket, frame('headers', endHeaders, stream, Buffer.alloc(9000)).toString('latin1')),
      'origin_timeout',
    ],
    [
      'sends a head piece by piece',
      ({ send, stream }) => {
        send(start(stream));
        drips.use(drip(() => send(frame('continuation', 0, stream, lines(['x-a', '1']))), 60));
      },
      'origin_(timeout|ill_framed)',
    ],
    [
      'stops behind the head',
      ({ send, stream }) => send(frame('headers', endHeaders, stream, lines([':status', '200']))),
      '200 origin_timeout',
    ],
    [
      'sends interim responses without end',
      ({ send, stream }) =>
        send(...Array.from({ length: 1000 }, () => frame('headers', endHeaders, stream, lines([':status', '102'])))),
      'origin_ill_framed',
    ],
  ])('fails where an origin %s', async (_name, play, want) => {
    await using server = await openFrameOrigin({}, play);
    const limits = { headersTimeoutMs: 1_000, bodyTimeoutMs: 1_000 };
    const origin = createHttp2Origin({ ...originOptions({ url: server.url, tls, ...limits }), clock: realClock });
    expect(await failureOf(origin)).toMatch(new RegExp(`^${want}$`));
  });
});

describe('a connection', () => {
  it.each<[name: string, scheme: string, open: (url: string) => Origin]>([
    ['over TLS', 'https', (url) => createUndiciOrigin(originOptions({ url, tls, connectTimeoutMs: 400 }))],
    [
      'for HTTP/2',
      'https',
      (url) => createHttp2Origin({ ...originOptions({ url, tls, connectTimeoutMs: 400 }), clock: realClock }),
    ],
  ])('%s fails where its handshake stalls', async (_name, scheme, open) => {
    const server = createServer((socket) => socket.on('error', () => undefined).resume()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await failureOf(open(url))).toBe('origin_connect_timeout');
    server.close();
    await once(server, 'close');
  });
});
