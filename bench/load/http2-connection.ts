/**
 * One HTTP/2 connection of the load, over TLS. It reads only the status, the number of body bytes, and the end of each stream.
 * It sets the size of the dynamic table to 0 (RFC 7541 §4.2), so that every head can be read by itself.
 */

import { performance } from 'node:perf_hooks';
import { connect, type TLSSocket } from 'node:tls';
import { testAuthority } from '../../test/support/values/tls-certificate.ts';
import { type ConnectionPlan, commonCipher } from './load-connection.ts';

/** Concurrent requests on each connection. */
export const streamsPerConnection = 4;

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
const frameHeadBytes = 9;
const frame = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goAway: 7, windowUpdate: 8 } as const;
const flag = { ack: 1, endStream: 1, endHeaders: 4 } as const;
const largestWindow = 2 ** 31 - 1;
const firstWindow = 65_535;

/** The first byte of a header section whose status is in the static table (RFC 7541 Appendix A). */
const indexedStatus: Readonly<Record<number, number>> = { 200: 0x88, 206: 0x8a, 304: 0x8b };

interface Stream {
  readonly askedAt: number;
  receivedBytes: number;
}

export class Http2LoadConnection {
  answers = 0;
  bytes = 0;
  failures = 0;
  readonly #plan: ConnectionPlan<Http2LoadConnection>;
  readonly #socket: TLSSocket;
  readonly #streams = new Map<number, Stream>();
  #nextStream = 1;
  /** The beginning of a frame that is not complete. */
  #rest: Buffer = Buffer.alloc(0);
  /** Bytes missing from the DATA frame that is being read, its stream, and whether the frame ends the stream. */
  #dataLeft = 0;
  #dataStream = 0;
  #dataEnds = false;
  #windowUsed = 0;

