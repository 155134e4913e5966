/**
 * What a byte of a client costs the executable, with default options: processor time, and memory that stays. Each row sends one kind
 * of bytes (a field, a part of the target, a frame, a phase of a request) and compares with a request that lacks them. A rule that
 * takes more than linear time, or a table that is bounded by number alone, shows here, whatever it is. Time is that of the process,
 * which other processes on the machine change little. A row that seems to cost too much is measured again, and the least counts.
 * `RANGEWAY_COST_TABLE=1` prints the rows that cost most.
 */

import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Field } from '../../src/http/fields.ts';
import { encodeFields, encodeIndexed, encodeInteger } from '../support/clients/h2-hpack.ts';
import {
  flag,
  frameBytes,
  frameType,
  getFields,
  H2RawClient,
  postFields,
  settingsPayload,
  uint32,
} from '../support/clients/h2-raw-client.ts';
import { residentBytes } from '../support/processes/process-status.ts';
import { projectDirectory, type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';

/**
 * The most that a byte may cost: in microseconds of processor time, and in bytes of memory that stay after the request. Eight would be
 * bearable, but none of what is sent here is stored: what stays is bounded.
 */
const mostMicroseconds = 1;
const mostKeptBytes = 1;

const isPrinting = process.env['RANGEWAY_COST_TABLE'] === '1';

/** How often a row that seems to cost too much is measured again. */
const repetitions = 5;

/** The length of a value: near the limit of a header section (32 KiB), and of a target (8 KiB). */
const valueBytes = 30_000;
const targetBytes = 8_000;

/** Bytes of frames of one kind on a connection. */
const floodBytes = 256 * 1024;

/** Texts that are repeated in values: of each syntax that a field may have, and of none. */
const units = ['a', 'a,', ' ,', 'a=b;', '"', '"a",', '\\"', '0-1,', '9-,', '%2e', '://@', '(', 'W/"a",', 'a;q=0.1,'];

/** Beginnings of values whose rest is read only behind them. */
const beginnings: Readonly<Record<string, string>> = {
  range: 'bytes=',
  'if-range': '"',
  authorization: 'Basic ',
  forwarded: 'for=',
  'if-none-match': '"',
};

const names = [
  'accept accept-charset accept-encoding accept-language authorization baggage cache-control cdn-loop connection',
  'content-encoding content-type cookie date destination dnt expect forwarded from if if-match if-modified-since',
  'if-none-match if-range if-unmodified-since keep-alive max-forwards origin pragma priority proxy-authorization',
  'range referer save-data te traceparent tracestate trailer upgrade user-agent via want-digest x-any',
  'x-forwarded-for x-forwarded-host x-forwarded-proto x-http-method-override x-ms-range x-real-ip x-request-id',
]
  .join(' ')
  .split(' ');

/** What one kind of bytes has cost. */
interface Cost {
  readonly kind: string;
  readonly microseconds: number;
}

const costs: Cost[] = [];
let dir: string;
let server: RangewayProcess & { readonly url: string };
let port: number;
let reports = 0;
const origin = createServer((request, response) => {
  request.resume();
  response.writeHead(200, { 'cache-control': request.url?.startsWith('/kept') ? 'max-age=600' : 'no-store' });
  request.once('end', () => response.end('well'));
});

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-cost-'));
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  server = await startConfigured(
    dir,
    {
      listen: [{ address: '127.0.0.1:0', http2: true }],
      store: { type: 'memory' },
      routes: [{ origin: `http://127.0.0.1:${(origin.address() as AddressInfo).port}` }],
    },
    { NODE_OPTIONS: `--import=${join(projectDirectory, 'test/support/processes/report-memory.ts')}` },
  );
  port = Number(new URL(server.url).port);
  // Code is compiled once.
  for (let at = 0; at < 300; at += 1) await ask([`GET /kept/${at % 2 === 0 ? at : 0} HTTP/1.1\r\nHost: a\r\n\r\n`]);
  for (const name of names) await ask([requestWith(name, 'x'.repeat(1000))]);
});
afterAll(async () => {
  await server?.[Symbol.asyncDispose]();
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
  const dearest = costs.toSorted((a, b) => b.microseconds - a.microseconds).slice(0, 10);
  if (isPrinting) {
    for (const { kind, microseconds } of dearest) process.stderr.write(`${microseconds.toFixed(3)} µs  ${kind}\n`);
  }
});

