/** HTTP/2 floods: the connection of the flooding client ends, and other connections are not affected. */

import { describe, expect, it } from 'vitest';
import { encodeFields, encodeIndexed, encodeInteger } from '../support/clients/h2-hpack.ts';
import {
  errorCode,
  flag,
  frameBytes,
  frameType,
  getFields,
  H2RawClient,
  postFields,
  settingsPayload,
  uint32,
} from '../support/clients/h2-raw-client.ts';
import { openH2Server, type TestH2Server } from '../support/proxies/h2-listener.ts';
import { textResponse } from '../support/proxies/open-listener.ts';

const block = encodeFields(getFields('/never'));
const headers = (stream: number, bytes: Uint8Array = block) =>
  frameBytes(frameType.headers, flag.endHeaders | flag.endStream, stream, bytes);
const reset = (stream: number) => frameBytes(frameType.reset, 0, stream, uint32(errorCode.cancel));
const repeated = (part: Buffer, count: number) => Buffer.concat(Array.from({ length: count }, () => part));

function server(): Promise<TestH2Server> {
  return openH2Server(({ target, body }) => {
    if (target === '/never') return new Promise(() => {});
    void body;
    return textResponse('well', target === '/no' ? { status: 404 } : {});
  });
}

/** Sends parts until the connection is gone, at most `most`. Returns the number of parts sent. */
async function pour(client: H2RawClient, most: number, part: (round: number) => Uint8Array): Promise<number> {
  let round = 0;
  for (; round < most && !client.socket.destroyed; round += 1) {
    if (!client.socket.write(part(round))) {
      await new Promise<void>((resolve) => {
        client.socket.once('drain', resolve);
        client.socket.once('close', () => resolve());
      });
    } else await new Promise<void>((resolve) => setImmediate(resolve));
  }
  return round;
}

/** The part of a flood by its round, a number of parts that is certainly too many, and whether the server reports a refusal. */
const floods: readonly (readonly [string, (round: number) => Uint8Array, number, boolean])[] = [
  [
    'streams that are reset at once (CVE-2023-44487)',
    (round) => Buffer.concat([headers(2 * round + 1), reset(2 * round + 1)]),
    3_000,
    true,
  ],
  [
    'streams that are reset while a handler works on them',
    (round) => Buffer.concat([headers(2 * round + 1), round < 50 ? Buffer.alloc(0) : reset(2 * round - 99)]),
    3_000,
    true,
  ],
  [
    'streams that the server must reset (CVE-2025-8671): content that is too long',
    (round) =>
      Buffer.concat([
        frameBytes(
          frameType.headers,
          flag.endHeaders,
          2 * round + 1,
          encodeFields(postFields('/never', [['content-length', '1']])),
        ),
        frameBytes(frameType.data, 0, 2 * round + 1, Buffer.from('too long')),
      ]),
    3_000,
    true,
  ],
  [
    'streams that the server must reset (CVE-2025-8671): trailers without END_STREAM',
    (round) =>
      Buffer.concat([
        frameBytes(frameType.headers, flag.endHeaders, 2 * round + 1, encodeFields(postFields('/never'))),
        frameBytes(frameType.headers, flag.endHeaders, 2 * round + 1, encodeFields([['x', 'y']])),
      ]),
    3_000,
    true,
  ],
  [
    'malformed requests',
    (round) => headers(2 * round + 1, encodeFields([...getFields(), ['Upper', 'x']])),
    200_000,
    false,
  ],
  ['PING', () => repeated(frameBytes(frameType.ping, 0, 0, Buffer.alloc(8)), 500), 200_000, false],
  ['SETTINGS', () => repeated(frameBytes(frameType.settings, 0, 0, settingsPayload([0x99, 1])), 500), 200_000, false],
  ['PRIORITY', () => repeated(frameBytes(frameType.priority, 0, 1, Buffer.from([0, 0, 0, 3, 1])), 500), 200_000, false],
  ['WINDOW_UPDATE', () => repeated(frameBytes(frameType.windowUpdate, 0, 0, uint32(1)), 500), 200_000, false],
  ['unknown frames', () => repeated(frameBytes(0x77, 0, 0, Buffer.alloc(100)), 100), 200_000, false],
  [
    'empty DATA',
    (round) =>
      Buffer.concat([
        round === 0
          ? frameBytes(frameType.headers, flag.endHeaders, 1, encodeFields(postFields('/never')))
          : Buffer.alloc(0),
        repeated(frameBytes(frameType.data, 0, 1), 500),
      ]),
    200_000,
    false,
  ],
  [
    'padding',
    (round) =>
      Buffer.concat([
        round === 0
          ? frameBytes(frameType.headers, flag.endHeaders, 1, encodeFields(postFields('/never')))
          : Buffer.alloc(0),
        repeated(
          frameBytes(frameType.data, flag.padded, 1, Buffer.concat([Buffer.from([255]), Buffer.alloc(255)])),
          50,
        ),
      ]),
    200_000,
    false,
  ],
  [
    'RST_STREAM of closed streams',
    (round) => (round === 0 ? Buffer.concat([headers(1, encodeFields(getFields()))]) : repeated(reset(1), 500)),
    200_000,
    false,
  ],
];

