/**
 * Gives readers the bytes of a generation: at once where they are present, otherwise after the fill scheduler has fetched them.
 * Requests absent bytes ahead of a reader, so that the reader need not pause.
 */

import type { Span } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { ByteReader } from '../answer.ts';
import { type FillPolicy, growsOpenRanges } from '../inquiry.ts';
import { type ByteBudget, ReadAhead } from '../read/read-ahead.ts';
import type { BlockKeeper } from './blocks.ts';
import { openAheadBytes } from './fetch-decision.ts';
import { type FillScheduler, refusalAppliesTo, type Supply } from './fill-scheduler.ts';
import type { Failures, Visitor, Waiters } from './readers.ts';

/** How often a byte that the store has lost is fetched again. A store that cannot be read loses the byte every time. */
const lossesPerByte = 3;

/** The parts of a generation that a body reader works with. */
export interface BodyReaderParts {
  readonly blockSizeBytes: number;
  /** Says how far ahead of a reader absent bytes are requested, and how long an expected byte is awaited. */
  readonly policy: FillPolicy;
  readonly clock: Clock;
  /** Bytes that all readers together may read from the store ahead of their positions. */
  readonly readAhead: ByteBudget;
  readonly keeper: BlockKeeper;
  readonly scheduler: FillScheduler;
  readonly waiters: Waiters;
  readonly failures: Failures;
}

/** The state of the generation that decides which bytes may be read. */
export interface BodyReaderHost {
  readonly sizeBytes: number | undefined;
  /** Whether the generation has released the store. */
  readonly isClosed: boolean;
  /** The error that ended the generation for good; undefined while bytes may still arrive. */
  readonly dead: ProxyError | undefined;
  /** Whether it can be found in the store, though blocks are absent; `later` where that is to come. */
  readonly findable: 'now' | 'later' | 'never';
  /** Whether the arriving block must not be read before the body is verified. */
  readonly isWithheld: boolean;
}

/** The state of one reader. It has a flag, not an AbortSignal, because it is made for each request and a signal is expensive. */
interface Reading {
  readonly blocks: ReadAhead;
  readonly visitor: Visitor;
  isClosed: boolean;
  /** Number of its reads that wait for bytes. */
  waits: number;
}

/** Reads the bytes of one generation. */
export class BodyReader {
  readonly #parts: BodyReaderParts;
  readonly #host: BodyReaderHost;

  constructor(parts: BodyReaderParts, host: BodyReaderHost) {
    this.#parts = parts;
    this.#host = host;
  }