/** The processor time of all threads of the server so far, in microseconds. */
async function processorTime(): Promise<number> {
  const tasks = `/proc/${server.pid}/task`;
  let nanoseconds = 0;
  for (const task of await readdir(tasks)) {
    const text = await readFile(join(tasks, task, 'schedstat'), 'utf8').catch(() => '0');
    nanoseconds += Number(text.split(' ', 1)[0]);
  }
  return nanoseconds / 1000;
}

/** The bytes of memory that are in use after a collection. */
async function liveBytes(): Promise<number> {
  reports += 1;
  process.kill(server.pid, 'SIGUSR2');
  const [, live = ''] = await server.waitFor(new RegExp(`live ${reports} (.*)`));
  const { heapUsed, external } = JSON.parse(live) as { heapUsed: number; external: number };
  return heapUsed + external;
}

/** Opens a connection that takes whatever comes. */
async function open(): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

/** Sends each request over a connection of its own, and waits for the end of the connection. */
async function ask(requests: readonly string[]): Promise<void> {
  for (const request of requests) {
    const socket = await open();
    const closed = once(socket, 'close');
    socket.resume();
    socket.end(request, 'latin1');
    await closed;
  }
}

const requestWith = (name: string, value: string, method = 'GET', target = '/never-stored') =>
  `${method} ${target} HTTP/1.1\r\nHost: a\r\n${name}: ${value}\r\nConnection: close\r\n\r\n`.replace(
    name === 'connection' ? '\r\nConnection: close' : '\r\n\r\n\r\n',
    '',
  );

/** Fills a text with a unit up to a length. */
const filled = (unit: string, length: number) => unit.repeat(Math.ceil(length / unit.length)).slice(0, length);

/** The processor time of something, in microseconds. */
async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const before = await processorTime();
  await work();
  return (await processorTime()) - before;
}

/**
 * Measures what the bytes of `work` cost beyond `plain`, until it is clear that they are not too dear. Both return after the server
 * has done its work. `bytes` is what `work` sends more than `plain`.
 */
async function expectCheap(
  kind: string,
  bytes: () => number,
  work: () => Promise<unknown>,
  plain: () => Promise<unknown> = async () => {},
): Promise<void> {
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries <= repetitions && least > mostMicroseconds / 2; tries += 1) {
    const plainTime = await timeOf(plain);
    const time = await timeOf(work);
    least = Math.min(least, Math.max(0, time - plainTime) / bytes());
  }
  costs.push({ kind, microseconds: least });
  expect(least, `${kind}: microseconds for each byte`).toBeLessThan(mostMicroseconds);
}

const rounds = 2;
const times = (request: string) => Array.from({ length: rounds }, () => request);

describe('a byte of a field over HTTP/1.1', () => {
  it.each(names)('%s', async (name) => {
    for (const unit of units) {
      const value = `${beginnings[name] ?? ''}${filled(unit, valueBytes)}`;
      await expectCheap(
        `${name}: ${beginnings[name] ?? ''}${unit}…`,
        () => rounds * valueBytes,
        () => ask(times(requestWith(name, value))),
        () => ask(times(requestWith(name, 'a'))),
      );
    }
  });
});

describe('a byte of a target', () => {
  it.each(['a', '/', '/../', '/..;', '%2f', '%', ';a=b', '//', '?a=b&', '?', '&=', '\\', '+'])('%s', async (unit) => {
    for (const beginning of ['/', '/?']) {
      const target = `${beginning}${filled(unit, targetBytes)}`;
      await expectCheap(
        `target ${beginning}${unit}…`,
        () => 8 * targetBytes,
        () => ask(Array.from({ length: 8 }, () => requestWith('x', 'a', 'GET', target))),
        () => ask(Array.from({ length: 8 }, () => requestWith('x', 'a', 'GET', '/never'))),
      );
    }
  });
});

