/** An HTTP/2 client that sends arbitrary frames over a real connection, and reads frames one by one. */

import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Field } from '../../../src/http/fields.ts';
import { testAuthority } from '../values/tls-certificate.ts';
import { decodeFields, encodeFields } from './h2-hpack.ts';

/** Frame types (RFC 9113 §6). */
export const frameType = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

/** Flags by name. A bit may have other names in other frame types. */
export const flag = { ack: 0x1, endStream: 0x1, endHeaders: 0x4, padded: 0x8, priority: 0x20 } as const;

/** Error codes (RFC 9113 §7). */
export const errorCode = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  settingsTimeout: 4,
  streamClosed: 5,
  frameSize: 6,
  refused: 7,
  cancel: 8,
  compression: 9,
  connect: 10,
  calm: 11,
} as const;

/** Settings (RFC 9113 §6.5.2). */
export const setting = {
  tableSize: 1,
  enablePush: 2,
  maxStreams: 3,
  windowSize: 4,
  frameSize: 5,
  headerListSize: 6,
} as const;

/** The default SETTINGS_MAX_FRAME_SIZE (RFC 9113 §6.5.2), in bytes. */
const frameBytesAtMost = 16_384;

export const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

/** What a client has received on a stream: its heads, its content, and its end. */
export interface StreamOutcome {
  readonly status: number | undefined;
  readonly fields: readonly Field[];
  /** Heads of interim responses. */
  readonly interim: readonly (readonly Field[])[];
  readonly body: Buffer;
  readonly trailers: readonly Field[];
  readonly isEnded: boolean;
  readonly resetCode: number | undefined;
}

/** Encodes a frame; `lengthBytes` may be false. */
export function frameBytes(
  type: number,
  flags: number,
  stream: number,
  payload: Uint8Array = Buffer.alloc(0),
  lengthBytes = payload.length,
): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(lengthBytes, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream >>> 0, 5);
  return Buffer.concat([head, payload]);
}

/** Encodes settings as a payload. */
export function settingsPayload(...settings: readonly (readonly [id: number, value: number])[]): Buffer {
  return Buffer.concat(settings.map(([id, value]) => Buffer.concat([uint16(id), uint32(value)])));
}

/** Encodes numbers with four bytes each. */
export function uint32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value >>> 0, 4 * at);
  return bytes;
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

/** Returns the fields of a GET over a connection without TLS. */
export function getFields(path = '/', more: readonly Field[] = []): Field[] {
  return [[':method', 'GET'], [':scheme', 'http'], [':authority', 'a'], [':path', path], ...more];
}

/** Returns the fields of a POST without Content-Length. */
export function postFields(path = '/', more: readonly Field[] = []): Field[] {
  return [[':method', 'POST'], [':scheme', 'http'], [':authority', 'a'], [':path', path], ...more];
}