describe('a flood of', () => {
  it.each(floods)('%s ends its connection, and no other', async (_name, part, most, isCounted) => {
    await using listener = await server();
    await using bystander = await listener.connect();
    await using client = await listener.connect();
    const rounds = await pour(client, most, part);
    await client.closed;
    expect(rounds).toBeLessThan(most);
    if (isCounted) {
      expect(listener.requests.length).toBeLessThan(1_000);
      expect(listener.events.some(({ kind }) => kind === 'refusal')).toBe(true);
    }
    bystander.request(1, getFields());
    expect((await bystander.whenOver(1)).status).toBe(200);
    bystander.socket.destroy();
    await expect.poll(() => listener.sockets.size).toBe(0);
    expect(listener.requests.filter(({ target }) => target === '/never').every(({ signal }) => signal.aborted)).toBe(
      true,
    );
  });

  it('streams that are reset counts for its client, over however many connections; another client goes on', async () => {
    await using listener = await openH2Server(() => new Promise(() => {}), { now: () => 0, addressOf: () => address });
    let address = '127.0.0.1';
    let connections = 0;
    let code: number | undefined;
    for (; code === undefined && connections < 10; connections += 1) {
      await using client = await listener.connect();
      for (let stream = 1; stream < 601; stream += 2) client.send(Buffer.concat([headers(stream), reset(stream)]));
      await client.roundTrip();
      code = client.goawayCode;
    }
    expect({ connections, code }).toEqual({ connections: 3, code: errorCode.calm });
    expect(listener.requests.length).toBeLessThanOrEqual(601);
    address = '192.0.2.1';
    await using other = await listener.connect();
    other.send(Buffer.concat([headers(1), reset(1)]));
    expect(await other.roundTrip()).toBe(true);
  });

  it('streams that are reset is answered with ENHANCE_YOUR_CALM', async () => {
    await using listener = await server();
    await using client = await listener.connect();
    for (let stream = 1; stream < 2_001 && !client.isClosed; stream += 2) {
      client.send(Buffer.concat([headers(stream), reset(stream)]));
      if (stream % 20 === 1) await client.roundTrip();
    }
    await client.closed;
    expect(client.goawayCode).toBe(errorCode.calm);
    expect(listener.events).toEqual([expect.objectContaining({ kind: 'refusal', status: 429, error: 'rate_limited' })]);
  });
});

