/**
 * One transfer from the origin into one generation. It begins at the start of a block, assembles blocks from the chunks that
 * arrive, and is resumed where it breaks off: after a pause, a limited number of times, and compared with what readers may
 * have seen already.
 */

import { createHash } from 'node:crypto';
import { fillsItsMemory } from '../../bytes/own-memory.ts';
import type { Clock } from '../../http/clock.ts';
import { type BodyStream, Chunks } from '../../http/message.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { Errand } from '../../origin/origin.ts';
import type { Coming } from './fetch-decision.ts';
import { type Part, verifyContent } from './part-source.ts';

/** A block that has come, and how it came. */
export interface Arrived extends SealedBlock {
  /** See `Part.isProven`. */
  readonly isProven: boolean;
  /** Whether it came with the whole, and not with a part. */
  readonly isOfWhole: boolean;
  /** Where the fill that brings it began, as an offset. */
  readonly from: number;
  /** Told when the block can be read: whoever misses it after that has to ask for it again. */
  readonly onKept: () => void;
}

/** The generation, as a fill needs it. */
export interface FillHost {
  /**
   * Asks the origin for `[start, end)`; the whole may come in its place. Undefined when all of it is there or comes by another
   * fill anyway. Throws `ProxyError`.
   */
  fetch(fill: Fill, start: number, end: number, signal: AbortSignal): Promise<Part | undefined>;
  /** Keeps a block. Throws `ProxyError` `generation_changed` when it is not the one that is there already. */
  keep(block: Arrived): Promise<void>;
  /** Whether so much of what follows `offset` is there or coming that this fill is better ended. */
  isAheadCovered(fill: Fill, offset: number): boolean;
  /** Takes note that a part was a lie about ranges: the fill begins anew with the whole, and what parts have brought is compared with that. */
  doubt(fill: Fill, reason: string): void;
  /** Whether that has happened. */
  readonly isDoubting: boolean;
  /** Whether a broken transfer is worth taking up again. */
  mayResume(error: ProxyError): boolean;
  /** Whether no reader may ask for what a fill still brings. */
  isUnread(fill: Fill): boolean;
  /** Told when the frontier has moved. */
  moved(): void;
}

/** What a fill is made with. */
interface FillOptions {
  readonly host: FillHost;
  readonly clock: Clock;
  readonly blockSizeBytes: number;
  readonly sizeBytes: number | undefined;
  /** The first block, and where to end (exclusive); Infinity for the end, wherever it is. */
  readonly firstIndex: number;
  readonly limit: number;
  readonly retry: RetryRules;
  /** What readers may have seen of the generation. */
  readonly witness: Witness;
  readonly errand: Errand;
}

/** A block that is complete, and the bytes it was completed with, of which so many are taken. */
interface Sealed {
  readonly block: SealedBlock;
  readonly bytes: Uint8Array;
  readonly taken: number;
}

/** Whether nothing of a generation is to be used after a failure. */
export function isFatal({ code }: ProxyError): boolean {
  return code === 'generation_changed' || code === 'origin_digest_mismatch';
}

/** A running or ended fill. */
export class Fill implements Coming {
  readonly errand: Errand;
  /** Why it was not begun, where a limit has kept it from that. */
  refusal: ProxyError | undefined;
  readonly #options: FillOptions;
  readonly #stopping = new AbortController();
  readonly #startedAt: number;
  #assembler: BlockAssembler;
  #from: number;
  #limit: number;
  #keptTo: number;
  #body: BodyStream | undefined;
  #received = 0;
  #resumptions = 0;
  /** Whether what comes is the whole. */
  #isWhole = false;

  constructor(options: FillOptions) {
    const { blockSizeBytes, sizeBytes, firstIndex, limit, clock } = options;
    this.#options = options;
    this.errand = options.errand;
    this.#assembler = new BlockAssembler(blockSizeBytes, sizeBytes, firstIndex);
    this.#from = this.#assembler.frontier;
    this.#keptTo = this.#from;
    this.#limit = limit;
    this.#startedAt = clock.now();
  }

