/**
 * Asks the worker that holds the lease of a key, on behalf of a request, and reads the representation that it answers with.
 * Each answer has a connection of its own: backpressure, cancellation and the end of the other worker are those of the
 * connection.
 */

import type { Span } from '../bytes/span.ts';
import type { Answer, ByteReader, Relay, Representation } from '../cache/answer.ts';
import { type Fleet, HolderLost, type PeerAnswer, type Version } from '../cache/fleet.ts';
import type { Inquiry } from '../cache/inquiry.ts';
import type { Clock } from '../http/clock.ts';
import type { Fields } from '../http/fields.ts';
import type { BodyStream, InterimResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Remote, SupervisorCalls } from './channel.ts';
import { LeaseClient, type NamedHolder } from './leases.ts';
import {
  type DataFrame,
  type Frame,
  type FrameKind,
  frameKinds,
  PeerLine,
  readData,
  readValue,
} from './peer-connection.ts';
import { describeInquiry, reviveFailure, type ToldAnswer, type ToldFailure, type ToldRelay } from './peer-messages.ts';

/**
 * Creates it. `supervisor` keeps the table of leases and brings news to all; who has a lease is asked over its own socket
 * (`openPeerServer`).
 */
export function createPeerFleet(supervisor: Remote<SupervisorCalls>, clock: Pick<Clock, 'after'>): Fleet {
  const leases = new LeaseClient({
    supervisor,
    reach: (instance, path) => createPeerHolder(instance, path, clock),
  });
  return {
    acquire: (key, signal, lost) => leases.acquire(key, signal, lost),
    hold: (key) => leases.hold(key),
    // Whoever has nobody to tell any more ends soon.
    tell: (news) => supervisor.tell(news).catch(() => undefined),
  };
}

/** Another process, by the name that the supervisor knows it by, and reached over a Unix socket. */
export function createPeerHolder(instance: string, path: string, clock: Pick<Clock, 'after'>): NamedHolder {
  const holder: NamedHolder = {
    instance,
    answer: async (inquiry, version) => {
      const line = new PeerLine({ path, clock, createLoss: () => new HolderLost(holder) });
      try {
        return await askOver(line, inquiry, version);
      } catch (thrown) {
        line.close();
        throw thrown;
      }
    },
  };
  return holder;
}

async function askOver(line: PeerLine, inquiry: Inquiry, version?: Version): Promise<PeerAnswer | undefined> {
  line.send(frameKinds.ask, describeInquiry(inquiry, version));
  const told = await receiveAnswer(line, inquiry);
  if (told.kind === 'none' || told.kind === 'own-way') line.close();
  if (told.kind === 'none') return undefined;
  const { unshared, refusal } = told;
  return { unshared, refusal, answer: told.kind === 'own-way' ? undefined : createAnswer(told, line) };
}

async function receiveAnswer(line: PeerLine, { request, onInterim }: Inquiry): Promise<ToldAnswer> {
  for (;;) {
    const frame = await line.next(request.signal);
    switch (frame.kind) {
      case frameKinds.answer:
        return readValue<ToldAnswer>(frame);
      case frameKinds.interim:
        onInterim(readValue<InterimResponse>(frame));
        break;
      case frameKinds.failed:
        throw reviveFailure(readValue<ToldFailure>(frame));
      default:
        throw new ProxyError('internal', { detail: `a frame ${frame.kind} in place of an answer` });
    }
  }
}

function createAnswer(told: Extract<ToldAnswer, { kind: 'representation' | 'relay' }>, line: PeerLine): Answer {
  const bytes = new PeerBytes(line);
  const facts = { ...told.facts, originBytes: () => bytes.originBytes };
  if (told.kind === 'relay') return { ...facts, kind: 'relay', relay: createPeerRelay(told.relay, bytes) };
  const representation = createPeerRepresentation(told, line, bytes);
  return { ...facts, kind: 'representation', isReuse: told.isReuse, representation };
}

/** What is told of whether bytes are there. Plain data. */
export interface ToldPresence {
  readonly isPresent: boolean;
  readonly sizeBytes: number | undefined;
}

/** What was told of it. */
type Told = Pick<Extract<ToldAnswer, { kind: 'representation' }>, 'response' | 'generation' | 'sizeBytes'>;

/** Makes a representation of what was told; its bytes come over the line, which is closed with it. */
function createPeerRepresentation(told: Told, line: PeerLine, bytes: PeerBytes): Representation {
  return new PeerRepresentation(told, line, bytes);
}

class PeerRepresentation implements Representation {
  readonly response: Told['response'];
  readonly generation: string | undefined;
  readonly #line: PeerLine;
  readonly #bytes: PeerBytes;
  #sizeBytes: number | undefined;
  #isOpened = false;

  constructor({ response, generation, sizeBytes }: Told, line: PeerLine, bytes: PeerBytes) {
    this.response = response;
    this.generation = generation;
    this.#sizeBytes = sizeBytes;
    this.#line = line;
    this.#bytes = bytes;
  }

  get sizeBytes(): number | undefined {
    return this.#bytes.end?.sizeBytes ?? this.#sizeBytes;
  }

