/** What a connection keeps for its streams: windows, turns and places are given back when a stream is over, however it ends. */

import { queryObjects } from 'node:v8';
import { describe, expect, it } from 'vitest';
import type { ProxyRequest } from '../../src/http/message.ts';
import { initialWindowBytes } from '../../src/listener/http2/frames.ts';
import { UnreadContent } from '../../src/listener/message-body.ts';
import {
  errorCode,
  flag,
  frameBytes as frameOf,
  frameType,
  getFields,
  type H2RawClient,
  postFields,
  setting,
  settingsPayload,
} from '../support/clients/h2-raw-client.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { openH2Server } from '../support/proxies/h2-listener.ts';
import { textResponse } from '../support/proxies/open-listener.ts';

const kibibyte = 1024;
const frameBytes = 16 * kibibyte;
/** The window of a connection before content is read, and afterwards. In bytes. */
const firstBytes = 256 * kibibyte;
const connectionBytes = 1024 * kibibyte;
/** What a stream may send before its body is read, in whole frames. In bytes. */
const unreadBytes = initialWindowBytes - (initialWindowBytes % frameBytes);

/** A client that keeps to the window of its connection; the windows of its streams are the test's. */
class Uploader {
  readonly client: H2RawClient;
  #sentBytes = 0;

  constructor(client: H2RawClient) {
    this.client = client;
  }

  /** What may be sent on all streams together. */
  get windowBytes(): number {
    const updates = this.client.frames.filter(({ type, stream }) => type === frameType.windowUpdate && stream === 0);
    const grantedBytes = updates.reduce((sum, { payload }) => sum + payload.readUInt32BE(0), 0);
    return 65_535 + grantedBytes - this.#sentBytes;
  }

  /** Sends content in whole frames as the window of the connection allows. Returns false where it stays too small. */
  async send(stream: number, sizeBytes: number): Promise<boolean> {
    for (let leftBytes = sizeBytes; leftBytes > 0; ) {
      const partBytes = Math.min(frameBytes, leftBytes);
      // An answered PING shows that the server has read everything; what it grants has come before that.
      if (this.windowBytes < partBytes) await this.client.roundTrip();
      if (this.windowBytes < partBytes) return false;
      this.client.data(stream, Buffer.alloc(partBytes));
      this.#sentBytes += partBytes;
      leftBytes -= partBytes;
    }
    return await this.client.roundTrip();
  }
}

/** Answers after all of the body was read. */
async function readWhole({ body }: ProxyRequest) {
  let sizeBytes = 0;
  for await (const chunk of body ?? []) sizeBytes += chunk.length;
  return textResponse(String(sizeBytes));
}

describe('the window of a connection', () => {
  it('is given back for content beyond a Content-Length', async () => {
    await using server = await openH2Server(() => new Promise(() => {}));
    await using client = await server.connect();
    const uploader = new Uploader(client);
    for (let at = 0; at < (2 * connectionBytes) / frameBytes; at += 1) {
      client.request(2 * at + 1, postFields('/', [['content-length', '1']]), { endStream: false });
      expect(await uploader.send(2 * at + 1, frameBytes)).toBe(true);
      expect(client.outcome(2 * at + 1).resetCode).toBe(errorCode.protocol);
    }
  });

  it('is given back for content that nobody has read when its body is closed', async () => {
    const requests: ProxyRequest[] = [];
    await using server = await openH2Server((request) => {
      requests.push(request);
      return new Promise(() => {});
    });
    await using client = await server.connect();
    const uploader = new Uploader(client);
    for (let at = 0; at < (3 * firstBytes) / unreadBytes; at += 1) {
      client.request(2 * at + 1, postFields(), { endStream: false });
      expect(await uploader.send(2 * at + 1, unreadBytes)).toBe(true);
      requests[at]?.body?.close();
    }
  });

  it('is given back for streams that the client resets', async () => {
    await using server = await openH2Server(() => new Promise(() => {}));
    await using client = await server.connect();
    const uploader = new Uploader(client);
    for (let at = 0; at < (3 * firstBytes) / unreadBytes; at += 1) {
      client.request(2 * at + 1, postFields(), { endStream: false });
      expect(await uploader.send(2 * at + 1, unreadBytes)).toBe(true);
      client.reset(2 * at + 1);
    }
  });

  it('is given back early while streams that are not read hold some of it', async () => {
    await using server = await openH2Server((request) =>
      request.target === '/held' ? new Promise(() => {}) : readWhole(request),
    );
    await using client = await server.connect();
    const uploader = new Uploader(client);
    for (const stream of [1, 3]) {
      client.request(stream, postFields('/held'), { endStream: false });
      expect(await uploader.send(stream, unreadBytes)).toBe(true);
    }
    client.request(5, postFields(), { endStream: false });
    expect(await uploader.send(5, 144 * kibibyte)).toBe(true);
    expect(uploader.windowBytes).toBeGreaterThanOrEqual(initialWindowBytes);
    expect(await uploader.send(5, 4 * connectionBytes)).toBe(true);
    client.data(5, '', { endStream: true });
    expect((await client.whenOver(5)).body.toString()).toBe(String(144 * kibibyte + 4 * connectionBytes));
  });
});

