/**
 * Runs one fill: a transfer from the origin into one generation. It begins at the start of a block and assembles blocks from the
 * arriving chunks. Where the transfer breaks off, the fill resumes after a pause, a limited number of times, and compares the
 * bytes with those that readers may have seen.
 */

import { createHash } from 'node:crypto';
import { fillsItsMemory } from '../../bytes/own-memory.ts';
import type { Clock } from '../../http/clock.ts';
import { type BodyStream, Chunks } from '../../http/message.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { ChargedClients } from '../../origin/origin.ts';
import type { FillProgress } from './fetch-decision.ts';
import { type Part, verifyContent } from './part-source.ts';

/** A complete block, and how it arrived. */
export interface Arrived extends SealedBlock {
  /** See `Part.isProven`. */
  readonly isProven: boolean;
  /** Whether it came with the whole, not with a part. */
  readonly isOfWhole: boolean;
  /** Offset at which its fill began. */
  readonly from: number;
  /** Called when the block can be read. A reader that finds it absent after that has to demand it again. */
  readonly onKept: () => void;
}

/** The fill scheduler, as a fill sees it. */
export interface FillHost {
  /**
   * Requests `[start, end)` from the origin, which may send the whole instead. Undefined when all of these bytes are present or
   * come by another fill. Throws `ProxyError`.
   */
  fetch(fill: Fill, start: number, end: number, signal: AbortSignal): Promise<Part | undefined>;
  /** Keeps a block. Throws `ProxyError` `generation_changed` when it differs from the present one. */
  keep(block: Arrived): Promise<void>;
  /** Whether this fill should end at `offset`, because enough of the next bytes are present or come by other fills. */
  isAheadCovered(fill: Fill, offset: number): boolean;
  /**
   * Reports that the origin lied about the range of a part. The fill begins anew with the whole, and the bytes that parts have
   * brought are compared with it.
   */
  doubt(fill: Fill, reason: string): void;
  /** Whether the bytes that parts have brought are doubted. */
  readonly isDoubting: boolean;
  /** Whether a transfer that broke off with this error is worth resuming. */
  mayResume(fill: Fill, error: ProxyError): boolean;
  /** Whether a reader needs the next bytes of a fill now. A fill that is ahead of its readers waits, with its request under way. */
  isDue(fill: Fill): boolean;
  /** Waits until `isDue`. Rejects with the signal's reason. */
  whenDue(fill: Fill, signal: AbortSignal): Promise<void>;
  /** Whether no reader may ask for the bytes that a fill still brings. */
  isUnread(fill: Fill): boolean;
  /** Called when the frontier has moved. */
  moved(): void;
}

/** Options of a fill. */
interface FillOptions {
  readonly host: FillHost;
  readonly clock: Clock;
  readonly blockSizeBytes: number;
  readonly sizeBytes: number | undefined;
  /** Index of the first block, and offset of the end (exclusive). Infinity: up to the end of the body. */
  readonly firstIndex: number;
  readonly limit: number;
  readonly retry: RetryRules;
  /** The bytes of the generation that readers may have seen. */
  readonly witness: Witness;
  readonly charged: ChargedClients;
  readonly isPart: boolean;
}

/** A complete block, and the chunk that completed it. `taken` is the offset in the chunk up to which its bytes are used. */
interface Sealed {
  readonly block: SealedBlock;
  readonly bytes: Uint8Array;
  readonly taken: number;
}

/** Checks whether a failure makes the whole generation unusable. */
export function isFatal({ code }: ProxyError): boolean {
  return code === 'generation_changed' || code === 'origin_digest_mismatch';
}

/** The shortest time over which a speed is measured, once a transfer has run that long, in milliseconds. */
const speedWindowMs = 1000;

/** How many bytes a transfer had received at a time. */
interface Progress {
  readonly at: number;
  readonly received: number;
}

