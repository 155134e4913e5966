/**
 * Many streams of random sizes on one connection, with random windows, settings, padding, resets and slow reading: every byte and
 * every window is right, and afterwards nothing is left. Each seed is one course of events, up to the order in which bytes arrive.
 */

import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { BodyStream, Delivery, Handler, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { toProxyError } from '../../src/http/proxy-error.ts';
import { decodeFields } from '../support/clients/h2-hpack.ts';
import {
  errorCode,
  type Frame,
  flag,
  frameType,
  getFields,
  type H2RawClient,
  postFields,
  setting,
  settingsPayload,
} from '../support/clients/h2-raw-client.ts';
import { openH2Server } from '../support/proxies/h2-listener.ts';
import { textResponse } from '../support/proxies/open-listener.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const kibibyte = 1024;
const mostBytes = 200 * kibibyte;
const seeds = [1, 2];

/** Returns whole numbers from 0 to `below` (exclusive), the same ones for the same seed (mulberry32). */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** Memory that bodies lend. What comes back is overwritten at once: a client that gets it afterwards gets wrong bytes. */
class Lender {
  /** Chunks that were lent and have not come back. */
  readonly lent = new Set<Uint8Array>();

  body(sizeBytes: number, chunkBytes: number, isSlow: boolean): BodyStream {
    const { lent } = this;
    return {
      async *[Symbol.asyncIterator]() {
        for (let at = 0; at < sizeBytes; at += chunkBytes) {
          if (isSlow) await setImmediate();
          const chunk = patternBytes(at, Math.min(at + chunkBytes, sizeBytes));
          lent.add(chunk);
          yield chunk;
        }
      },
      giveBack(chunk) {
        expect(lent.delete(chunk)).toBe(true);
        chunk.fill(0xee);
      },
      close() {},
    };
  }
}

interface Site {
  readonly handler: Handler;
  /** The deliveries of all responses, by target. */
  readonly deliveries: Map<string, Delivery[]>;
  /** The lent chunks that a complete response has not given back. */
  readonly keptAfterWhole: string[];
}

/** Answers `/number/kind/size/chunk`, and uploads with their size. */
function createSite(): Site {
  const deliveries = new Map<string, Delivery[]>();
  const keptAfterWhole: string[] = [];
  const answerTo = async ({ target, body }: ProxyRequest): Promise<ProxyResponse> => {
    const [, , kind, size, chunk] = target.split('/');
    const sizeBytes = Number(size);
    if (kind === 'upload') {
      let at = 0;
      for await (const bytes of body ?? []) {
        expect(Buffer.compare(bytes, patternBytes(at, at + bytes.length))).toBe(0);
        at += bytes.length;
        if (at > Number(chunk)) await setImmediate();
      }
      return textResponse(`${at} bytes`);
    }
    if (kind === 'refuse') return textResponse('refused', { status: 413 });
    if (kind === 'bytes') {
      const bytes = patternBytes(0, sizeBytes);
      const giveBack = () => bytes.fill(0xee);
      return { status: 200, fields: [], body: { kind: 'bytes', sizeBytes, chunks: [bytes], giveBack } };
    }
    const own = new Lender();
    const stream = own.body(sizeBytes, Number(chunk), kind === 'slow');
    return {
      status: 200,
      fields: [],
      body: { kind: 'stream', sizeBytes: kind === 'slow' ? undefined : sizeBytes, stream },
      onDelivered: ({ complete }) => {
        if (complete && own.lent.size > 0) keptAfterWhole.push(target);
      },
    };
  };
  const handler: Handler = (request) =>
    answerTo(request)
      .catch((thrown) => textResponse(toProxyError(thrown).code, { status: 400 }))
      .then((response) => ({
        ...response,
        onDelivered(delivery) {
          response.onDelivered?.(delivery);
          const earlier = deliveries.get(request.target);
          if (earlier === undefined) deliveries.set(request.target, [delivery]);
          else earlier.push(delivery);
        },
      }));
  return { handler, deliveries, keptAfterWhole };
}

/** One stream, as its client sees it. */
interface Stream {
  readonly kind: string;
  readonly sizeBytes: number;
  windowBytes: number;
  gotBytes: number;
  status: number | undefined;
  text: string;
  isEnded: boolean;
  resetCode: number | undefined;
  isResetByClient: boolean;
  /** What is left to upload; undefined where the client has ended its side. */
  uploadAt: number | undefined;
}

/** A client that opens streams at random, keeps to the windows that it has, and checks that the server keeps to its own. */
class StormClient {
  readonly client: H2RawClient;
  readonly streams = new Map<number, Stream>();
  readonly #scheme: 'http' | 'https';
  readonly #random: (below: number) => number;
  #next = 1;
  #windowBytes = 65_535;
  #initialBytes = 65_535;
  /** The initial windows that the server has not acknowledged. */
  readonly #announced: (number | undefined)[] = [];
  #uploadBytes = 65_535;

  constructor(client: H2RawClient, scheme: 'http' | 'https', random: (below: number) => number) {
    this.client = client;
    this.#scheme = scheme;
    this.#random = random;
  }

  get open(): [number, Stream][] {
    return [...this.streams].filter(([, { isEnded, resetCode, isResetByClient }]) => {
      return !isEnded && resetCode === undefined && !isResetByClient;
    });
  }

  /** Takes all frames that have arrived. */
  take(): void {
    for (const frame of this.client.frames.splice(0)) this.#takeFrame(frame);
  }

  #takeFrame({ type, flags, stream: id, payload }: Frame): void {
    if (type === frameType.goaway) throw new Error(`GOAWAY with ${payload.readUInt32BE(4)}`);
    if (type === frameType.settings && flags === flag.ack) this.#apply(this.#announced.shift());
    if (type === frameType.windowUpdate && id === 0) this.#uploadBytes += payload.readUInt32BE(0);
    const stream = this.streams.get(id);
    if (stream === undefined) {
      // Content of a stream that the client has reset, which was under way.
      if (type === frameType.data) this.#windowBytes -= payload.length;
      return;
    }
    if (type === frameType.reset) {
      expect(stream.resetCode).toBeUndefined();
      stream.resetCode = payload.readUInt32BE(0);
      stream.uploadAt = undefined;
    }
    if (type === frameType.headers) this.#takeHead(stream, payload);
    if (type === frameType.data) this.#takeContent(id, stream, payload);
    if (type === frameType.headers || type === frameType.data) stream.isEnded = (flags & flag.endStream) !== 0;
  }

  #takeHead(stream: Stream, section: Buffer): void {
    expect([stream.isEnded, stream.resetCode, stream.status]).toEqual([false, undefined, undefined]);
    stream.status = Number(decodeFields(section).find(([name]) => name === ':status')?.[1]);
  }

  #takeContent(id: number, stream: Stream, bytes: Buffer): void {
    expect([stream.isEnded, stream.resetCode, bytes.length <= 16_384]).toEqual([false, undefined, true]);
    this.#windowBytes -= bytes.length;
    stream.windowBytes -= bytes.length;
    if (bytes.length > 0) expect(Math.min(this.#windowBytes, stream.windowBytes)).toBeGreaterThanOrEqual(0);
    if (stream.kind === 'upload' || stream.kind === 'refuse') stream.text += bytes.toString('latin1');
    else {
      const wanted = patternBytes(stream.gotBytes, stream.gotBytes + bytes.length);
      if (Buffer.compare(bytes, wanted) !== 0) throw new Error(`wrong bytes at ${stream.gotBytes} of stream ${id}`);
    }
    stream.gotBytes += bytes.length;
  }

  #apply(initialBytes: number | undefined): void {
    if (initialBytes === undefined) return;
    for (const stream of this.streams.values()) stream.windowBytes += initialBytes - this.#initialBytes;
    this.#initialBytes = initialBytes;
  }

  announce(...settings: [number, number][]): void {
    this.client.frame(frameType.settings, 0, 0, settingsPayload(...settings));
    this.#announced.push(settings.find(([id]) => id === setting.windowSize)?.[1]);
  }

  grant(id: number, sizeBytes: number): void {
    const stream = this.streams.get(id);
    if (id === 0) this.#windowBytes += sizeBytes;
    else if (stream !== undefined) stream.windowBytes += sizeBytes;
    this.client.windowUpdate(id, sizeBytes);
  }

  begin(): void {
    const random = this.#random;
    const kind = ['bytes', 'stream', 'slow', 'upload', 'refuse', 'bytes', 'stream'][random(7)] as string;
    const isUpload = kind === 'upload' || kind === 'refuse';
    const sizeBytes = random(3) === 0 ? random(100) : random(mostBytes);
    const id = this.#next;
    this.#next += 2;
    this.streams.set(id, {
      kind,
      sizeBytes,
      windowBytes: this.#initialBytes,
      gotBytes: 0,
      status: undefined,
      text: '',
      isEnded: false,
      resetCode: undefined,
      isResetByClient: false,
      uploadAt: isUpload ? 0 : undefined,
    });
    const path = `/${id}/${kind}/${sizeBytes}/${1 + random(40 * kibibyte)}`;
    const length = random(2) === 0 ? [] : [['content-length', String(sizeBytes)] as const];
    const fields = isUpload ? postFields(path, length) : getFields(path);
    const asked = fields.map(([name, value]) => [name, name === ':scheme' ? this.#scheme : value] as const);
    this.client.request(id, asked, { endStream: !isUpload });
  }

  /** Sends a frame of an upload, with or without padding. Streams never need more than their first window. */
  upload(id: number, stream: Stream): void {
    const random = this.#random;
    const at = stream.uploadAt ?? 0;
    const paddingBytes = random(4) === 0 ? 1 + random(200) : 0;
    const partBytes = Math.min(stream.sizeBytes - at, random(8) === 0 ? 1 : random(15 * kibibyte));
    if (partBytes + paddingBytes > this.#uploadBytes) return;
    this.#uploadBytes -= partBytes + paddingBytes;
    const isLast = at + partBytes === stream.sizeBytes;
    const content = patternBytes(at, at + partBytes);
    const padding = Buffer.alloc(Math.max(0, paddingBytes - 1));
    const payload = paddingBytes === 0 ? content : Buffer.concat([Buffer.from([padding.length]), content, padding]);
    const flags = (paddingBytes === 0 ? 0 : flag.padded) | (isLast ? flag.endStream : 0);
    this.client.frame(frameType.data, flags, id, payload);
    stream.uploadAt = isLast ? undefined : at + partBytes;
  }

  reset(id: number, stream: Stream): void {
    stream.isResetByClient = true;
    stream.uploadAt = undefined;
    this.client.reset(id, errorCode.cancel);
    // Frames that are under way are not checked.
    this.streams.delete(id);
  }

  /** One random step. */
  step(): void {
    const random = this.#random;
    const { open } = this;
    const [id, stream] = open[random(Math.max(1, open.length))] ?? [];
    const action = random(20);
    if (id === undefined || stream === undefined || (action < 4 && open.length < 40)) this.begin();
    else if (action < 12 && stream.uploadAt !== undefined) this.upload(id, stream);
    else if (action < 14) this.grant(id, 1 + random(60 * kibibyte));
    else if (action < 17) this.grant(0, 1 + random(60 * kibibyte));
    else if (action === 17 && random(4) === 0) this.reset(id, stream);
    else if (action === 18 && random(3) === 0) this.announce([setting.windowSize, random(3) * random(60 * kibibyte)]);
    else if (action === 19 && random(3) === 0) this.announce([setting.tableSize, random(5000)]);
  }

  /** Opens all windows, and ends all uploads. */
  async finish(): Promise<void> {
    this.announce([setting.windowSize, mostBytes]);
    this.grant(0, 2 ** 29);
    for (const [id] of this.open) this.grant(id, mostBytes + 256 * kibibyte);
    while (this.open.length > 0) {
      for (const [id, stream] of this.open) if (stream.uploadAt !== undefined) this.upload(id, stream);
      if (!(await this.client.roundTrip())) throw new Error('the connection is closed');
      this.take();
    }
  }
}

/** Takes the frames that have come until the server answers a PING, which `take` must not remove before it was seen. */
async function catchUp(storm: StormClient): Promise<void> {
  expect(await storm.client.roundTrip()).toBe(true);
  storm.take();
}

it.each(seeds.flatMap((seed) => [false, true].map((tls) => [seed, tls ? 'TLS' : 'TCP', tls] as const)))(
  'a storm of streams, seed %i, over %s',
  async (seed, _carrier, tls) => {
    const random = numbersFrom(seed);
    const { handler, deliveries, keptAfterWhole } = createSite();
    await using server = await openH2Server(handler, { tls });
    await using client = await server.connect();
    const storm = new StormClient(client, tls ? 'https' : 'http', random);
    storm.take();
    for (let round = 0; round < 150; round += 1) {
      if (random(10) === 0) client.socket.pause();
      for (let left = random(40); left > 0; left -= 1) storm.step();
      if (client.socket.isPaused()) for (let turns = random(20); turns > 0; turns -= 1) await setImmediate();
      client.socket.resume();
      await catchUp(storm);
    }
    await storm.finish();
    for (const [id, { kind, sizeBytes, status, gotBytes, text, isEnded }] of storm.streams) {
      const seen = { id, kind, status, isEnded, text, gotBytes };
      if (kind === 'refuse') expect(seen).toMatchObject({ status: 413, isEnded: true, text: 'refused' });
      else if (kind === 'upload')
        expect(seen).toMatchObject({ status: 200, isEnded: true, text: `${sizeBytes} bytes` });
      else expect(seen).toMatchObject({ status: 200, isEnded: true, gotBytes: sizeBytes });
    }
    await expect.poll(() => deliveries.size).toBe(server.requests.length);
    expect([...deliveries.values()].every(({ length }) => length === 1)).toBe(true);
    expect(keptAfterWhole).toEqual([]);
    expect(storm.streams.size).toBeGreaterThan(100);
    // The server has no stream left: it ends an idle connection at once.
    server.server.drain();
    await client.closed;
    await expect.poll(() => server.sockets.size).toBe(0);
    expect(server.server.cut()).toBe(0);
  },
);