/** One connection. */
export class H2RawClient implements AsyncDisposable {
  readonly socket: Socket;
  /** All received frames. */
  readonly frames: Frame[] = [];
  /** Resolves when the connection is closed, with the code of its error, if any. */
  readonly closed: Promise<string | undefined>;
  /** Whether it acknowledges PING and SETTINGS. */
  isPolite = true;
  #rest: Buffer = Buffer.alloc(0);
  #isClosed = false;
  #onFrame: (() => void) | undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    let code: string | undefined;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    this.closed = promise;
    socket.on('error', (error: NodeJS.ErrnoException) => (code = error.code ?? error.message));
    socket.on('close', () => {
      this.#isClosed = true;
      this.#onFrame?.();
      resolve(code);
    });
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
  }

  /** Connects, and sends no HTTP/2 bytes. */
  static async connect(port: number, { tls = false } = {}): Promise<H2RawClient> {
    const options = { port, host: '127.0.0.1', noDelay: true };
    const socket = tls
      ? connectTls({ ...options, ALPNProtocols: ['h2'], ca: testAuthority, servername: 'localhost' })
      : connect(options);
    await new Promise<void>((resolve, reject) => {
      socket.once(tls ? 'secureConnect' : 'connect', resolve);
      socket.once('error', reject);
    });
    return new H2RawClient(socket);
  }

  /** Connects, sends preface and SETTINGS (a header table of size 0, and these), and waits for their acknowledgement. */
  static async open(
    port: number,
    { tls = false, settings = [] }: { tls?: boolean; settings?: readonly (readonly [number, number])[] } = {},
  ): Promise<H2RawClient> {
    const client = await H2RawClient.connect(port, { tls });
    client.send(preface);
    client.frame(frameType.settings, 0, 0, settingsPayload([setting.tableSize, 0], ...settings));
    await client.until(() =>
      client.frames.some(({ type, flags }) => type === frameType.settings && flags === flag.ack),
    );
    return client;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  send(bytes: string | Uint8Array): void {
    if (this.socket.destroyed) return;
    if (typeof bytes === 'string') this.socket.write(bytes, 'latin1');
    else this.socket.write(bytes);
  }

  frame(type: number, flags: number, stream: number, payload?: Uint8Array, lengthBytes?: number): void {
    this.send(frameBytes(type, flags, stream, payload, lengthBytes));
  }

  /** Sends the head of a request; by default it ends the stream. */
  request(stream: number, fields: readonly Field[], { endStream = true } = {}): void {
    const block = encodeFields(fields);
    const ending = endStream ? flag.endStream : 0;
    const last = Math.max(0, Math.ceil(block.length / frameBytesAtMost) - 1);
    for (let part = 0; part <= last; part += 1) {
      const payload = block.subarray(part * frameBytesAtMost, (part + 1) * frameBytesAtMost);
      const flags = (part === 0 ? ending : 0) | (part === last ? flag.endHeaders : 0);
      this.frame(part === 0 ? frameType.headers : frameType.continuation, flags, stream, payload);
    }
  }

  data(stream: number, content: string | Uint8Array, { endStream = false } = {}): void {
    this.frame(frameType.data, endStream ? flag.endStream : 0, stream, Buffer.from(content as string, 'latin1'));
  }

  reset(stream: number, code: number = errorCode.cancel): void {
    this.frame(frameType.reset, 0, stream, uint32(code));
  }

  windowUpdate(stream: number, increment: number): void {
    this.frame(frameType.windowUpdate, 0, stream, uint32(increment));
  }

  /** Waits until `isSo` returns true; calls it after each chunk. Returns false where the connection is closed first. */
  async until(isSo: () => boolean): Promise<boolean> {
    for (;;) {
      if (isSo()) return true;
      if (this.#isClosed) return false;
      await new Promise<void>((resolve) => (this.#onFrame = resolve));
    }
  }

  /** Sends a PING and waits for its acknowledgement: then the peer has read all earlier frames. Returns false if closed. */
  async roundTrip(): Promise<boolean> {
    const payload = Buffer.alloc(8);
    payload.writeUInt32BE(this.frames.length + 1, 4);
    this.frame(frameType.ping, 0, 0, payload);
    return await this.until(() =>
      this.frames.some(
        (frame) => frame.type === frameType.ping && frame.flags === flag.ack && frame.payload.equals(payload),
      ),
    );
  }

  /** The error code of the last GOAWAY, if any. */
  get goawayCode(): number | undefined {
    return this.frames.findLast(({ type }) => type === frameType.goaway)?.payload.readUInt32BE(4);
  }

  /** Returns what was received on a stream so far. */
  outcome(stream: number): StreamOutcome {
    const frames = this.frames.filter((frame) => frame.stream === stream);
    const sections = fieldSections(frames).map(decodeFields);
    const statusOf = (fields: readonly Field[]): number => Number(fields.find(([name]) => name === ':status')?.[1]);
    const final = sections.findIndex((fields) => statusOf(fields) >= 200);
    const fields = sections[final];
    const content = frames.filter(({ type }) => type === frameType.data).map(({ payload }) => payload);
    const ending = (({ type, flags }) =>
      (type === frameType.data || type === frameType.headers) && (flags & flag.endStream) !== 0) as (
      f: Frame,
    ) => boolean;
    return {
      status: fields === undefined ? undefined : statusOf(fields),
      fields: fields ?? [],
      interim: final < 0 ? sections : sections.slice(0, final),
      body: Buffer.concat(content),
      trailers: final < 0 ? [] : sections.slice(final + 1).flat(),
      isEnded: frames.some(ending),
      resetCode: frames.find(({ type }) => type === frameType.reset)?.payload.readUInt32BE(0),
    };
  }

  /** Waits until a stream has ended or the connection is closed. */
  async whenOver(stream: number): Promise<StreamOutcome> {
    await this.until(() => {
      const { isEnded, resetCode } = this.outcome(stream);
      return isEnded || resetCode !== undefined;
    });
    return this.outcome(stream);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.closed;
  }

  #take(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (this.#rest.length >= 9) {
      const end = 9 + this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < end) break;
      const [type, flags] = [this.#rest.readUInt8(3), this.#rest.readUInt8(4)];
      const frame = { type, flags, stream: this.#rest.readUInt32BE(5), payload: this.#rest.subarray(9, end) };
      this.#rest = this.#rest.subarray(end);
      this.frames.push(frame);
      this.#answer(frame);
    }
    this.#onFrame?.();
  }

  #answer({ type, flags, payload }: Frame): void {
    if (!this.isPolite || flags === flag.ack) return;
    if (type === frameType.settings) this.frame(frameType.settings, flag.ack, 0);
    if (type === frameType.ping) this.frame(frameType.ping, flag.ack, 0, payload);
  }
}

/** Returns the field sections of a stream, joined from HEADERS and CONTINUATION. */
function fieldSections(frames: readonly Frame[]): Buffer[] {
  const sections: Buffer[] = [];
  for (const { type, payload } of frames) {
    if (type === frameType.headers) sections.push(payload);
    else if (type === frameType.continuation)
      sections.push(Buffer.concat([sections.pop() ?? Buffer.alloc(0), payload]));
  }
  return sections;
}