describe('a byte of other phases over HTTP/1.1', () => {
  const head = (fields: string) => `POST /never HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${fields}\r\n`;
  const chunked = head('Transfer-Encoding: chunked\r\n');
  it.each<[name: string, request: string]>([
    ['empty lines before a request', filled('\r\n', 100_000)],
    ['many fields', `GET / HTTP/1.1\r\nHost: a\r\n${filled('a:b\r\n', 5 * 190)}Connection: close\r\n\r\n`.repeat(1)],
    ['content of a known length', `${head('Content-Length: 1000000\r\n')}${'x'.repeat(1_000_000)}`],
    ['chunks of one byte', `${chunked}${filled('1\r\nx\r\n', 120_000)}0\r\n\r\n`],
    ['chunks of 100 bytes', `${chunked}${`64\r\n${'x'.repeat(100)}\r\n`.repeat(2_000)}0\r\n\r\n`],
    ['a chunk extension', `${chunked}1;${filled('a=b;', 100_000)}\r\nx\r\n0\r\n\r\n`],
    ['trailers', `${chunked}0\r\n${filled('a:b\r\n', 100_000)}\r\n`],
    ['a field without end', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(200_000)}`],
    ['bytes of no protocol', filled('\0\xff', 200_000)],
  ])('%s', async (name, request) => {
    await expectCheap(
      `HTTP/1.1, ${name}`,
      () => request.length,
      () => ask([request]),
      () => ask([`${head('Content-Length: 0\r\n')}`]),
    );
  });
});

describe('a byte over HTTP/2', () => {
  const post = frameBytes(frameType.headers, flag.endHeaders, 1, encodeFields(postFields('/never')));
  const filler = (frame: Buffer) =>
    Buffer.alloc(floodBytes, frame).subarray(0, floodBytes - (floodBytes % frame.length));
  const kinds: readonly { readonly kind: readonly [string, Buffer] | readonly [string, Buffer, Buffer] }[] = [
    { kind: ['PING', frameBytes(frameType.ping, 0, 0, Buffer.alloc(8))] },
    { kind: ['SETTINGS', frameBytes(frameType.settings, 0, 0, settingsPayload([0x99, 1]))] },
    {
      kind: [
        'SETTINGS that change windows',
        frameBytes(frameType.settings, 0, 0, settingsPayload([4, 1], [4, 65_535])),
        post,
      ],
    },
    { kind: ['PRIORITY', frameBytes(frameType.priority, 0, 1, Buffer.alloc(5))] },
    { kind: ['WINDOW_UPDATE', frameBytes(frameType.windowUpdate, 0, 0, uint32(1))] },
    { kind: ['WINDOW_UPDATE of a stream', frameBytes(frameType.windowUpdate, 0, 1, uint32(1)), post] },
    { kind: ['unknown frames', frameBytes(0x77, 0, 0)] },
    { kind: ['empty DATA', frameBytes(frameType.data, 0, 1), post] },
    { kind: ['padded DATA', frameBytes(frameType.data, flag.padded, 1, Buffer.from([1, 0])), post] },
    { kind: ['DATA of one byte', frameBytes(frameType.data, 0, 1, Buffer.from('x')), post] },
    { kind: ['RST_STREAM of closed streams', frameBytes(frameType.reset, 0, 1, uint32(8)), post] },
    { kind: ['CONTINUATION', frameBytes(frameType.continuation, 0, 1), frameBytes(frameType.headers, 0, 1)] },
    {
      kind: [
        'bytes of a CONTINUATION',
        frameBytes(frameType.continuation, 0, 1, Buffer.alloc(16_000, 0x82)),
        frameBytes(frameType.headers, 0, 1),
      ],
    },
  ];
  const flood = async (first: Buffer, bytes: Buffer): Promise<number> => {
    const client = await H2RawClient.open(port);
    client.send(first);
    await Promise.race([new Promise((resolve) => client.socket.write(bytes, resolve)), client.closed]);
    await client.roundTrip();
    await client[Symbol.asyncDispose]();
    return bytes.length;
  };
  it.each(kinds)('of $kind.0', async ({ kind: [name, frame, first = Buffer.alloc(0)] }) => {
    await expectCheap(
      `HTTP/2, ${name}`,
      () => filler(frame).length,
      () => flood(first, filler(frame)),
      () => flood(first, Buffer.alloc(0)),
    );
  });

  /** Sends requests one after another on one connection; each block is the whole field section of one. */
  const send = async (blocks: readonly Buffer[]): Promise<void> => {
    await using client = await H2RawClient.open(port);
    for (const [at, block] of blocks.entries()) {
      const parts = Math.ceil(block.length / 16_384);
      for (let part = 0; part < parts; part += 1) {
        const flags = (part === 0 ? flag.endStream : 0) | (part === parts - 1 ? flag.endHeaders : 0);
        const bytes = block.subarray(part * 16_384, (part + 1) * 16_384);
        client.frame(part === 0 ? frameType.headers : frameType.continuation, flags, 2 * at + 1, bytes);
      }
      await client.whenOver(2 * at + 1);
    }
  };
  const block = (field: Field) => encodeFields([...getFields('/never'), field]);

  it.each(names.filter((name) => !/^(?:connection|keep-alive|te|upgrade)$/.test(name)))('of %s', async (name) => {
    for (const unit of ['a,', '://@']) {
      const value = `${beginnings[name] ?? ''}${filled(unit, valueBytes)}`;
      await expectCheap(
        `HTTP/2, ${name}: ${unit}…`,
        () => rounds * valueBytes,
        () => send(Array.from({ length: rounds }, () => block([name, value]))),
        () => send(Array.from({ length: rounds }, () => block([name, 'a']))),
      );
    }
  });

  it.each(['range', 'x-any', 'cookie', 'accept', 'if-none-match', 'cache-control'])(
    'of %s that a later request names by its index, as it is decoded',
    async (name) => {
      const index = encodeInteger(62, 7, 0x80);
      const many = (value: string) => [
        Buffer.concat([encodeFields(getFields('/never')), encodeIndexed([name, value])]),
        ...Array.from({ length: 20 }, () => Buffer.concat([encodeFields(getFields('/never')), index])),
      ];
      for (const unit of ['a,', '"', '://@']) {
        await expectCheap(
          `HTTP/2, ${name} by its index: ${unit}…`,
          () => 20 * 3900,
          () => send(many(filled(unit, 3900))),
          () => send(many('a')),
        );
      }
    },
  );
});

describe('memory that stays for each byte', () => {
  const long = (at: number) => `${at}/${filled('abcd/', 7_900)}`;
  it.each<[kind: string, requestOf: (at: number) => string, count?: number]>([
    ['URLs whose responses are not stored', (at) => requestWith('x', 'a', 'GET', `/${long(at)}`), 3_000],
    ['URLs of ranges', (at) => requestWith('range', 'bytes=5-9', 'GET', `/ranges/${long(at)}`)],
    ['URLs of HEAD', (at) => requestWith('x', 'a', 'HEAD', `/head/${long(at)}`)],
    ['cookies', (at) => requestWith('cookie', `a=${long(at)}`)],
    ['Authorization', (at) => requestWith('authorization', `Bearer ${long(at)}`)],
    ['names of fields', (at) => requestWith(`x-${at}-${filled('abcd-', 7_900)}`, 'a')],
  ])('of %s', async (kind, requestOf, count = 1_200) => {
    const before = await liveBytes();
    const lanes = Array.from({ length: 10 }, async (_, lane) => {
      for (let at = lane; at < count; at += 10) await ask([requestOf(at)]);
    });
    await Promise.all(lanes);
    const kept = ((await liveBytes()) - before) / (count * 8_000);
    if (isPrinting) process.stderr.write(`${kept.toFixed(2)} bytes  ${kind}\n`);
    expect(kept).toBeLessThan(mostKeptBytes);
  });

  it('of uploads that nobody reads, and of requests that wait: bounded while they last, and nothing afterwards', async () => {
    const held = createServer(() => {});
    held.listen(0, '127.0.0.1');
    await once(held, 'listening');
    const other = await mkdtemp(join(tmpdir(), 'rangeway-cost-'));
    const waiting = await startConfigured(other, {
      listen: [{ address: '127.0.0.1:0', http2: true }],
      store: { type: 'memory' },
      routes: [{ origin: `http://127.0.0.1:${(held.address() as AddressInfo).port}` }],
    });
    try {
      const at = Number(new URL(waiting.url).port);
      const before = residentBytes(waiting.pid);
      const clients = await Promise.all(Array.from({ length: 100 }, () => H2RawClient.open(at)));
      for (const client of clients) {
        for (let stream = 1; stream < 200; stream += 2) {
          client.request(stream, stream % 4 === 1 ? getFields(`/${stream}`) : postFields(`/${stream}`), {
            endStream: stream % 4 === 1,
          });
          if (stream % 4 === 3) client.data(stream, 'x');
        }
      }
      await Promise.all(clients.map((client) => client.roundTrip()));
      // 10,000 requests of one client: 4,096 wait, the others are refused.
      const statuses = clients.flatMap((client) =>
        Array.from({ length: 100 }, (_, index) => client.outcome(2 * index + 1).status),
      );
      expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(10_000 - 4_096);
      expect(residentBytes(waiting.pid) - before).toBeLessThan(400e6);
      for (const client of clients) client.socket.destroy();
    } finally {
      await waiting[Symbol.asyncDispose]();
      held.closeAllConnections();
      held.close();
      await rm(other, { recursive: true, force: true });
    }
  });
});