  /** Where the next byte belongs. */
  get frontier(): number {
    return this.#assembler.frontier;
  }

  get keptTo(): number {
    return this.#keptTo;
  }

  get limit(): number {
    return this.#limit;
  }

  get isUnread(): boolean {
    return this.#options.host.isUnread(this);
  }

  /** Bytes received from the origin, those that were there already included. */
  get received(): number {
    return this.#received;
  }

  /** How often it was taken up again. */
  get resumptions(): number {
    return this.#resumptions;
  }

  get speed(): number {
    const elapsedMs = this.#options.clock.now() - this.#startedAt;
    return elapsedMs > 0 ? this.#received / elapsedMs : 0;
  }

  /** Whether what comes is the whole, or is going to be. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** What there is of the block that is arriving. */
  blockAt(index: number): Uint8Array | undefined {
    return this.#assembler.blockAt(index);
  }

  /** What there is of the block that is arriving may have been read: whatever brings it again is to bring the same. */
  noteSeen(): void {
    // None at all still says how much there was.
    const seen = this.#assembler.begun?.slice() ?? new Uint8Array();
    this.#options.witness.note(this.frontier - seen.length, seen);
  }

  /** Ends the transfer; `run` rejects with the error. */
  stop(error: ProxyError): void {
    this.#stopping.abort(error);
    this.#body?.close();
  }

  /** Ends the transfer with the block that is arriving, so that what has come of it is not lost. */
  stopAfterBlock(error: ProxyError): void {
    const { blockSizeBytes } = this.#options;
    const start = Math.floor(this.frontier / blockSizeBytes) * blockSizeBytes;
    if (start === this.frontier) this.stop(error);
    else this.#limit = Math.min(this.#limit, start + blockSizeBytes);
  }