  constructor(port: number, plan: ConnectionPlan<Http2LoadConnection>) {
    this.#plan = plan;
    const place = { host: '127.0.0.1', port, noDelay: true, ca: testAuthority, ciphers: commonCipher };
    this.#socket = connect({ ...place, ALPNProtocols: ['h2'] }, () => this.#begin());
    this.#socket.on('data', (bytes: Buffer) => this.#read(bytes));
    this.#socket.once('error', () => {
      this.failures += 1;
    });
    this.#socket.once('end', () => this.#fail());
  }

  ask(dueAt: number = performance.now()): void {
    this.#streams.set(this.#nextStream, { askedAt: dueAt, receivedBytes: 0 });
    this.#socket.write(headersFrame(this.#nextStream, this.#plan.nextRequest()));
    this.#nextStream += 2;
  }

  #begin(): void {
    const settings = Buffer.alloc(18);
    for (const [index, [name, value]] of [[1, 0] as const, [2, 0] as const, [4, largestWindow] as const].entries()) {
      settings.writeUInt16BE(name, index * 6);
      settings.writeUInt32BE(value, index * 6 + 2);
    }
    this.#socket.write(preface);
    this.#send(frame.settings, 0, 0, settings);
    this.#openWindow(largestWindow - firstWindow);
    for (let count = 0; count < streamsPerConnection; count += 1) this.#plan.onReady(this);
  }

  #openWindow(sizeBytes: number): void {
    const payload = Buffer.alloc(4);
    payload.writeUInt32BE(sizeBytes);
    this.#send(frame.windowUpdate, 0, 0, payload);
  }

  #send(type: number, flags: number, stream: number, payload: Uint8Array): void {
    this.#socket.write(Buffer.concat([frameHead(payload.length, type, flags, stream), payload]));
  }

  #read(received: Buffer): void {
    let bytes = this.#rest.length === 0 ? received : Buffer.concat([this.#rest, received]);
    this.#rest = Buffer.alloc(0);
    while (bytes.length > 0) {
      if (this.#dataLeft > 0) {
        const size = Math.min(this.#dataLeft, bytes.length);
        this.#takeData(size);
        bytes = bytes.subarray(size);
        continue;
      }
      if (bytes.length < frameHeadBytes) break;
      const size = bytes.readUIntBE(0, 3);
      const type = bytes[3] ?? 0;
      if (type !== frame.data && bytes.length < frameHeadBytes + size) break;
      const stream = bytes.readUInt32BE(5);
      const flags = bytes[4] ?? 0;
      if (type === frame.data) {
        this.#beginData(stream, size, (flags & flag.endStream) !== 0);
        bytes = bytes.subarray(frameHeadBytes);
        continue;
      }
      this.#take(type, flags, stream, bytes.subarray(frameHeadBytes, frameHeadBytes + size));
      bytes = bytes.subarray(frameHeadBytes + size);
    }
    this.#rest = bytes;
  }

  #beginData(stream: number, size: number, ends: boolean): void {
    this.#dataStream = stream;
    this.#dataLeft = size;
    this.#dataEnds = ends;
    if (size === 0) this.#takeData(0);
  }

  #takeData(size: number): void {
    this.#dataLeft -= size;
    this.bytes += size;
    this.#windowUsed += size;
    if (this.#windowUsed > largestWindow / 4) {
      this.#openWindow(this.#windowUsed);
      this.#windowUsed = 0;
    }
    const stream = this.#streams.get(this.#dataStream);
    if (stream === undefined) {
      this.#fail();
      return;
    }
    stream.receivedBytes += size;
    if (this.#dataLeft === 0 && this.#dataEnds) this.#end(this.#dataStream, stream);
  }

  #take(type: number, flags: number, id: number, payload: Buffer): void {
    if (type === frame.settings && (flags & flag.ack) === 0) this.#send(frame.settings, flag.ack, 0, Buffer.alloc(0));
    if (type === frame.ping && (flags & flag.ack) === 0) this.#send(frame.ping, flag.ack, 0, payload);
    if (type === frame.reset || type === frame.goAway) this.#fail();
    if (type !== frame.headers) return;
    // Updates of the table size may come before the status (RFC 7541 §6.3).
    const at = payload.findIndex((byte) => byte >> 5 !== 1);
    const stream = this.#streams.get(id);
    if (stream === undefined || payload[at] !== indexedStatus[this.#plan.status]) this.#fail();
    else if ((flags & flag.endStream) !== 0) this.#end(id, stream);
  }

  #end(id: number, { askedAt, receivedBytes }: Stream): void {
    this.#streams.delete(id);
    if (receivedBytes !== (this.#plan.isHead ? 0 : this.#plan.bodyBytes)) {
      this.#fail();
      return;
    }
    this.answers += 1;
    this.#plan.onAnswer(performance.now() - askedAt);
    this.#plan.onReady(this);
  }

  #fail(): void {
    this.failures += 1;
    this.#socket.destroy();
  }
}

function frameHead(size: number, type: number, flags: number, stream: number): Buffer {
  const head = Buffer.allocUnsafe(frameHeadBytes);
  head.writeUIntBE(size, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return head;
}

/** Converts an HTTP/1.1 request to a HEADERS frame that ends its stream, with literals without indexing (RFC 7541 §6.2.2). */
function headersFrame(stream: number, text: string): Buffer {
  const [requestLine = '', ...lines] = text.split('\r\n');
  const [method = '', path = ''] = requestLine.split(' ');
  // A literal takes at most seven bytes besides its text.
  const bytes = Buffer.allocUnsafe(frameHeadBytes + text.length + 7 * (lines.length + 4) + 40);
  let at = frameHeadBytes;
  const writeText = (value: string) => {
    if (value.length < 127) bytes[at++] = value.length;
    else {
      bytes[at++] = 127;
      let rest = value.length - 127;
      for (; rest >= 128; rest >>= 7) bytes[at++] = (rest & 127) | 128;
      bytes[at++] = rest;
    }
    at += bytes.write(value, at, 'latin1');
  };
  const write = (name: string, value: string) => {
    bytes[at++] = 0;
    writeText(name);
    writeText(value);
  };
  write(':method', method);
  write(':path', path);
  write(':scheme', 'https');
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon < 0) continue;
    const name = line.slice(0, colon).toLowerCase();
    if (name !== 'connection') write(name === 'host' ? ':authority' : name, line.slice(colon + 2));
  }
  frameHead(at - frameHeadBytes, frame.headers, flag.endStream | flag.endHeaders, stream).copy(bytes);
  return bytes.subarray(0, at);
}