describe('content that is not read', () => {
  it('keeps no more memory than four times its own size, whatever came with it', async () => {
    const requests: ProxyRequest[] = [];
    await using server = await openH2Server((request) => {
      requests.push(request);
      return new Promise(() => {});
    });
    await using client = await server.connect();
    const filler = frameOf(frameType.priority, 0, 999, Buffer.alloc(5));
    for (const [at, sizeBytes] of [1, 100, 5000].entries()) {
      const stream = 2 * at + 1;
      client.request(stream, postFields(), { endStream: false });
      client.send(
        Buffer.concat([
          ...Array.from({ length: 1000 }, () => filler),
          frameOf(frameType.data, 0, stream, Buffer.alloc(sizeBytes, at)),
          ...Array.from({ length: 1000 }, () => filler),
        ]),
      );
      await client.roundTrip();
      const chunk = (await requests[at]?.body?.[Symbol.asyncIterator]().next())?.value as Uint8Array;
      expect(Buffer.alloc(sizeBytes, at).equals(chunk)).toBe(true);
      expect(chunk.buffer.byteLength).toBeLessThanOrEqual(Math.max(64, 4 * sizeBytes));
    }
  });

  it('is at most 64 KiB a stream and 256 KiB a connection, and more only once it is read', async () => {
    await using server = await openH2Server((request) =>
      request.target === '/held' ? new Promise(() => {}) : readWhole(request),
    );
    await using client = await server.connect();
    expect(client.frames.find(({ type }) => type === frameType.settings)?.payload.includes(Buffer.from([0, 4]))).toBe(
      false,
    );
    const uploader = new Uploader(client);
    for (let stream = 1; uploader.windowBytes >= unreadBytes; stream += 2) {
      client.request(stream, postFields('/held'), { endStream: false });
      expect(await uploader.send(stream, unreadBytes)).toBe(true);
    }
    expect(uploader.windowBytes).toBe(firstBytes % unreadBytes);
  });

  it('of one client is at most as much as stays free for all, and a request beyond that gets 429', async () => {
    const unread = new UnreadContent(4 * firstBytes);
    const running: ProxyRequest[] = [];
    await using server = await openH2Server(
      (request) => {
        running.push(request);
        return new Promise(() => {});
      },
      { unread },
    );
    const clients = await Promise.all([1, 2, 3].map(() => server.connect()));
    for (const client of clients.slice(0, 2)) client.request(1, postFields(), { endStream: false });
    for (const client of clients.slice(0, 2)) await client.roundTrip();
    clients[2]?.request(1, postFields(), { endStream: false });
    clients[2]?.data(1, 'unread');
    const refused = await clients[2]?.whenOver(1);
    expect(refused?.status).toBe(429);
    expect(refused?.fields).toContainEqual(['retry-after', '1']);
    // A request without content is served, and another client has its own share.
    clients[2]?.request(3, getFields());
    await clients[2]?.roundTrip();
    expect(running).toHaveLength(3);
    expect(unread.take('192.0.2.1', firstBytes, 1)).toBe(true);
    unread.giveBack('192.0.2.1', firstBytes);
    // What is over gives its share back.
    clients[0]?.reset(1);
    await clients[0]?.roundTrip();
    clients[2]?.request(5, postFields(), { endStream: false });
    await clients[2]?.roundTrip();
    expect(running).toHaveLength(4);
    for (const client of clients) await client[Symbol.asyncDispose]();
    await expect.poll(() => server.sockets.size).toBe(0);
    expect(unread.take('127.0.0.1', 2 * firstBytes, 1)).toBe(true);
  });
});

it('a stream that is reset while it waits for the window of its connection is forgotten', async () => {
  class Marker {}
  const settled: number[] = [];
  await using server = await openH2Server(() => {
    const marker = new Marker();
    const chunk = Buffer.alloc(128 * kibibyte);
    return {
      status: 200,
      fields: [],
      body: { kind: 'bytes', sizeBytes: chunk.length, chunks: [chunk] },
      onDelivered: ({ bytesSent }) => settled.push(bytesSent, Number(marker instanceof Marker)),
    };
  });
  await using client = await server.connect();
  for (let stream = 1; stream < 400; stream += 2) {
    client.request(stream, getFields());
    client.reset(stream);
  }
  await client.roundTrip();
  expect(settled).toHaveLength(400);
  server.requests.length = 0;
  expect(queryObjects(Marker, { format: 'count' })).toBeLessThan(10);
});

