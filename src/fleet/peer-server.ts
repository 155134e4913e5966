/**
 * Answers other workers about the keys whose leases this worker holds. Each question has its own session, which lasts until the
 * last byte is sent.
 */

import { chmod, stat, unlink } from 'node:fs/promises';
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Span } from '../bytes/span.ts';
import type { Answer, Relay, Representation } from '../cache/answer.ts';
import type { Cache } from '../cache/cache.ts';
import type { AdmissionContext } from '../guard/admit.ts';
import type { Clock } from '../http/clock.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { ToldEnd, ToldPresence } from './peer-client.ts';
import {
  type Frame,
  type FrameKind,
  FrameReader,
  formatDataHead,
  formatFrame,
  frameKinds,
  readValue,
} from './peer-connection.ts';
import {
  createPeerInquiry,
  describeAnswer,
  describeFailure,
  type PeerInquiry,
  type PeerQuestion,
} from './peer-messages.ts';

/**
 * Length of the accept queue, as far as the system allows. All requests that waited for one lease connect in the same tick, and a
 * worker whose connection is refused takes this process for lost.
 */
const BACKLOG = 65_535;

/** Options of a peer server. */
export interface PeerServerOptions extends PeerSessionOptions {
  /** The directory of the sockets. No other user may enter it. */
  readonly dir: string;
  /** Identifies this process among all workers that ever ran in the fleet. */
  readonly instance: string;
}

/** Accepts the questions of other workers. */
export interface PeerServer {
  /** Cuts the running answers; the other workers continue elsewhere. Resolves when nothing is left open. */
  close(): Promise<void>;
}

/** Returns the path of the socket of a process. */
export function peerSocketPath(dir: string, instance: string): string {
  return join(dir, instance);
}

/** Opens the socket of a process. Rejects with Node's error, or with `Error` where other users may enter the directory. */
export async function openPeerServer(options: PeerServerOptions): Promise<PeerServer> {
  const { dir, instance } = options;
  await expectOwn(dir);
  const path = peerSocketPath(dir, instance);
  const sessions = new Set<Socket>();
  const server = createServer((socket) => {
    sessions.add(socket);
    socket.once('close', () => sessions.delete(socket));
    servePeer(socket, options);
  });
  await listenForPeers(server, { path });
  // The directory keeps other users out already; the permissions of the socket do, too.
  await chmod(path, 0o600);
  return {
    close: async () => {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      for (const socket of sessions) socket.destroy();
      await closed;
      // Node may have removed it already.
      await unlink(path).catch(() => {});
    },
  };
}

/** Rejects where other users may reach the sockets: messages from them are trusted. */
async function expectOwn(dir: string): Promise<void> {
  const { mode, uid } = await stat(dir);
  if ((mode & 0o077) !== 0 || uid !== process.geteuid?.()) {
    throw new Error(
      `The directory ${dir} of the sockets between processes must belong to this user alone (mode 0700).`,
    );
  }
}

/** Listens with an accept queue that is long enough for all requests that wait for a lease. Rejects with Node's error. */
export function listenForPeers(server: Server, place: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ ...place, backlog: BACKLOG }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Interval of the frames that show that this worker is alive, in milliseconds. */
const BEAT_MS = 3_000;
/** Maximum number of bytes in a data frame. */
const MAX_DATA_BYTES = 256 * 1024;

/** Answers the question that comes over a connection. The peer at its other end is trusted. */
export function servePeer(socket: Socket, options: PeerSessionOptions): void {
  new PeerSession(socket, options).begin();
}

/**
 * Bytes that a worker is told at once to be in the store. They count as sent to its client, which may leave before it has read
 * them.
 */
const MAX_TOLD_BYTES = 4 * 1024 * 1024;

/** Options of a session. */
export interface PeerSessionOptions {
  readonly cache: Pick<Cache, 'answerPeer'>;
  /** The active rules. */
  readonly admission: () => Pick<AdmissionContext, 'router' | 'gateOf'>;
  readonly clock: Pick<Clock, 'after'>;
}

/** One connection. */
class PeerSession {
  readonly #socket: Socket;
  readonly #options: PeerSessionOptions;
  readonly #reader = new FrameReader();
  /** Aborted when the other worker is gone. */
  readonly #gone = new AbortController();
  #stopBeating: () => void = () => {};
  #onSent: PeerInquiry['onSent'] = () => {};
  #answer: Answer | undefined;
  /** Aborts the current wait for presence. */
  #waiting: AbortController | undefined;

  constructor(socket: Socket, options: PeerSessionOptions) {
    this.#socket = socket;
    this.#options = options;
  }