describe('a connection goes on after', () => {
  it('a page of 60 pictures that is reloaded twice a second, before any picture comes', async () => {
    let now = 0;
    await using listener = await openH2Server(() => new Promise(() => {}), { now: () => now });
    await using client = await listener.connect();
    for (let reload = 0; reload < 100; reload += 1) {
      const streams = Array.from({ length: 60 }, (_, at) => 2 * (60 * reload + at) + 1);
      for (const stream of streams) client.send(headers(stream));
      for (const stream of streams) client.send(reset(stream));
      await expect.poll(() => listener.requests.length).toBe(60 * (reload + 1));
      now += 500;
    }
    expect(await client.roundTrip()).toBe(true);
    expect(client.goawayCode).toBeUndefined();
  });

  it('a thousand streams that are reset over 100 seconds', async () => {
    let now = 0;
    await using listener = await openH2Server(() => new Promise(() => {}), { now: () => now });
    await using client = await listener.connect();
    for (let stream = 1; stream < 2_001; stream += 2) {
      client.send(Buffer.concat([headers(stream), reset(stream)]));
      now += 100;
      if (stream % 100 === 1) expect(await client.roundTrip()).toBe(true);
    }
    expect(client.goawayCode).toBeUndefined();
  });

  it('uploads that are refused', async () => {
    await using listener = await openH2Server(() => textResponse('no', { status: 413 }));
    await using client = await listener.connect();
    for (let stream = 1; stream < 101; stream += 2) {
      client.request(stream, postFields(), { endStream: false });
      client.data(stream, 'x'.repeat(16_000));
      client.data(stream, 'x'.repeat(4_000));
      expect((await client.whenOver(stream)).status).toBe(413);
    }
    expect(await client.roundTrip()).toBe(true);
  });

  it('a large download with a window that is opened in small steps', async () => {
    const body = Buffer.alloc(4_000_000);
    await using listener = await openH2Server(() => ({
      status: 200,
      fields: [],
      body: { kind: 'bytes', sizeBytes: body.length, chunks: [body] },
    }));
    await using client = await listener.connect();
    client.request(1, getFields());
    let seen = 0;
    await client.until(() => {
      const { body: got, isEnded } = client.outcome(1);
      for (; seen < got.length; seen += 1_000) {
        client.windowUpdate(0, 1_000);
        client.windowUpdate(1, 1_000);
      }
      return isEnded;
    });
    expect(client.outcome(1).body.length).toBe(body.length);
  });
});

describe('header lists that grow when they are decoded', () => {
  it.each<[string, () => Buffer]>([
    [
      'one large field, repeated by its index',
      () =>
        Buffer.concat([
          block,
          encodeIndexed(['x', 'y'.repeat(4_000)]),
          ...Array.from({ length: 10_000 }, () => encodeInteger(62, 7, 0x80)),
        ]),
    ],
    ['many small fields', () => Buffer.concat([block, repeated(encodeFields([['x', 'y']]), 2_000)])],
  ])('%s: never reach a handler', async (_name, bytes) => {
    await using listener = await server();
    await using client = await listener.connect();
    const list = bytes();
    const flags = list.length > 16_384 ? flag.endStream : flag.endStream | flag.endHeaders;
    client.frame(frameType.headers, flags, 1, list.subarray(0, 16_384));
    for (let at = 16_384; at < list.length; at += 16_384) {
      const isLast = at + 16_384 >= list.length;
      client.frame(frameType.continuation, isLast ? flag.endHeaders : 0, 1, list.subarray(at, at + 16_384));
    }
    await Promise.race([client.whenOver(1), client.closed]);
    expect([431, undefined]).toContain(client.outcome(1).status);
    expect(listener.requests).toEqual([]);
  });
});

it('a client that never reads its answers is disconnected', async () => {
  await using listener = await server();
  await using client = await H2RawClient.connect(listener.port);
  client.isPolite = false;
  client.send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  client.frame(frameType.settings, 0, 0);
  client.socket.pause();
  const ping = repeated(frameBytes(frameType.ping, 0, 0, Buffer.alloc(8)), 1_000);
  const rounds = await pour(client, 5_000, () => ping);
  expect(rounds).toBeLessThan(5_000);
  client.socket.resume();
  await client.closed;
});