/** A running or ended fill. */
export class Fill implements FillProgress {
  readonly charged: ChargedClients;
  /** Whether it brings a part of what another fill would bring later. No reader has asked for it, and none fails with it. */
  readonly isPart: boolean;
  /** The limit that prevented the fill; undefined where none did. */
  refusal: ProxyError | undefined;
  readonly #options: FillOptions;
  readonly #stopping = new AbortController();
  /** Where the measured speed begins, and where it will begin next; `at` in epoch milliseconds. */
  #measuredFrom: Progress;
  #measuredNext: Progress;
  #assembler: BlockAssembler;
  #from: number;
  #limit: number;
  #keptTo: number;
  #body: BodyStream | undefined;
  #received = 0;
  #resumptions = 0;
  /** Whether the origin sends the whole. */
  #isWhole = false;

  constructor(options: FillOptions) {
    const { blockSizeBytes, sizeBytes, firstIndex, limit, clock } = options;
    this.#options = options;
    this.charged = options.charged;
    this.isPart = options.isPart;
    this.#assembler = new BlockAssembler(blockSizeBytes, sizeBytes, firstIndex);
    this.#from = this.#assembler.frontier;
    this.#keptTo = this.#from;
    this.#limit = limit;
    this.#measuredFrom = this.#measuredNext = { at: clock.now(), received: 0 };
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

  /** Bytes received from the origin, including those that were present already. */
  get received(): number {
    return this.#received;
  }

  /** How often the transfer was resumed. */
  get resumptions(): number {
    return this.#resumptions;
  }

  /** Over the last one to two seconds: a transfer that was fast may be slow now. */
  get speed(): number {
    const { at, received } = this.#measuredFrom;
    const elapsedMs = this.#options.clock.now() - at;
    return elapsedMs > 0 ? (this.#received - received) / elapsedMs : 0;
  }

  /** Whether the origin sends the whole, or is going to. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  /** Returns the arrived bytes of the incomplete block, if it has this index and is not empty. */
  blockAt(index: number): Uint8Array | undefined {
    return this.#assembler.blockAt(index);
  }

  /** Records the arrived bytes of the incomplete block, which readers may have seen: they must be the same when they come again. */
  noteSeen(): void {
    // An empty record still shows how far the fill has come.
    const seen = this.#assembler.begun?.slice() ?? new Uint8Array();
    this.#options.witness.note(this.frontier - seen.length, seen);
  }

  /** Ends the transfer; `run` rejects with the error. */
  stop(error: ProxyError): void {
    this.#stopping.abort(error);
    this.#body?.close();
  }

  /** Ends the transfer after the incomplete block, so that its bytes are not lost; at once where there is none. */
  stopAfterBlock(error: ProxyError): void {
    const { blockSizeBytes } = this.#options;
    const start = Math.floor(this.frontier / blockSizeBytes) * blockSizeBytes;
    if (start === this.frontier) this.stop(error);
    else this.#limit = Math.min(this.#limit, start + blockSizeBytes);
  }

  /** Runs to the limit, beginning with `first` if the origin is already sending it. Rejects with `ProxyError` when it is given up. */
  async run(first: Part | undefined): Promise<void> {
    const { clock, retry, host, blockSizeBytes } = this.#options;
    const budget = createRetryBudget(retry, this.frontier);
    const { signal } = this.#stopping;
    let reached = this.frontier;
    for (let part = first; ; part = undefined) {
      try {
        if (await this.#advance(part)) return;
        // An origin that sends less than a block at a time is asked again only after a pause.
        const isEnough = this.frontier - reached >= Math.min(blockSizeBytes, this.#limit - reached);
        if (!isEnough || this.frontier <= reached) throw new ProxyError('origin_body_short');
      } catch (thrown) {
        const error = toProxyError(signal.aborted ? signal.reason : thrown);
        const delayMs = signal.aborted || !host.mayResume(this, error) ? undefined : budget.next(this.frontier);
        if (delayMs === undefined) throw error;
        await pause(clock, delayMs, signal);
        this.#resumptions += 1;
      }
      reached = this.frontier;
    }
  }

  /** Reads one part to its end: `first`, or a part that it requests. True when no further part is needed. */
  async #advance(first: Part | undefined): Promise<boolean> {
    const { signal } = this.#stopping;
    let part = first;
    try {
      signal.throwIfAborted();
      part ??= await this.#options.host.fetch(this, this.frontier, this.#limit, signal);
      if (part === undefined) {
        this.#limit = this.frontier;
        return true;
      }
      this.#body = part.body;
      // The time without a connection says nothing about the speed of this one.
      this.#measuredFrom = this.#measuredNext = this.#progress;
      signal.throwIfAborted();
      if (part.isWhole && this.frontier > 0) this.startAgain(!part.isProven || this.#options.host.isDoubting);
      this.#isWhole = part.isWhole;
      return await this.#take(part);
    } finally {
      part?.body.close();
      this.#body = undefined;
    }
  }

  /**
   * Begins anew at byte 0, because the origin sends the whole instead of the rest. Absent blocks before the frontier are kept too.
   * With `isCompared`, the bytes of the incomplete block must be the same when they come again.
   */
  startAgain(isCompared: boolean): void {
    const { blockSizeBytes, sizeBytes } = this.#options;
    if (isCompared) this.noteSeen();
    this.#isWhole = true;
    this.#assembler = new BlockAssembler(blockSizeBytes, sizeBytes, 0);
    this.#from = 0;
    this.#keptTo = 0;
    this.#limit = sizeBytes ?? Number.POSITIVE_INFINITY;
  }

  /** True when the fill has reached its limit, or bytes that it need not bring; false when the part was shorter than requested. */
  async #take(part: Part): Promise<boolean> {
    const hash = part.digest === undefined ? undefined : createHash(part.digest.algorithm);
    const chunks = new Chunks(part.body);
    for (let at = part.from; ; ) {
      // Arrived chunks are taken without `await`: promises would be most of the cost of a small body.
      const coming = this.#next(chunks);
      const chunk = coming instanceof Promise ? await coming : coming;
      if (chunk === undefined) {
        this.#stopping.signal.throwIfAborted();
        return await this.#end(part, at);
      }
      this.#received += chunk.length;
      this.#measure();
      // Bytes behind the stated end do not belong to the part.
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

  /** Takes the next chunk, once a reader is near. The time until then does not count for the speed. */
  #next(chunks: Chunks): ReturnType<Chunks['next']> {
    const { host } = this.#options;
    if (host.isDue(this)) return chunks.next();
    return host.whenDue(this, this.#stopping.signal).then(() => {
      this.#measuredFrom = this.#measuredNext = this.#progress;
      return chunks.next();
    });
  }

  get #progress(): Progress {
    return { at: this.#options.clock.now(), received: this.#received };
  }

  #measure(): void {
    const progress = this.#progress;
    if (progress.at - this.#measuredNext.at < speedWindowMs) return;
    this.#measuredFrom = this.#measuredNext;
    this.#measuredNext = progress;
  }

  /** Whether a part need not be read beyond `at`. Throws `generation_changed` when the whole has more bytes than the known length. */
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

  /** Appends the new bytes of a chunk that begins at offset `at`, up to offset `end` (exclusive), or up to the end of the block. */
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

  /** Keeps a block, and further blocks that the same chunk completes. True when the fill has reached bytes that it need not bring. */
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

/** Size of the first allocation for a body of unknown length: most of these bodies are small. */
const FIRST_ALLOCATION_BYTES = 16 * 1024;

const noBytes = new Uint8Array();

/**
 * Assembles blocks. A chunk that is a whole block becomes the block without a copy. Appended bytes are never overwritten, because
 * readers hold slices of them: a buffer is only appended to, and replaced by a larger one when it must grow.
 */
export class BlockAssembler {
  readonly #blockSizeBytes: number;
  readonly #sizeBytes: number | undefined;
  #index: number;
  #filled = 0;
  #isEnded = false;
  /** Allocated with the first byte of the block. */
  #buffer: Uint8Array = noBytes;

  /** `sizeBytes` is the length of the whole where it is known; `firstIndex` is the index of the first block. */
  constructor(blockSizeBytes: number, sizeBytes: number | undefined, firstIndex = 0) {
    this.#index = firstIndex;
    this.#blockSizeBytes = blockSizeBytes;
    this.#sizeBytes = sizeBytes;
  }

  /** Where the next byte belongs. */
  get frontier(): number {
    return this.#index * this.#blockSizeBytes + this.#filled;
  }

  /** Returns the bytes of the incomplete block, if it has this index and is not empty. */
  blockAt(index: number): Uint8Array | undefined {
    return index === this.#index ? this.begun : undefined;
  }

  /** The bytes of the incomplete block; undefined where there are none. */
  get begun(): Uint8Array | undefined {
    return this.#filled > 0 ? this.#buffer.subarray(0, this.#filled) : undefined;
  }

  /** Appends bytes of `chunk` from index `from` on, at most to the end of the block; returns how many. The block must not be full. */
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

  /** Returns the block when it is full, and begins the next one; also the last block of a known length. Undefined otherwise. */
  seal(): SealedBlock | undefined {
    const isLast = this.#filled > 0 && this.frontier === this.#sizeBytes;
    if (this.#filled < this.#blockSizeBytes) return isLast ? this.sealLast() : undefined;
    const sealed = { index: this.#index, bytes: this.#buffer };
    this.#index += 1;
    this.#filled = 0;
    this.#buffer = noBytes;
    return sealed;
  }

  /** Returns the last block in memory of exactly its size; undefined when it is empty or sealed. Nothing may be appended after it. */
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

  /** Bytes to allocate for the block: its length, or a guess where the length of the body is not known. */
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

/** Allocates memory outside the shared pool, so that a kept block retains no other memory. */
function allocate(sizeBytes: number): Uint8Array {
  return Buffer.allocUnsafeSlow(sizeBytes);
}

interface Seen {
  readonly start: number;
  readonly bytes: Uint8Array;
}

/** Incomplete blocks of one generation that readers may have seen, from all transfers that broke off. */
export class Witness {
  #all: readonly Seen[] = [];

  /** Records bytes at offset `start`. They must agree with all earlier records, and must not change afterwards. */
  note(start: number, bytes: Uint8Array): void {
    const seen = { start, bytes };
    if (this.#all.some((other) => isWithin(seen, other))) return;
    this.#all = [...this.#all.filter((other) => !isWithin(other, seen)), seen];
  }

  /** Checks whether some of these bytes at `offset` differ from the records. */
  contradicts(offset: number, bytes: Uint8Array): boolean {
    return this.#all.some((seen) => {
      const start = Math.max(offset, seen.start);
      const end = Math.min(offset + bytes.length, endOf(seen));
      if (start >= end) return false;
      const own = seen.bytes.subarray(start - seen.start, end - seen.start);
      return Buffer.compare(own, bytes.subarray(start - offset, end - offset)) !== 0;
    });
  }

  /** Checks whether a record reaches beyond `offset`. */
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

/** Limits and pauses of a retry budget. */
export interface RetryRules {
  /** Number of consecutive attempts that may fail without a byte of progress between them. */
  readonly maxAttempts: number;
  /** The first pause in milliseconds; each further one is twice as long, up to the longest. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
}

/** Counts failed attempts. Progress resets the count. */
interface RetryBudget {
  /** Returns the pause before the next attempt, in milliseconds; undefined when no attempt is left. `frontier` shows the progress. */
  next(frontier: number): number | undefined;
}

/** Creates a budget that starts at `frontier`. */
export function createRetryBudget(rules: RetryRules, frontier: number): RetryBudget {
  let reached = frontier;
  let failures = 0;
  return {
    next(current) {
      if (current > reached) failures = 0;
      reached = Math.max(reached, current);
      failures += 1;
      if (failures > rules.maxAttempts) return undefined;
      return Math.min(rules.maxDelayMs, rules.firstDelayMs * 2 ** (failures - 1));
    },
  };
}

/** Waits; rejects with the signal's reason when the signal aborts meanwhile. */
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