  /** Returns the start of an open-ended range that a reader begins now, at offset `from`. */
  beginOpen(from: number): Visitor['open'] {
    return { from, at: this.#parts.clock.now() };
  }

  /** Creates the byte source of one reader; it must be closed. */
  createReader(visitor: Visitor): ByteReader {
    const { blockSizeBytes, keeper, readAhead: budget } = this.#parts;
    const sizeBytes = this.#host.sizeBytes ?? Number.POSITIVE_INFINITY;
    const mayRead = (index: number) => this.#isKept(index * blockSizeBytes);
    const blocks = new ReadAhead(keeper, sizeBytes, { blockSizeBytes, budget }, mayRead);
    const reading: Reading = { blocks, visitor, isClosed: false, waits: 0 };
    return {
      peek: (offset, end) => this.#peekWith(blocks, offset, end),
      read: (offset, end) => this.#read(reading, offset, end),
      close: () => {
        if (reading.isClosed) return;
        reading.isClosed = true;
        blocks.close();
        if (reading.waits > 0) this.#parts.waiters.changed();
      },
    };
  }

  /** Returns bytes from `offset` on, up to `end` (exclusive), that are in memory now; undefined where there are none. */
  peek(offset: number, end: number): Uint8Array | undefined {
    if (this.#host.isClosed) return undefined;
    return this.#parts.keeper.peek(offset, end) ?? this.#peekArriving(offset, end);
  }

  /**
   * Begins to read a span. Waits for the first byte if a new fill has to fetch it, so that the response head can still report a
   * failure. Throws `ProxyError`, or the signal's reason.
   */
  async open({ start, end }: Span, visitor: Visitor, signal: AbortSignal): Promise<void> {
    const { keeper, scheduler, waiters } = this.#parts;
    if (!this.#has(start)) this.#throwFailure(start, visitor);
    const isAbsent = this.#firstAbsent(start, start + 1) !== undefined;
    const supplied = isAbsent ? this.#demand(start, end, visitor) : undefined;
    this.lookAhead(start, end, visitor);
    if (supplied?.kind !== 'begun') return;
    const { fill } = supplied;
    const askedFrom = fill.frontier;
    // The new fill may have ended early, or begun anew at byte 0 because the origin sends the whole. The byte then comes later, and
    // the head does not wait for it. It does wait while parts are doubted: the whole may show that stored parts are wrong.
    const isLater = () => !keeper.isDoubting && (fill.limit <= start || fill.frontier < askedFrom);
    await waiters.wait(() => this.#has(start) || !scheduler.brings(start) || isLater(), signal);
    if (this.#has(start)) return;
    this.#throwIfLost(start, visitor);
    throwRefusal(supplied, visitor);
  }

  /** Requests the next absent bytes for a reader at `offset` that reads up to `end` (exclusive), if it will reach them soon. */
  lookAhead(offset: number, end: number, visitor: Visitor): void {
    const { scheduler, keeper, failures } = this.#parts;
    if (this.#host.dead !== undefined || !keeper.isStoring) return;
    const limit = Math.min(end, offset + this.#aheadBytes(offset, visitor));
    let absent = this.#firstAbsent(offset, limit);
    while (absent !== undefined && scheduler.brings(absent))
      absent = this.#firstAbsent(scheduler.comingEnd(absent), limit);
    if (absent !== undefined && failures.find(absent, visitor.since) === undefined) {
      scheduler.demand(absent, end, visitor, this.#paceBytes(offset, visitor));
    }
  }

  /** See `Representation.whenPresent`. */
  async whenPresent(end: number, visitor: Visitor, signal: AbortSignal): Promise<boolean> {
    const { keeper, scheduler, waiters } = this.#parts;
    const isPresent = () => this.#host.sizeBytes !== undefined || scheduler.hasReached(end);
    const offset = Math.min(end - 1, Number.MAX_SAFE_INTEGER);
    while (!isPresent() && keeper.isStoring) {
      this.#throwFailure(offset, visitor);
      const supplied = this.#demand(offset, end, visitor);
      await waiters.wait(() => isPresent() || !keeper.isStoring || !scheduler.brings(offset), signal);
      if (!isPresent()) throwRefusal(supplied, visitor);
    }
    return isPresent();
  }

  /** See `Representation.whenStored`. */
  async whenStored(offset: number, end: number, visitor: Visitor, signal: AbortSignal): Promise<number> {
    const { keeper, scheduler, waiters } = this.#parts;
    const isOver = () =>
      !keeper.isStoring ||
      this.#host.isClosed ||
      this.#host.findable === 'never' ||
      (this.#host.findable === 'now' && keeper.storedTo(offset) > offset);
    while (!isOver()) {
      this.#throwFailure(offset, visitor);
      const supplied = keeper.has(offset) ? undefined : this.#demand(offset, end, visitor);
      await waiters.wait(() => isOver() || !(keeper.has(offset) || scheduler.brings(offset)), signal);
      if (supplied !== undefined && !isOver()) throwRefusal(supplied, visitor);
    }
    return keeper.isStoring && this.#host.findable === 'now' ? keeper.storedTo(offset) : offset;
  }

  /** How far ahead of a reader absent bytes are requested. */
  #aheadBytes(offset: number, visitor: Visitor): number {
    const { blockSizeBytes, policy } = this.#parts;
    const { seekAheadBytes } = policy;
    const { sizeBytes } = this.#host;
    if (visitor.open === undefined || sizeBytes === undefined || !growsOpenRanges(policy, sizeBytes))
      return seekAheadBytes;
    const readBytes = Math.max(0, offset - visitor.open.from);
    const paceBytes = this.#paceBytes(offset, visitor);
    return openAheadBytes({ readBytes, paceBytes, blockSizeBytes, seekAheadBytes });
  }

  /** Bytes that the reader of an open-ended range takes during one origin latency, at its speed so far; 0 for other readers. */
  #paceBytes(offset: number, { open }: Visitor): number {
    const { clock, scheduler } = this.#parts;
    if (open === undefined) return 0;
    const elapsedMs = Math.max(1, clock.now() - open.at);
    return (Math.max(0, offset - open.from) / elapsedMs) * scheduler.latencyMs;
  }

  #peekWith(blocks: ReadAhead, offset: number, end: number): Uint8Array | undefined {
    const kept = this.#isKept(offset) ? blocks.peek(offset, end) : undefined;
    const chunk = kept ?? this.peek(offset, end);
    if (kept === undefined && chunk !== undefined) blocks.pass(offset, end);
    return chunk;
  }

  async #read(reading: Reading, offset: number, end: number): Promise<Uint8Array | undefined> {
    const { blocks, visitor } = reading;
    for (let losses = 0; ; ) {
      throwIfClosed(reading);
      const wasKept = this.#isKept(offset);
      const chunk = this.#peekWith(blocks, offset, end) ?? (await this.#readKept(blocks, offset, end));
      if (chunk !== undefined) return chunk;
      if (wasKept) losses += 1;
      if (losses > lossesPerByte) throw gone(offset);
      if (this.#host.sizeBytes !== undefined && offset >= this.#host.sizeBytes) return undefined;
      if (this.#has(offset)) continue;
      const supplied = this.#isLeftToAnother(offset, visitor) ? undefined : this.#demand(offset, end, visitor);
      await this.#wait(offset, supplied?.kind, reading);
      if (supplied !== undefined && !this.#has(offset)) throwRefusal(supplied, visitor);
    }
  }

  /**
   * Waits until a byte is present, or no fill brings it. A byte that is only expected is awaited for at most `seekAheadMs`, and one
   * that waits for the answer to a probe until that is there.
   */
  async #wait(offset: number, kind: Supply['kind'] | undefined, reading: Reading): Promise<void> {
    const { clock, policy, scheduler, waiters } = this.#parts;
    let isDue = false;
    const fallDue = () => {
      isDue = true;
      waiters.changed();
    };
    const cancel = kind === 'expected' ? clock.after(policy.seekAheadMs, fallDue) : undefined;
    reading.waits += 1;
    try {
      await waiters.wait(() => {
        throwIfClosed(reading);
        const isAnswered = kind === 'probing' && !scheduler.isProbing;
        return isDue || isAnswered || this.#has(offset) || !scheduler.brings(offset);
      });
    } finally {
      reading.waits -= 1;
      cancel?.();
    }
  }

  /** Undefined when the byte is absent, or its block turns out to be damaged. A damaged block is absent from then on. */
  async #readKept(blocks: ReadAhead, offset: number, end: number): Promise<Uint8Array | undefined> {
    if (!this.#isKept(offset)) return undefined;
    try {
      return await blocks.read(offset, end);
    } catch (thrown) {
      if (toProxyError(thrown).code !== 'bytes_gone') throw thrown;
      return undefined;
    }
  }

  /** Throws `ProxyError` `bytes_gone`. */
  #demand(offset: number, end: number, visitor: Visitor): Supply {
    const supplied = this.#parts.scheduler.demand(offset, end, visitor, this.#paceBytes(offset, visitor));
    if (supplied === 'gone') throw gone(offset);
    return supplied;
  }

  /** The first byte of `[offset, end)` that lies in no kept block; undefined where there is none, or where it can be read already. */
  #firstAbsent(offset: number, end: number): number | undefined {
    const { blockSizeBytes, keeper } = this.#parts;
    const limit = Math.min(end, this.#host.sizeBytes ?? Number.POSITIVE_INFINITY);
    const blocks = { start: Math.floor(offset / blockSizeBytes), end: Math.ceil(limit / blockSizeBytes) };
    const missing = keeper.present.firstMissing(blocks)?.start;
    const absent = missing === undefined ? limit : Math.max(offset, missing * blockSizeBytes);
    return absent < limit && !this.#has(absent) ? absent : undefined;
  }

  /** Whether a byte is in a kept block; false once the generation has released the store. */
  #isKept(offset: number): boolean {
    return !this.#host.isClosed && this.#parts.keeper.has(offset);
  }

  #has(offset: number): boolean {
    return this.#isKept(offset) || this.#peekArriving(offset, offset + 1) !== undefined;
  }

  #peekArriving(offset: number, end: number): Uint8Array | undefined {
    return this.#host.isWithheld ? undefined : this.#parts.scheduler.peek(offset, end);
  }

  /**
   * Whether a fill that would have brought a byte has failed and another fill brings it. The reader then waits for the other
   * fill, and starts none. Throws the failure where no other fill brings the byte.
   */
  #isLeftToAnother(offset: number, visitor: Visitor): boolean {
    this.#throwIfLost(offset, visitor);
    return this.#parts.failures.find(offset, visitor.since) !== undefined;
  }

  /** Throws the failure that prevented a byte, unless another fill brings it. A dead generation always throws. */
  #throwIfLost(offset: number, visitor: Visitor): void {
    if (this.#host.dead !== undefined || !this.#parts.scheduler.brings(offset)) this.#throwFailure(offset, visitor);
  }

  /** Throws the failure that prevented a byte, if there is one: that of the generation, or of a fill. */
  #throwFailure(offset: number, { since }: Visitor): void {
    const failure = this.#host.dead ?? this.#parts.failures.find(offset, since);
    if (failure !== undefined) throw failure;
  }
}

function throwIfClosed({ isClosed }: Reading): void {
  if (isClosed) throw new ProxyError('client_gone');
}

function gone(offset: number): ProxyError {
  return new ProxyError('bytes_gone', { detail: `byte ${offset} cannot be had any more` });
}

/** Throws the limit that prevented a fill, if it applies to this visitor. Other visitors start fills of their own. */
function throwRefusal({ kind, fill }: Supply, { client }: Visitor): void {
  // Another fill brings what a part was to bring.
  if (fill?.refusal === undefined || fill.isPart) return;
  if (kind === 'begun' || refusalAppliesTo(client, fill.refusal, fill.charged.client)) throw fill.refusal;
}