  peek(): undefined {
    return undefined;
  }

  async open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    this.#isOpened = true;
    try {
      this.#line.send(frameKinds.open, spans);
      await this.#reply(frameKinds.opened, signal);
      return createPeerReader(this.#bytes);
    } catch (thrown) {
      this.#line.close();
      throw thrown;
    }
  }

  async whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    this.#line.send(frameKinds.present, end);
    const { isPresent, sizeBytes } = readValue<ToldPresence>(await this.#reply(frameKinds.presence, signal));
    this.#sizeBytes = sizeBytes;
    return isPresent;
  }

  close(): void {
    if (!this.#isOpened) this.#line.close();
  }

  /** Whoever has asked for presence may have left since: its answer is passed over. */
  async #reply(kind: FrameKind, signal: AbortSignal): Promise<Frame> {
    for (;;) {
      const frame = await this.#line.next(signal);
      if (frame.kind === kind) return frame;
      if (frame.kind === frameKinds.failed) throw reviveFailure(readValue<ToldFailure>(frame));
      if (frame.kind !== frameKinds.presence) throw new ProxyError('internal', { detail: `a frame ${frame.kind}` });
    }
  }
}

/** What the end of the bytes tells. Plain data. */
export interface ToldEnd {
  /** The length of the representation, where it is known by now. */
  readonly sizeBytes: number | undefined;
  readonly trailers: Fields | undefined;
  readonly originBytes: number;
}

/** The bytes of one answer. */
class PeerBytes {
  readonly #line: PeerLine;
  readonly #closing = new AbortController();
  #data: DataFrame | undefined;
  /** Up to where of it was given. */
  #givenTo = 0;
  /** What was told at the end, once that has come. */
  end: ToldEnd | undefined;
  /** Bytes of body that the origin has sent because of this request. */
  originBytes = 0;

  constructor(line: PeerLine) {
    this.#line = line;
  }

  /** Bytes from `offset` on that have come. */
  peek(offset: number, end: number): Uint8Array | undefined {
    this.#moveTo(offset);
    const chunk = this.#data === undefined ? undefined : cut(this.#data, offset, end);
    if (chunk !== undefined) this.#givenTo = offset + chunk.length;
    return chunk;
  }

  /** Undefined at the end. Rejects with `ProxyError`, or with `HolderLost`. */
  async read(offset: number, end: number): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = this.peek(offset, end);
      if (chunk !== undefined) return chunk;
      if (this.end !== undefined) return undefined;
      await this.#receive();
    }
  }

  /** The next bytes, whichever they are; undefined at the end. Rejects as `read` does. */
  async next(): Promise<Uint8Array | undefined> {
    while (this.#data === undefined && this.end === undefined) await this.#receive();
    const bytes = this.#data?.bytes;
    this.#data = undefined;
    return bytes;
  }

  close(): void {
    this.#closing.abort(new ProxyError('client_gone'));
    this.#line.close();
  }

  /** Drops what was given, where the next place that is asked for is not in it: the next span may lie anywhere. */
  #moveTo(offset: number): void {
    if (this.#data === undefined) return;
    const dataEnd = this.#data.offset + this.#data.bytes.length;
    const isIn = this.#data.offset <= offset && offset < dataEnd;
    if (!isIn && (offset >= dataEnd || this.#givenTo >= dataEnd)) this.#data = undefined;
  }

  async #receive(): Promise<void> {
    const frame = await this.#line.next(this.#closing.signal);
    switch (frame.kind) {
      case frameKinds.data:
        this.#data = readData(frame);
        this.#givenTo = 0;
        this.originBytes = this.#data.originBytes;
        break;
      case frameKinds.end:
        this.end = readValue<ToldEnd>(frame);
        this.originBytes = this.end.originBytes;
        break;
      case frameKinds.failed:
        throw reviveFailure(readValue<ToldFailure>(frame));
      default:
      // What was asked for before, and is not waited for any more.
    }
  }
}

function cut({ offset, bytes }: DataFrame, from: number, end: number): Uint8Array {
  if (from < offset) throw new ProxyError('internal', { detail: `byte ${from} was asked for, and ${offset} came` });
  return bytes.subarray(from - offset, end - offset);
}

/** Reads a representation until it is closed. */
function createPeerReader(bytes: PeerBytes): ByteReader {
  return {
    peek: (offset, end) => bytes.peek(offset, end),
    read: (offset, end) => bytes.read(offset, end),
    close: () => bytes.close(),
  };
}

/** A response that is passed on from another process, which passes it on from the origin. */
function createPeerRelay({ response, hasTrailers, ...told }: ToldRelay, bytes: PeerBytes): Relay {
  const body: BodyStream = {
    trailers: hasTrailers ? () => bytes.end?.trailers ?? [] : undefined,
    close: () => bytes.close(),
    [Symbol.asyncIterator]: () => chunksOf(bytes),
  };
  return { ...told, response: { ...response, body } };
}

async function* chunksOf(bytes: PeerBytes): AsyncGenerator<Uint8Array, void> {
  for (let chunk = await bytes.next(); chunk !== undefined; chunk = await bytes.next()) yield chunk;
}
