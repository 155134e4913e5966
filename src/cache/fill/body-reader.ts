/**
 * How readers get the bytes of a generation: at once where they are there, otherwise by asking the scheduler for them and
 * waiting. Absent bytes are asked for ahead of a reader, so that it need not pause.
 */

import type { Span } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { ByteReader } from '../answer.ts';
import { type FillPolicy, growsOpenRanges } from '../inquiry.ts';
import { type ByteBudget, ReadAhead } from '../read/read-ahead.ts';
import type { BlockKeeper } from './blocks.ts';
import { openAheadBytes } from './fetch-decision.ts';
import { type FillScheduler, isRefusedTo, type Supplied } from './fill-scheduler.ts';
import type { Failures, Visitor, Waiters } from './readers.ts';

/** How often a byte that was kept and is lost is asked of the origin again: a store that cannot be read loses it every time. */
const lossesPerByte = 3;

/** What is looked at. */
export interface BodyReaderParts {
  readonly blockSizeBytes: number;
  /** Absent bytes are asked for so far ahead of a reader that it need not pause. */
  readonly policy: FillPolicy;
  readonly clock: Clock;
  /** What readers may have read of the store before they ask for it. */
  readonly readAhead: ByteBudget;
  readonly keeper: BlockKeeper;
  readonly scheduler: FillScheduler;
  readonly waiters: Waiters;
  readonly failures: Failures;
}

/** The generation, as far as it decides what may be read. */
export interface BodyReaderHost {
  readonly sizeBytes: number | undefined;
  /** Whether the store has been let go of. */
  readonly isClosed: boolean;
  /** Why no more bytes will come for good. */
  readonly dead: ProxyError | undefined;
  /** Whether what is arriving must not be read before it is verified. */
  readonly isWithheld: boolean;
}

/** What one reader reads with. Flags rather than a signal to close it: it is made for each request, and a signal is dear. */
interface Reading {
  readonly blocks: ReadAhead;
  readonly visitor: Visitor;
  isClosed: boolean;
  /** How many of its reads wait for bytes. */
  waits: number;
}

/** The bytes of one generation. */
export class BodyReader {
  readonly #parts: BodyReaderParts;
  readonly #host: BodyReaderHost;

  constructor(parts: BodyReaderParts, host: BodyReaderHost) {
    this.#parts = parts;
    this.#host = host;
  }

  /** What is noted of a reader that begins an open-ended range now. */
  beginOpen(from: number): Visitor['open'] {
    return { from, at: this.#parts.clock.now() };
  }

  /** Reads for one reader until it is closed. */
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

  /** Bytes from `offset` on that are in memory now. */
  peek(offset: number, end: number): Uint8Array | undefined {
    if (this.#host.isClosed) return undefined;
    return this.#parts.keeper.peek(offset, end) ?? this.#peekArriving(offset, end);
  }

  /**
   * Begins to read a span. An absent first byte is waited for if it has to be asked for, so that a failure can still be
   * told in a head. Throws `ProxyError`, or the signal's reason.
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
    // An origin that gives no parts ends what was asked for, or sends the whole in its place: the byte comes in its time. Where the
    // whole may show that stored parts are wrong, the head waits for that.
    const isLater = () => !keeper.isDoubting && (fill.limit <= start || fill.frontier < askedFrom);
    await waiters.wait(() => this.#has(start) || !scheduler.brings(start) || isLater(), signal);
    if (this.#has(start)) return;
    this.#throwIfLost(start, visitor);
    throwRefusal(supplied, visitor);
  }

  /** Asks for the next absent bytes of a reader that is at `offset`, on the way to `end`, if it will soon be there. */
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

  /** How far ahead of a reader absent bytes are asked for. */
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

  /** How much the reader of an open-ended range takes while the origin is asked for a span, by its speed so far. */
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
      await this.#wait(offset, supplied?.kind === 'expected', reading);
      if (supplied !== undefined && !this.#has(offset)) throwRefusal(supplied, visitor);
    }
  }

  /** Waits until a byte is there or does not come, or, where it is merely expected, until it should be there. */
  async #wait(offset: number, isExpected: boolean, reading: Reading): Promise<void> {
    const { clock, policy, scheduler, waiters } = this.#parts;
    let isDue = false;
    const fallDue = () => {
      isDue = true;
      waiters.changed();
    };
    const cancel = isExpected ? clock.after(policy.seekAheadMs, fallDue) : undefined;
    reading.waits += 1;
    try {
      await waiters.wait(() => {
        throwIfClosed(reading);
        return isDue || this.#has(offset) || !scheduler.brings(offset);
      });
    } finally {
      reading.waits -= 1;
      cancel?.();
    }
  }

  /** Undefined when nothing is there, or when it turns out to be damaged: it is absent from now on. */
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
  #demand(offset: number, end: number, visitor: Visitor): Supplied {
    const supplied = this.#parts.scheduler.demand(offset, end, visitor, this.#paceBytes(offset, visitor));
    if (supplied === 'gone') throw gone(offset);
    return supplied;
  }

  /** The first byte of `[offset, end)` that is neither there nor arriving; undefined when there is none. */
  #firstAbsent(offset: number, end: number): number | undefined {
    const { blockSizeBytes, keeper } = this.#parts;
    const limit = Math.min(end, this.#host.sizeBytes ?? Number.POSITIVE_INFINITY);
    const blocks = { start: Math.floor(offset / blockSizeBytes), end: Math.ceil(limit / blockSizeBytes) };
    const missing = keeper.present.firstMissing(blocks)?.start;
    const absent = missing === undefined ? limit : Math.max(offset, missing * blockSizeBytes);
    return absent < limit && !this.#has(absent) ? absent : undefined;
  }

  /** Whether a byte is there, for as long as the store has not been let go of. */
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
   * Whether a transfer has failed that would have brought a byte, and another one brings it: that is waited for, and none is
   * begun in its place. Throws the failure where there is no other.
   */
  #isLeftToAnother(offset: number, visitor: Visitor): boolean {
    this.#throwIfLost(offset, visitor);
    return this.#parts.failures.find(offset, visitor.since) !== undefined;
  }

  /** Throws the failure that has kept a byte from coming, where no other transfer brings it. */
  #throwIfLost(offset: number, visitor: Visitor): void {
    if (this.#host.dead !== undefined || !this.#parts.scheduler.brings(offset)) this.#throwFailure(offset, visitor);
  }

  /** Throws the failure that has kept a byte from coming. */
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

/** Throws why a transfer was not begun, where that holds for this visitor: others ask for themselves. */
function throwRefusal({ kind, fill }: Supplied, { client }: Visitor): void {
  if (fill?.refusal === undefined) return;
  if (kind === 'begun' || isRefusedTo(client, fill.refusal, fill.errand.client)) throw fill.refusal;
}