  /** Begins to read questions and to send beats. */
  begin(): void {
    const socket = this.#socket;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    // The `close` event follows.
    socket.on('error', () => {});
    socket.on('close', () => this.#leave());
    this.#beat();
  }

  #receive(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.read(chunk)) this.#take(frame);
    } catch {
      this.#socket.destroy();
    }
  }

  #take(frame: Frame): void {
    switch (frame.kind) {
      case frameKinds.ask:
        return void this.#attempt(() => this.#ask(readValue<PeerQuestion>(frame)));
      case frameKinds.open:
        return void this.#attempt(() => this.#open(readValue<readonly Span[]>(frame)));
      case frameKinds.present:
        return void this.#attempt(() => this.#wait(readValue<number>(frame)));
      case frameKinds.stored:
        return void this.#attempt(() => this.#waitStored(readValue<Span>(frame)));
      default:
        throw new RangeError(`Unexpected frame kind ${frame.kind}.`);
    }
  }

  /** Performs a step. A failure is sent, and ends the answer. */
  async #attempt(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (thrown) {
      this.#send(frameKinds.failed, describeFailure(toProxyError(thrown)));
    }
  }

  async #ask(question: PeerQuestion): Promise<void> {
    const { cache, admission } = this.#options;
    const { signal } = this.#gone;
    const asker = { signal, onInterim: (interim: unknown) => this.#send(frameKinds.interim, interim) };
    const taken = createPeerInquiry(question, admission(), asker);
    const peerAnswer = taken && (await cache.answerPeer(taken.inquiry, question.given));
    this.#onSent = taken?.onSent ?? this.#onSent;
    this.#answer = peerAnswer?.answer;
    if (signal.aborted) return this.#giveBack();
    this.#send(frameKinds.answer, describeAnswer(peerAnswer));
    if (peerAnswer?.answer?.kind === 'relay') await this.#passOn(peerAnswer.answer.relay);
  }

  async #open(spans: readonly Span[]): Promise<void> {
    this.#waiting?.abort();
    const representation = this.#representation();
    const { signal } = this.#gone;
    const reader = await representation.open(spans, signal).finally(() => representation.close());
    // A read that waits has no purpose once the other worker is gone.
    signal.addEventListener('abort', () => reader.close(), { once: true });
    try {
      this.#send(frameKinds.opened);
      for (const { start, end } of spans) {
        for (let offset = start; offset < end; ) {
          signal.throwIfAborted();
          const chunk = reader.peek(offset, end) ?? (await reader.read(offset, end));
          if (chunk === undefined) break;
          await this.#sendBytes(chunk, offset);
          offset += chunk.length;
        }
      }
      this.#sendEnd({ sizeBytes: representation.sizeBytes, trailers: undefined });
    } finally {
      reader.close();
    }
  }

  #wait(end: number): Promise<void> {
    const representation = this.#representation();
    return this.#untilOpened(async (signal) => {
      const isPresent = await representation.whenPresent(end, signal);
      const presence: ToldPresence = { isPresent, sizeBytes: representation.sizeBytes };
      this.#send(frameKinds.presence, presence);
    });
  }

  /** Tells how far the store has the bytes of a span. The other worker reads them there, on behalf of the client. */
  #waitStored({ start, end }: Span): Promise<void> {
    const representation = this.#representation();
    return this.#untilOpened(async (signal) => {
      const storedTo = (await representation.whenStored?.(start, end, signal)) ?? start;
      const toldTo = Math.min(storedTo, end, start + MAX_TOLD_BYTES);
      this.#onSent(toldTo - start);
      this.#send(frameKinds.storedTo, toldTo);
    });
  }

  /** Waits for something on behalf of a worker that has not opened the representation yet. */
  async #untilOpened(wait: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const waiting = new AbortController();
    this.#waiting = waiting;
    try {
      await wait(AbortSignal.any([this.#gone.signal, waiting.signal]));
    } catch (thrown) {
      // A worker that opens the representation no longer waits.
      if (!waiting.signal.aborted) throw thrown;
    }
  }

  async #passOn({ response: { body } }: Relay): Promise<void> {
    try {
      let offset = 0;
      for await (const chunk of body) {
        await this.#sendBytes(chunk, offset);
        offset += chunk.length;
      }
      this.#sendEnd({ sizeBytes: undefined, trailers: body.trailers?.() });
    } finally {
      body.close();
    }
  }

  /** Sends bytes, and waits until there is room for more. */
  async #sendBytes(bytes: Uint8Array, offset: number): Promise<void> {
    const originBytes = this.#answer?.originBytes() ?? 0;
    for (let at = 0; at < bytes.length; at += MAX_DATA_BYTES) {
      const piece = bytes.subarray(at, at + MAX_DATA_BYTES);
      this.#socket.cork();
      this.#socket.write(formatDataHead(piece.length, offset + at, originBytes));
      const hasRoom = this.#socket.write(piece);
      this.#socket.uncork();
      this.#onSent(piece.length);
      if (!hasRoom) await this.#untilDrained();
    }
  }

  #untilDrained(): Promise<void> {
    this.#gone.signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#socket.off('drain', go);
        reject(this.#gone.signal.reason);
      };
      const go = () => {
        this.#gone.signal.removeEventListener('abort', leave);
        resolve();
      };
      this.#socket.once('drain', go);
      this.#gone.signal.addEventListener('abort', leave, { once: true });
    });
  }

  #sendEnd(end: Omit<ToldEnd, 'originBytes'>): void {
    const ending: ToldEnd = { ...end, originBytes: this.#answer?.originBytes() ?? 0 };
    this.#send(frameKinds.end, ending);
  }

  #send(kind: FrameKind, value?: unknown): void {
    if (!this.#gone.signal.aborted) this.#socket.write(formatFrame(kind, value));
  }

  #representation(): Representation {
    if (this.#answer?.kind !== 'representation')
      throw new ProxyError('internal', { detail: 'the answer is no representation' });
    return this.#answer.representation;
  }

  #beat(): void {
    this.#stopBeating = this.#options.clock.after(BEAT_MS, () => {
      // A worker that has unread data does not need a beat.
      if (!this.#socket.writableNeedDrain) this.#send(frameKinds.beat);
      this.#beat();
    });
  }

  #leave(): void {
    this.#stopBeating();
    this.#gone.abort(new ProxyError('client_gone'));
    this.#giveBack();
  }

  #giveBack(): void {
    if (this.#answer?.kind === 'representation') this.#answer.representation.close();
    if (this.#answer?.kind === 'relay') this.#answer.relay.response.body.close();
  }
}
