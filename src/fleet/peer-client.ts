/**
 * Asks the worker that holds the lease of a key, on behalf of a request, and reads the representation that it answers with.
 * Each answer has its own connection. So backpressure and cancellation work per answer, and a dead worker is noticed at once.
 */

import { connect } from 'node:net';
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
  type PeerLineOptions,
  readData,
  readValue,
} from './peer-connection.ts';
import {
  describeInquiry,
  type FailureMessage,
  type PeerAnswerMessage,
  type RelayMessage,
  reviveFailure,
} from './peer-messages.ts';

/**
 * Creates the fleet as a worker sees it. `supervisor` keeps the lease table and relays invalidation messages. The holder of a lease
 * is asked over its own socket (`openPeerServer`).
 */
export function createPeerFleet(supervisor: Remote<SupervisorCalls>, clock: Pick<Clock, 'after'>): Fleet {
  const leases = new LeaseClient({
    supervisor,
    reach: (instance, path) => createPeerHolder(instance, path, clock),
  });
  return {
    acquire: (key, signal, lost) => leases.acquire(key, signal, lost),
    hold: (key) => leases.hold(key),
    // Fails only when the supervisor is gone. Then this worker ends soon, too.
    announce: (news) => supervisor.announce(news).catch(() => undefined),
  };
}

/** Creates a holder: another process, by the name that the supervisor has for it, reached over the Unix socket at `path`. */
export function createPeerHolder(instance: string, path: string, clock: Pick<Clock, 'after'>): NamedHolder {
  return createHolderOver(instance, { connect: () => connect(path), clock });
}

