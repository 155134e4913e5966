/** One transfer from the origin into one generation: from a block's start on, and taken up again where it breaks off. */

import { createHash } from 'node:crypto';
import { Chunks } from '../http/chunks.ts';
import type { Clock } from '../http/clock.ts';
import type { BodyStream } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Errand } from '../origin/origin.ts';
import { BlockAssembler, type SealedBlock } from './block-assembler.ts';
import type { Coming } from './fetch-decision.ts';
import { type Part, verifyContent } from './part.ts';
import { pause } from './pause.ts';
import { createRetryBudget, type RetryRules } from './retry-budget.ts';
import type { Witness } from './witness.ts';

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
export interface FillOptions {
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