  /** Runs to the limit, the first time with a part that is there already. Rejects with `ProxyError` when it is given up. */
  async run(first: Part | undefined): Promise<void> {
    const { clock, retry, host, blockSizeBytes } = this.#options;
    const budget = createRetryBudget(retry, this.frontier);
    const { signal } = this.#stopping;
    let reached = this.frontier;
    for (let part = first; ; part = undefined) {
      try {
        if (await this.#advance(part)) return;
        // An origin that gives little at a time is asked slowly.
        const isEnough = this.frontier - reached >= Math.min(blockSizeBytes, this.#limit - reached);
        if (!isEnough || this.frontier <= reached) throw new ProxyError('origin_body_short');
      } catch (thrown) {
        const error = toProxyError(signal.aborted ? signal.reason : thrown);
        const delayMs = signal.aborted || !host.mayResume(error) ? undefined : budget.next(this.frontier);
        if (delayMs === undefined) throw error;
        await pause(clock, delayMs, signal);
        this.#resumptions += 1;
      }
      reached = this.frontier;
    }
  }

  /** Goes on with a part until it ends; true when no other is needed. */
  async #advance(given: Part | undefined): Promise<boolean> {
    const { signal } = this.#stopping;
    let part = given;
    try {
      signal.throwIfAborted();
      part ??= await this.#options.host.fetch(this, this.frontier, this.#limit, signal);
      if (part === undefined) {
        this.#limit = this.frontier;
        return true;
      }
      this.#body = part.body;
      signal.throwIfAborted();
      if (part.isWhole && this.frontier > 0) this.startAgain(!part.isProven || this.#options.host.isDoubting);
      this.#isWhole = part.isWhole;
      return await this.#take(part);
    } finally {
      part?.body.close();
      this.#body = undefined;
    }
  }

  /** The whole comes where the rest was asked for: what is absent before the frontier is taken too, what is there may be compared. */
  startAgain(isCompared: boolean): void {
    const { blockSizeBytes, sizeBytes } = this.#options;
    if (isCompared) this.noteSeen();
    this.#isWhole = true;
    this.#assembler = new BlockAssembler(blockSizeBytes, sizeBytes, 0);
    this.#from = 0;
    this.#keptTo = 0;
    this.#limit = sizeBytes ?? Number.POSITIVE_INFINITY;
  }

  /** True when the limit or what others bring was reached; false when the part was shorter than asked for. */
  async #take(part: Part): Promise<boolean> {
    const hash = part.digest === undefined ? undefined : createHash(part.digest.algorithm);
    const chunks = new Chunks(part.body);
    for (let at = part.from; ; ) {
      // What is there is taken without a pause: promises are most of what a small body would cost.
      const coming = chunks.next();
      const chunk = coming instanceof Promise ? await coming : coming;
      if (chunk === undefined) {
        this.#stopping.signal.throwIfAborted();
        return await this.#end(part, at);
      }
      this.#received += chunk.length;
      // What comes behind the end that was promised is of no part.
      const last = Math.min(part.end ?? Number.POSITIVE_INFINITY, at + chunk.length);
      hash?.update(chunk.subarray(0, last - at));
      if (last === part.end && last > at) verifyContent(part, hash);
      const sealed = this.#append(chunk, at, Math.min(this.#limit, last));
      if (sealed !== undefined && (await this.#keepAll(sealed, part))) return true;
      if (last < at + chunk.length) return await this.#end(part, last);
      at = last;
      if (this.#isEnough(part, at)) return true;
    }
  }

  /** Whether no more of a part is to be read than the bytes before `at`. */
  #isEnough({ isWhole, end }: Part, at: number): boolean {
    const { sizeBytes } = this.#options;
    if (at < this.#limit || (at === this.#limit && at === sizeBytes)) return false;
    if (isWhole && end === undefined && this.#limit === sizeBytes) throw changed('more bytes');
    return true;
  }

  async #end(part: Part, at: number): Promise<boolean> {
    const isOpenEnded = this.#limit === Number.POSITIVE_INFINITY;
    if (at < Math.min(part.end ?? at, this.#limit)) {
      if (!part.hasSureEnd) throw new ProxyError('origin_body_short');
      this.#options.host.doubt(this, `it sent bytes ${part.from}-${at - 1} as ${part.from}-${(part.end ?? at) - 1}`);
      return await this.#advance(undefined);
    }
    const isShorter = part.end === undefined && at < (this.#options.sizeBytes ?? at);
    if (isShorter || (part.isWhole && this.#options.witness.isAhead(at))) throw changed('fewer bytes');
    const last = isOpenEnded ? this.#assembler.sealLast() : undefined;
    if (last !== undefined) await this.#keep(last, part);
    return isOpenEnded || at >= this.#limit;
  }

  /** Takes what is new of a chunk whose first byte belongs `at`, up to `end`: as far as one block goes, if it completes one. */
  #append(chunk: Uint8Array, at: number, end: number): Sealed | undefined {
    const known = Math.max(0, this.frontier - at);
    if (known >= end - at) return undefined;
    const bytes = chunk.subarray(known, end - at);
    if (this.#options.witness.contradicts(this.frontier, bytes)) throw changed('other bytes');
    return this.#appendFrom(bytes, 0);
  }

  #appendFrom(bytes: Uint8Array, from: number): Sealed | undefined {
    if (from >= bytes.length) return undefined;
    const taken = from + this.#assembler.append(bytes, from);
    this.#options.host.moved();
    const block = this.#assembler.seal();
    return block && { block, bytes, taken };
  }

  /** Keeps a block, and those that the rest of its bytes makes; true when the fill has reached what others bring. */
  async #keepAll(first: Sealed, part: Part): Promise<boolean> {
    for (let sealed: Sealed | undefined = first; sealed !== undefined; ) {
      if (await this.#keep(sealed.block, part)) return true;
      sealed = this.#appendFrom(sealed.bytes, sealed.taken);
    }
    return false;
  }

  async #keep(sealed: SealedBlock, { isProven, isWhole }: Part): Promise<boolean> {
    const { frontier } = this;
    const onKept = () => {
      this.#keptTo = frontier;
    };
    await this.#options.host.keep({ ...sealed, isProven, isOfWhole: isWhole, from: this.#from, onKept });
    onKept();
    if (this.frontier >= this.#limit || !this.#options.host.isAheadCovered(this, this.frontier)) return false;
    this.#limit = this.frontier;
    return true;
  }
}

function changed(detail: string): ProxyError {
  return new ProxyError('generation_changed', { detail });
}

/** A block that is full, or the last one. */
export interface SealedBlock {
  readonly index: number;
  readonly bytes: Uint8Array;
}

/** The first allocation for a block whose length is not known: most bodies without a length are small. */
const FIRST_ALLOCATION_BYTES = 16 * 1024;

const nothing = new Uint8Array();

/**
 * Assembles blocks. A chunk that is all of a block by itself becomes it without a copy. Bytes that were appended stay where they
 * are for those who hold slices of them: a buffer is only ever appended to, and replaced when it must grow.
 */
export class BlockAssembler {
  readonly #blockSizeBytes: number;
  readonly #sizeBytes: number | undefined;
  #index: number;
  #filled = 0;
  #isEnded = false;
  /** Allocated with the first byte of the block. */
  #buffer: Uint8Array = nothing;

  /** `sizeBytes` is the length of the whole where it is known; `firstIndex` the block that the bytes begin with. */
  constructor(blockSizeBytes: number, sizeBytes: number | undefined, firstIndex = 0) {
    this.#index = firstIndex;
    this.#blockSizeBytes = blockSizeBytes;
    this.#sizeBytes = sizeBytes;
  }

  /** Where the next byte belongs. */
  get frontier(): number {
    return this.#index * this.#blockSizeBytes + this.#filled;
  }

  /** What there is of the block that is being assembled, if it is the one of this index. */
  blockAt(index: number): Uint8Array | undefined {
    return index === this.#index ? this.begun : undefined;
  }

  /** What there is of the block that is being assembled. */
  get begun(): Uint8Array | undefined {
    return this.#filled > 0 ? this.#buffer.subarray(0, this.#filled) : undefined;
  }

  /** Appends bytes of `chunk` from `from` on, at most to the end of the block; tells how many. The block must not be full. */
  append(chunk: Uint8Array, from: number): number {
    const count = Math.min(chunk.length - from, this.#blockSizeBytes - this.#filled);
    if (this.#filled === 0) {
      const expectedBytes = this.#expectedBytes;
      if (from === 0 && count === chunk.length && count === expectedBytes && fillsItsMemory(chunk)) {
        this.#buffer = chunk;
        this.#filled = count;
        return count;
      }
      this.#buffer = allocate(expectedBytes);
    }
    if (this.#filled + count > this.#buffer.length) this.#grow(this.#filled + count);
    this.#buffer.set(from === 0 && count === chunk.length ? chunk : chunk.subarray(from, from + count), this.#filled);
    this.#filled += count;
    return count;
  }

  /** The block, when it is full or the last of a known length; the next one is begun. */
  seal(): SealedBlock | undefined {
    const isLast = this.#filled > 0 && this.frontier === this.#sizeBytes;
    if (this.#filled < this.#blockSizeBytes) return isLast ? this.sealLast() : undefined;
    const sealed = { index: this.#index, bytes: this.#buffer };
    this.#index += 1;
    this.#filled = 0;
    this.#buffer = nothing;
    return sealed;
  }

  /** The last block, when it holds anything and was not sealed, in memory of its own size. Nothing may be appended after it. */
  sealLast(): SealedBlock | undefined {
    if (this.#filled === 0 || this.#isEnded) return undefined;
    this.#isEnded = true;
    if (this.#filled < this.#buffer.length) {
      const exact = allocate(this.#filled);
      exact.set(this.#buffer.subarray(0, this.#filled));
      this.#buffer = exact;
    }
    return { index: this.#index, bytes: this.#buffer };
  }

  /** How long the block is, as far as that is known: as much is allocated for it. */
  get #expectedBytes(): number {
    const rest =
      this.#sizeBytes === undefined
        ? this.#index === 0
          ? FIRST_ALLOCATION_BYTES
          : this.#blockSizeBytes
        : this.#sizeBytes - this.#index * this.#blockSizeBytes;
    return Math.min(this.#blockSizeBytes, Math.max(0, rest));
  }

  #grow(neededBytes: number): void {
    const larger = allocate(Math.min(this.#blockSizeBytes, Math.max(neededBytes, this.#buffer.length * 2)));
    larger.set(this.#buffer.subarray(0, this.#filled));
    this.#buffer = larger;
  }
}

/** Memory of its own, not from a shared pool: a kept block must pin nothing but itself. */
function allocate(sizeBytes: number): Uint8Array {
  return Buffer.allocUnsafeSlow(sizeBytes);
}

interface Seen {
  readonly start: number;
  readonly bytes: Uint8Array;
}

/** What was seen of one generation, of all transfers that broke off. */
export class Witness {
  #all: readonly Seen[] = [];

  /** Takes note of bytes from `start` on, which agree with all that was noted before. They must not change afterwards. */
  note(start: number, bytes: Uint8Array): void {
    const seen = { start, bytes };
    if (this.#all.some((other) => isWithin(seen, other))) return;
    this.#all = [...this.#all.filter((other) => !isWithin(other, seen)), seen];
  }

  /** Whether some of these bytes, which belong at `offset`, are other ones. */
  contradicts(offset: number, bytes: Uint8Array): boolean {
    return this.#all.some((seen) => {
      const start = Math.max(offset, seen.start);
      const end = Math.min(offset + bytes.length, endOf(seen));
      if (start >= end) return false;
      const own = seen.bytes.subarray(start - seen.start, end - seen.start);
      return Buffer.compare(own, bytes.subarray(start - offset, end - offset)) !== 0;
    });
  }

  /** Whether there are bytes from `offset` on. */
  isAhead(offset: number): boolean {
    return this.#all.some((seen) => endOf(seen) > offset);
  }
}

function endOf({ start, bytes }: Seen): number {
  return start + bytes.length;
}

function isWithin(inner: Seen, outer: Seen): boolean {
  return outer.start <= inner.start && endOf(inner) <= endOf(outer);
}

/** The rules of a budget. */
export interface RetryRules {
  /** Attempts in a row that may fail without a byte of progress between them. */
  readonly maxAttempts: number;
  /** The first pause in milliseconds; each further one is twice as long, up to the longest. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
}

/** Counts attempts; progress gives all of them back. */
interface RetryBudget {
  /** The pause before the next attempt, in milliseconds, or undefined when there is none left. `frontier` tells the progress. */
  next(frontier: number): number | undefined;
}

/** Creates a budget that starts at `frontier`. */
export function createRetryBudget(rules: RetryRules, frontier: number): RetryBudget {
  let reached = frontier;
  let failures = 0;
  return {
    next(now) {
      if (now > reached) failures = 0;
      reached = Math.max(reached, now);
      failures += 1;
      if (failures > rules.maxAttempts) return undefined;
      return Math.min(rules.maxDelayMs, rules.firstDelayMs * 2 ** (failures - 1));
    },
  };
}

/** Waits; rejects with the signal's reason when it is aborted meanwhile. */
function pause(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      cancel();
      reject(toProxyError(signal.reason));
    };
    const cancel = clock.after(delayMs, () => {
      signal.removeEventListener('abort', stop);
      resolve();
    });
    signal.addEventListener('abort', stop, { once: true });
  });
}