it('a response that its client does not take in time gives its place back, though its request has not ended', async () => {
  const clock = createFakeClock();
  const limits = { idleTimeoutMs: 10_000, streamsPerConnection: 1 };
  const fields = Array.from({ length: 100 }, (_, at) => [`x-${at}`, 'x'.repeat(60 * kibibyte)] as const);
  const delivered: boolean[] = [];
  await using server = await openH2Server(
    ({ target }) =>
      target === '/next'
        ? textResponse('next')
        : { status: 204, fields, body: { kind: 'none' }, onDelivered: ({ complete }) => delivered.push(complete) },
    { now: clock.now, after: clock.after, limits },
  );
  await using client = await server.connect();
  client.socket.pause();
  client.request(1, postFields(), { endStream: false });
  await expect.poll(() => server.requests.length).toBe(1);
  for (let step = 0; step < 3; step += 1) clock.advance(5_000);
  expect(delivered).toEqual([false]);
  client.socket.resume();
  client.request(3, getFields('/next'));
  expect((await client.whenOver(3)).status).toBe(200);
  expect(client.outcome(1)).toMatchObject({ isEnded: true, resetCode: errorCode.none });
});

describe('a client that makes its header table smaller', () => {
  /** The first bytes of the field sections that the client got on each of these streams. */
  const firstBytes = (client: H2RawClient, streams: readonly number[]) =>
    streams.map(
      (wanted) => client.frames.find(({ type, stream }) => type === frameType.headers && stream === wanted)?.payload[0],
    );

  it('is told at the beginning of the next field section that ours is empty (RFC 9113 §4.3.1)', async () => {
    await using server = await openH2Server(() => textResponse('x'));
    // The client begins with a table of no bytes.
    await using client = await server.connect();
    for (const stream of [1, 3]) {
      client.request(stream, getFields());
      await client.whenOver(stream);
    }
    client.frame(frameType.settings, 0, 0, settingsPayload([setting.tableSize, 8192]));
    client.request(5, getFields());
    await client.whenOver(5);
    client.frame(frameType.settings, 0, 0, settingsPayload([setting.tableSize, 100], [setting.tableSize, 200]));
    client.request(7, getFields());
    await client.whenOver(7);
    client.request(9, getFields());
    await client.whenOver(9);
    const [update, status] = [0x20, 0x88];
    expect(firstBytes(client, [1, 3, 5, 7, 9])).toEqual([update, status, status, update, status]);
    expect(client.outcome(7)).toMatchObject({ status: 200, isEnded: true });
  });
});

it('GOAWAY never names a later stream than an earlier GOAWAY (RFC 9113 §6.8)', async () => {
  await using server = await openH2Server(() => new Promise(() => {}));
  await using client = await server.connect();
  client.request(1, getFields());
  await expect.poll(() => server.requests.length).toBe(1);
  server.server.drain();
  await client.until(() => client.goawayCode !== undefined);
  client.request(3, getFields());
  client.frame(frameType.ping, 0, 0, Buffer.alloc(1));
  await client.closed;
  const goaways = client.frames.filter(({ type }) => type === frameType.goaway);
  expect(goaways.map(({ payload }) => [payload.readUInt32BE(0), payload.readUInt32BE(4)])).toEqual([
    [1, errorCode.none],
    [1, errorCode.frameSize],
  ]);
});

it('requests beyond what their client takes wait, even those of one write', async () => {
  const field = ['x', 'x'.repeat(16 * kibibyte)] as const;
  await using server = await openH2Server(() => textResponse('', { fields: [field] }));
  await using client = await server.connect();
  client.socket.pause();
  const count = 1_500;
  client.socket.cork();
  // A literal with indexing first; then the fields are a byte each.
  for (let at = 0; at < count; at += 1) {
    const section = Buffer.from([0x82, 0x86, 0x84, ...(at === 0 ? [0x41, 1, 0x61] : [0xbe])]);
    client.frame(frameType.headers, flag.endHeaders | flag.endStream, 2 * at + 1, section);
  }
  client.socket.uncork();
  await expect.poll(() => server.requests.length).toBeGreaterThan(0);
  const [socket] = server.sockets;
  await expect.poll(() => socket?.isPaused()).toBe(true);
  expect(socket?.writableLength).toBeLessThan(1024 * kibibyte);
  client.socket.resume();
  await client.whenOver(2 * count - 1);
  const heads = client.frames.filter(({ type }) => type === frameType.headers);
  expect(heads).toHaveLength(count);
});