/** Creates a holder: another process, by the name that the keeper of the leases has for it, and how it is reached. */
export function createHolderOver(instance: string, reach: Omit<PeerLineOptions, 'createLoss'>): NamedHolder {
  const holder: NamedHolder = {
    instance,
    answer: async (inquiry, version) => {
      const line = new PeerLine({ ...reach, createLoss: () => new HolderLost(holder) });
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
  const reply = await receiveAnswer(line, inquiry);
  if (reply.kind === 'none' || reply.kind === 'own-way') line.close();
  if (reply.kind === 'none') return undefined;
  const { unshared, refusal } = reply;
  return { unshared, refusal, answer: reply.kind === 'own-way' ? undefined : createAnswer(reply, line) };
}

async function receiveAnswer(line: PeerLine, { request, onInterim }: Inquiry): Promise<PeerAnswerMessage> {
  for (;;) {
    const frame = await line.next(request.signal);
    switch (frame.kind) {
      case frameKinds.answer:
        return readValue<PeerAnswerMessage>(frame);
      case frameKinds.interim:
        onInterim(readValue<InterimResponse>(frame));
        break;
      case frameKinds.failed:
        throw reviveFailure(readValue<FailureMessage>(frame));
      default:
        throw new ProxyError('internal', { detail: `expected an answer, got a frame of kind ${frame.kind}` });
    }
  }
}

function createAnswer(reply: Extract<PeerAnswerMessage, { kind: 'representation' | 'relay' }>, line: PeerLine): Answer {
  const bytes = new PeerBytes(line);
  const facts = { ...reply.facts, originBytes: () => bytes.originBytes };
  if (reply.kind === 'relay') return { ...facts, kind: 'relay', relay: createPeerRelay(reply.relay, bytes) };
  const representation = createPeerRepresentation(reply, line, bytes);
  return { ...facts, kind: 'representation', isReuse: reply.isReuse, representation };
}

/** Whether bytes are present, as it is sent. Plain data. */
export interface ToldPresence {
  readonly isPresent: boolean;
  readonly sizeBytes: number | undefined;
}

/** The parts of an answer that a representation is created from. */
type AnswerHead = Pick<Extract<PeerAnswerMessage, { kind: 'representation' }>, 'response' | 'generation' | 'sizeBytes'>;

/** Creates a representation from an answer. Its bytes come over the line, which is closed with it. */
function createPeerRepresentation(head: AnswerHead, line: PeerLine, bytes: PeerBytes): Representation {
  return new PeerRepresentation(head, line, bytes);
}

class PeerRepresentation implements Representation {
  readonly response: AnswerHead['response'];
  readonly generation: string | undefined;
  readonly #line: PeerLine;
  readonly #bytes: PeerBytes;
  #sizeBytes: number | undefined;
  #isOpened = false;

  constructor({ response, generation, sizeBytes }: AnswerHead, line: PeerLine, bytes: PeerBytes) {
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

  async whenStored(offset: number, end: number, signal: AbortSignal): Promise<number> {
    this.#line.send(frameKinds.stored, { start: offset, end });
    return readValue<number>(await this.#reply(frameKinds.storedTo, signal));
  }

  close(): void {
    if (!this.#isOpened) this.#line.close();
  }

  /** Waits for a reply, and skips replies to earlier `whenPresent` and `whenStored` calls that were aborted. */
  async #reply(kind: FrameKind, signal: AbortSignal): Promise<Frame> {
    for (;;) {
      const frame = await this.#line.next(signal);
      if (frame.kind === kind) return frame;
      if (frame.kind === frameKinds.failed) throw reviveFailure(readValue<FailureMessage>(frame));
      if (frame.kind !== frameKinds.presence && frame.kind !== frameKinds.storedTo)
        throw new ProxyError('internal', { detail: `unexpected frame kind ${frame.kind}` });
    }
  }
}

/** Sent after the last byte. Plain data. */
export interface ToldEnd {
  /** The length of the representation; undefined where it is not known yet. */
  readonly sizeBytes: number | undefined;
  readonly trailers: Fields | undefined;
  readonly originBytes: number;
}

/** The bytes of one answer. */
class PeerBytes {
  readonly #line: PeerLine;
  readonly #closing = new AbortController();
  #data: DataFrame | undefined;
  /** End (exclusive) of the bytes of `#data` that were given to the reader. */
  #readTo = 0;
  /** Set once all bytes have arrived. */
  end: ToldEnd | undefined;
  /** Bytes of body that the origin has sent because of this request. */
  originBytes = 0;

  constructor(line: PeerLine) {
    this.#line = line;
  }

  /** Returns bytes from `offset` on, up to `end` (exclusive), that have arrived. */
  peek(offset: number, end: number): Uint8Array | undefined {
    this.#moveTo(offset);
    const chunk = this.#data === undefined ? undefined : cut(this.#data, offset, end);
    if (chunk !== undefined) this.#readTo = offset + chunk.length;
    return chunk;
  }

  /** Returns bytes as `peek` does, and waits for them. Undefined at the end. Rejects with `ProxyError`, or with `HolderLost`. */
  async read(offset: number, end: number): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = this.peek(offset, end);
      if (chunk !== undefined) return chunk;
      if (this.end !== undefined) return undefined;
      await this.#receive();
    }
  }

  /** Returns the next bytes, whatever their offset; undefined at the end. Rejects as `read` does. */
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

  /** Drops the current data where `offset` is outside of it, unless it is still unread and lies ahead: the next span may be anywhere. */
  #moveTo(offset: number): void {
    if (this.#data === undefined) return;
    const dataEnd = this.#data.offset + this.#data.bytes.length;
    const isIn = this.#data.offset <= offset && offset < dataEnd;
    if (!isIn && (offset >= dataEnd || this.#readTo >= dataEnd)) this.#data = undefined;
  }

  async #receive(): Promise<void> {
    const frame = await this.#line.next(this.#closing.signal);
    switch (frame.kind) {
      case frameKinds.data:
        this.#data = readData(frame);
        this.#readTo = 0;
        this.originBytes = this.#data.originBytes;
        break;
      case frameKinds.end:
        this.end = readValue<ToldEnd>(frame);
        this.originBytes = this.end.originBytes;
        break;
      case frameKinds.failed:
        throw reviveFailure(readValue<FailureMessage>(frame));
      default:
      // A reply to an earlier call that was aborted.
    }
  }
}

function cut({ offset, bytes }: DataFrame, from: number, end: number): Uint8Array {
  if (from < offset) throw new ProxyError('internal', { detail: `expected byte ${from}, got byte ${offset}` });
  return bytes.subarray(from - offset, end - offset);
}

/** Creates a reader of a representation. Closing it ends the answer. */
function createPeerReader(bytes: PeerBytes): ByteReader {
  return {
    peek: (offset, end) => bytes.peek(offset, end),
    read: (offset, end) => bytes.read(offset, end),
    close: () => bytes.close(),
  };
}

/** Creates a relay of a response that another process relays from the origin. */
function createPeerRelay({ response, hasTrailers, ...rest }: RelayMessage, bytes: PeerBytes): Relay {
  const body: BodyStream = {
    trailers: hasTrailers ? () => bytes.end?.trailers ?? [] : undefined,
    close: () => bytes.close(),
    [Symbol.asyncIterator]: () => chunksOf(bytes),
  };
  return { ...rest, response: { ...response, body } };
}

async function* chunksOf(bytes: PeerBytes): AsyncGenerator<Uint8Array, void> {
  for (let chunk = await bytes.next(); chunk !== undefined; chunk = await bytes.next()) yield chunk;
}
