/**
 * Schedules the fills of one generation: which fills run, when they end, and what follows when one breaks off.
 * `fetch-decision.ts` decides which bytes are requested.
 */

import { type Span, SpanSet } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { ChargedClients } from '../../origin/origin.ts';
import {
  chargeTo,
  decideUnread,
  type FillPolicy,
  growsOpenRanges,
  mayBeEndless,
  mayComplete,
  unreadLookMs,
} from '../inquiry.ts';
import type { BlockKeeper } from './blocks.ts';
import {
  decideFetch,
  isComing,
  nearestFill,
  nextPart,
  type Outlook,
  openLimit,
  repeatedBytes,
  wholeBlocks,
} from './fetch-decision.ts';
import { type Arrived, Fill, type FillHost, isFatal, type RetryRules, Witness } from './fill.ts';
import type { FirstPart, Part, PartHead, PartSource } from './part-source.ts';
import type { Visitor } from './readers.ts';

/** How a fill ended; `kept`: all of its blocks are stored, and the generation is not whole yet. */
export type FillResult = 'stored' | 'same' | 'kept' | 'relayed' | 'failed' | 'stopped';

/** Bytes that a fill would have brought if it had not met a part of them, and the clients that it was charged to. */
interface Tail {
  readonly span: Span;
  readonly client: string;
}

/** The report of an ended fill. `bytes` is the number of bytes that the origin sent. */
interface FillEnd {
  readonly result: FillResult;
  readonly bytes: number;
  /** How often it broke off and was resumed. */
  readonly resumptions: number;
  /** See `Fill.isPart`. */
  readonly isPart: boolean;
  readonly durationMs: number;
  readonly error: ProxyError | undefined;
}

/**
 * How a demanded byte comes: by a fill that was started for it (`begun`), by a running fill (`coming`), by a running fill that
 * should reach it soon (`expected`), or by a running fill unless the origin turns out to have ranges (`probing`).
 */
export type Supply =
  | { readonly kind: 'begun'; readonly fill: Fill }
  | { readonly kind: 'coming' | 'expected' | 'probing'; readonly fill: Fill | undefined };

/** How long no part begins after a limit has refused one, in milliseconds. */
const partsAgainMs = 1000;

const supplyKinds = { wait: 'coming', expect: 'expected', probe: 'probing' } as const;

/** The rules and callbacks of a fill scheduler. */
export interface FillSchedulerRules {
  readonly blockSizeBytes: number;
  readonly policy: FillPolicy;
  readonly retry: RetryRules;
  readonly clock: Clock;
  readonly source: PartSource;
  /** The unread transfers of each client, over all generations. */
  readonly unread: UnreadTransfers;
  /** Called when a fill begins, and with `called_off` when a limit then prevents it. Does not throw. */
  readonly onFillStart: (kind: 'begun' | 'called_off') => void;
  /** Called when a fill has ended, unless it was called off. Does not throw. */
  readonly onFill: (end: FillEnd) => void;
}

/** The generation, as its fill scheduler sees it. */
export interface FillSchedulerHost {
  /** The length of the whole; undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  readonly keeper: Pick<BlockKeeper, 'present' | 'isStoring' | 'isDoubting' | 'doubt'>;
  /** The error after which no more bytes may be fetched for it; undefined while they may. */
  readonly dead: ProxyError | undefined;
  /** Whether bytes that no reader wants are worth fetching, because later requests can find them. */
  readonly isJoinable: boolean;
  readonly readerCount: number;
  /** Whether a reader may ask for some of these bytes. */
  isWanted(span: Span): boolean;
  /** Whether a reader that has begun to read may ask for some of these bytes. */
  isRead(span: Span): boolean;
  /** See `Readers.need`. */
  isNeeded(span: Span, openLimit: (offset: number, from: number) => number): boolean;
  /** Waits until a condition holds; it is checked when readers move and bytes arrive. Rejects with the signal's reason. */
  when(isMet: () => boolean, signal: AbortSignal): Promise<void>;
  /** The clients of the readers that may ask for some of these bytes. */
  bodyClients(span: Span): readonly string[];
  /** Updates the response with the fields of a newer part. Does not throw. */
  learn(head: PartHead): Promise<void>;
  /** Keeps a block. Throws `ProxyError` `generation_changed`. */
  keep(block: Arrived): Promise<void>;
  /** Called when a fill has reached its end, at `frontier`. Throws `ProxyError`. */
  settle(frontier: number): Promise<FillResult>;
  /** Called when a fill was given up, with the span that it would have brought. */
  fail(error: ProxyError, span: Span): Promise<void>;
  /** Called when bytes have arrived, or will not arrive. */
  notifyReaders(): void;
  /** Called when no fill runs any more. */
  noteIdle(): void;
}

/** The fills of one generation. */
export class FillScheduler implements FillHost {
  readonly #rules: FillSchedulerRules;
  readonly #host: FillSchedulerHost;
  readonly #running = new Set<Fill>();
  /** Fills that go on unread, with the function that cancels the next look at each. */
  readonly #watched = new Map<Fill, () => void>();
  /** Fills whose readers have left a moment ago, with the function that cancels the end of each. */
  readonly #left = new Map<Fill, () => void>();
  /** Bytes that the origin has sent in fills that have ended. */
  #receivedBefore = 0;
  readonly #witness = new Witness();
  /** Running requests for parts that began when it was not known whether the origin has ranges. */
  #probes = 0;
  /** The last two response times of the origin, in milliseconds. */
  #latenciesMs: readonly number[] = [0];
  /** What is left of the spans of fills that ended because they met a part. */
  #tails: readonly Tail[] = [];
  /** The blocks of parts: those that have arrived, and those that running parts bring. */
  readonly #parts = new SpanSet();
  /** When the next part may begin, in epoch milliseconds: later where there was no connection to spare. */
  #partsAfter = 0;
  /** Fills that wait for their readers. */
  #paused = 0;
  /** The most fills that may run when a part begins; 1: no more parts begin. */
  #mostFills: number;
  /** Whether the origin has sent a part of this generation. */
  #hasGivenParts = false;

  constructor(rules: FillSchedulerRules, host: FillSchedulerHost) {
    this.#rules = rules;
    this.#host = host;
    this.#mostFills = rules.policy.parallel?.requests ?? 1;
  }

  get isIdle(): boolean {
    return this.#running.size === 0;
  }

  /** The shorter of the last two response times of the origin, so that a single slow response does not count; 0 at first. */
  get latencyMs(): number {
    return Math.min(...this.#latenciesMs);
  }

  /** Bytes that the origin has sent, over all fills, including ended ones. */
  get received(): number {
    return [...this.#running].reduce((sum, fill) => sum + fill.received, this.#receivedBefore);
  }

  /** Returns bytes from `offset` on, up to `end` (exclusive), of an incomplete block; undefined where there are none. */
  peek(offset: number, end: number): Uint8Array | undefined {
    const { blockSizeBytes } = this.#rules;
    const index = Math.floor(offset / blockSizeBytes);
    const start = index * blockSizeBytes;
    for (const fill of this.#running) {
      const block = fill.blockAt(index);
      if (block === undefined || start + block.length <= offset) continue;
      return block.subarray(offset - start, Math.min(end - start, block.length));
    }
    return undefined;
  }

  /** Checks whether a fill brings an absent byte. */
  brings(offset: number): boolean {
    return [...this.#running].some((fill) => isComing(fill, offset));
  }

  /** Returns the end (exclusive) of the fill that brings an absent byte first; `offset` where none brings it. */
  comingEnd(offset: number): number {
    return nearestFill([...this.#running], offset)?.limit ?? offset;
  }

  /** Checks whether the frontier of a fill has reached `end`. */
  hasReached(end: number): boolean {
    return [...this.#running].some((fill) => fill.frontier >= end);
  }

  /** See `Outlook.isProbing`. */
  get isProbing(): boolean {
    return this.#probes > 0 && !this.#rules.source.givesParts;
  }

  /** Which bytes are present, coming, or to be requested. */
  get outlook(): Outlook {
    const { blockSizeBytes, policy, source } = this.#rules;
    const { sizeBytes, keeper } = this.#host;
    return {
      sizeBytes,
      blockSizeBytes,
      present: keeper.present,
      fills: [...this.#running],
      mayAskForParts: source.mayAskForParts,
      isProbing: this.isProbing,
      seekAheadBytes: policy.seekAheadBytes,
      seekAheadMs: policy.seekAheadMs,
      latencyMs: this.latencyMs,
      growsOpenRanges: sizeBytes !== undefined && growsOpenRanges(policy, sizeBytes) && source.mayJoinParts,
    };
  }

  /** Starts a fill with the part that the origin is already sending. */
  begin(first: FirstPart): void {
    const { blockSizeBytes } = this.#rules;
    const start = Math.ceil(first.from / blockSizeBytes) * blockSizeBytes;
    this.#hasGivenParts = !first.isWhole;
    this.#start({ start, end: first.end ?? Number.POSITIVE_INFINITY }, first.charged, first);
  }

  /**
   * Ensures that an absent byte comes, for a reader that reads up to `end` (exclusive): by a running fill, or by a new one. An
   * `expected` byte that has not come after `seekAheadMs` must be demanded again, and a `probing` one when `isProbing` is false. Returns `gone` where the byte cannot be fetched
   * any more: no strong validator names the generation, and either the store takes no more, so that the byte was dropped, or later
   * blocks are present, which would be read before they can be compared. `paceBytes`: see `Need`.
   */
  demand(offset: number, end: number, { client, open }: Visitor, paceBytes: number): Supply | 'gone' {
    const { blockSizeBytes, source } = this.#rules;
    const { present, isStoring } = this.#host.keeper;
    const decision = decideFetch({ ...this.outlook, offset, end, openFrom: open?.from, paceBytes });
    if (decision.kind !== 'fetch') {
      const fill = nearestFill([...this.#running], offset);
      fill?.charged.onWanted?.(client);
      return { kind: supplyKinds[decision.kind], fill };
    }
    if (!isStoring && !source.isProvable) return 'gone';
    const isFollowed = present.firstAfter(Math.floor(offset / blockSizeBytes)) !== undefined;
    if (isFollowed && !source.isProvable) return 'gone';
    return { kind: 'begun', fill: this.#start(this.#cutToPart(decision.span, client), chargeTo({ client })) };
  }

  /**
   * Begins further parts of what running fills will bring to readers, where `fill.parallel` of the route permits it. Until the origin
   * has sent one, only one is requested.
   */
  beginParts(): void {
    const { blockSizeBytes, clock } = this.#rules;
    const most = this.#hasGivenParts ? this.#mostFills : Math.min(2, this.#mostFills);
    if (most <= this.#running.size || most === 1 || !this.#mayBeginParts || clock.now() < this.#partsAfter) return;
    while (this.#running.size < most) {
      const part = this.#nextPart();
      if (part === undefined) return;
      const { start, end } = part.span;
      this.#parts.add({ start: start / blockSizeBytes, end: Math.ceil(end / blockSizeBytes) });
      const onNeeded = () =>
        fill.stopAfterBlock(new ProxyError('client_gone', { detail: 'another request needs its connection' }));
      const fill = this.#start(part.span, { ...chargeTo(part), isSpare: true, onNeeded }, undefined, true);
    }
  }

  get #mayBeginParts(): boolean {
    const { policy, source } = this.#rules;
    const { sizeBytes, keeper, dead } = this.#host;
    const isLong = sizeBytes !== undefined && sizeBytes >= (policy.parallel?.minBytes ?? Number.POSITIVE_INFINITY);
    const mayAsk = source.givesParts && !source.isAskedOnce;
    return isLong && dead === undefined && keeper.isStoring && !this.isDoubting && mayAsk;
  }

  /** The part that a reader needs first, of all tails and of the fills that no part belongs to. */
  #nextPart(): Tail | undefined {
    const { blockSizeBytes, policy } = this.#rules;
    const { partBytes = 0 } = policy.parallel ?? {};
    const { present } = this.#host.keeper;
    const fills = [...this.#running];
    const longFills = fills
      .filter((fill) => !fill.isPart && fill.limit - fill.frontier > partBytes && this.isDue(fill))
      .map(({ frontier: start, limit: end, charged }): Tail => ({ span: { start, end }, client: charged.client }));
    this.#tails = this.#tails.filter(({ span }) => nextPart({ present, fills: [], blockSizeBytes }, span, partBytes));
    let nearest: { readonly part: Tail; readonly distance: number } | undefined;
    for (const { span: tail, client } of [...longFills, ...this.#tails]) {
      const span = nextPart({ present, fills, blockSizeBytes }, tail, partBytes);
      if (span === undefined || !this.#host.isRead(span)) continue;
      const blocks = { start: Math.floor(tail.start / blockSizeBytes), end: Math.ceil(tail.end / blockSizeBytes) };
      const arrived = (present.firstMissing(blocks)?.start ?? blocks.start) * blockSizeBytes;
      const distance = span.start - arrived;
      if (nearest === undefined || distance < nearest.distance) nearest = { part: { span, client }, distance };
    }
    return nearest?.part;
  }

  /** Returns the first part of a span where the rest is to come by parts beside it. */
  #cutToPart(span: Span, client: string): Span {
    const { blockSizeBytes, policy } = this.#rules;
    const end = span.start + wholeBlocks(policy.parallel?.partBytes ?? 0, blockSizeBytes) * blockSizeBytes;
    if (this.#mostFills <= 1 || !this.#hasGivenParts || span.end <= end || !this.#mayBeginParts) return span;
    this.#keepTail({ start: end, end: span.end }, client);
    return { start: span.start, end };
  }

  /** Ends the fills that no reader wants: at once, or after the incomplete block where the rest can be requested later. */
  endUnwanted(): void {
    for (const fill of [...this.#running]) {
      const isDone = fill.frontier >= fill.limit;
      if (isDone || !this.isUnread(fill)) continue;
      // Bytes that the store does not take are of no use later.
      const isOfUse = this.#host.keeper.isStoring && this.#decideUnread(fill) === 'finish';
      if (isOfUse && this.#mayGoOnUnread(fill)) this.#watch(fill);
      else if (this.#mayWaitForReturn(fill)) this.#waitForReturn(fill);
      else this.#endUnread(fill);
    }
  }

  /** Whether an unread fill is worth its connection for a moment: a part of it has arrived, and the rest would be requested again. */
  #mayWaitForReturn(fill: Fill): boolean {
    const { policy, source } = this.#rules;
    return policy.returnMs > 0 && fill.received > 0 && source.givesParts && this.#host.keeper.isStoring;
  }

  /**
   * Keeps an unread fill for a moment, without reading from its connection. A browser that seeks drops its request, and asks for the
   * same bytes again some milliseconds later. To end the first transfer would waste what the buffers of its connection hold, which
   * may be several megabytes. It ends at once where another request needs the connection.
   */
  #waitForReturn(fill: Fill): void {
    if (this.#left.has(fill)) return;
    const cancel = this.#rules.clock.after(this.#rules.policy.returnMs, () => this.#endWait(fill));
    this.#left.set(fill, cancel);
    const onNeeded = () => this.#endWait(fill);
    if (!fill.isPart) Object.assign(fill.charged, { onNeeded });
  }

  #endWait(fill: Fill): void {
    if (!this.#forgetLeft(fill)) return;
    if (this.isUnread(fill)) this.#endUnread(fill);
    this.moved();
  }

  /** Returns whether the fill was waiting for a reader. */
  #forgetLeft(fill: Fill): boolean {
    this.#left.get(fill)?.();
    if (!fill.isPart) fill.charged.onNeeded = undefined;
    return this.#left.delete(fill);
  }

  #endUnread(fill: Fill): void {
    const error = new ProxyError('client_gone', { detail: 'no client reads it any more' });
    if (this.#rules.policy.onAbort === 'finish' && this.#rules.source.givesParts) fill.stopAfterBlock(error);
    else fill.stop(error);
  }

  /** Looks at a fill that goes on unread from time to time, and ends it where it may be endless. */
  #watch(fill: Fill, unreadMs = unreadLookMs): void {
    if (this.#watched.has(fill)) return;
    const { received } = fill;
    const look = () => {
      this.#watched.delete(fill);
      if (!this.isUnread(fill)) return;
      const progress = { bytes: fill.received - received, unreadMs };
      if (mayBeEndless({ leftBytes: this.#leftBytes(fill) }, progress)) this.#endUnread(fill);
      else this.#watch(fill, unreadMs + unreadLookMs);
    };
    this.#watched.set(fill, this.#rules.clock.after(unreadLookMs, look));
  }

  /** Fetches absent bytes that no reader wants, where the policy says so and no fill runs. They are charged to `client`. */
  complete(client: string): void {
    const { blockSizeBytes, policy, source, unread } = this.#rules;
    const { sizeBytes, keeper, isJoinable } = this.#host;
    const { present } = keeper;
    if (!this.isIdle || sizeBytes === undefined || !isJoinable || !source.mayAskForParts) return;
    if (!mayComplete(policy, sizeBytes) || !unread.hasRoom(client, policy.finishMaxPerClient)) return;
    const missing = present.firstMissing({ start: 0, end: Math.ceil(sizeBytes / blockSizeBytes) });
    if (missing !== undefined) {
      const span = { start: missing.start * blockSizeBytes, end: missing.end * blockSizeBytes };
      const fill = this.#start(span, chargeTo({ client }));
      unread.mayGoOn(client, fill, policy.finishMaxPerClient);
    }
  }

  /** Stops all fills. */
  stop(error: ProxyError): void {
    for (const fill of [...this.#running]) fill.stop(error);
  }

  async fetch(fill: Fill, start: number, end: number, signal: AbortSignal): Promise<Part | undefined> {
    const part = fill.isPart
      ? await this.#fetchParallel(fill, start, end, signal)
      : await this.#fetchNext(fill, start, end, signal);
    if (part?.head !== undefined) await this.#host.learn(part.head);
    if (part?.isWhole === false && !this.#hasGivenParts) {
      this.#hasGivenParts = true;
      this.beginParts();
    }
    return part;
  }

  /**
   * Requests a part beside another fill. Where the answer is anything else, no more parts begin: other fills bring the bytes, and
   * find out what the answer means for the generation. Throws `ProxyError`.
   */
  async #fetchParallel(fill: Fill, start: number, end: number, signal: AbortSignal): Promise<Part> {
    const { source, clock } = this.#rules;
    const askedAt = clock.now();
    let detail = 'the answer to the request for a part is not that part';
    try {
      const part = await source.fetchPart(start, end, fill.charged, signal);
      this.#noteLatency(askedAt);
      if (part?.isWhole === false && !source.isDoubted) return part;
      part?.body.close();
    } catch (thrown) {
      const error = toProxyError(thrown);
      if (!isFatal(error)) throw error;
      detail = `a part of another version: ${error.detail ?? error.code}`;
    }
    this.#mostFills = 1;
    if (source.isDoubted) this.#doubt(fill);
    throw new ProxyError('origin_failed_rest', { detail });
  }

  async #fetchNext(fill: Fill, start: number, end: number, signal: AbortSignal): Promise<Part | undefined> {
    const { source, clock } = this.#rules;
    const askedAt = clock.now();
    const mayAsk = source.mayAskForParts;
    const fetched = mayAsk ? await this.#fetchPart(fill, start, end, signal) : undefined;
    if (mayAsk) this.#noteLatency(askedAt);
    // A part is of no use where another fill has found the origin lying meanwhile.
    const usable = fetched?.isWhole === false && source.isDoubted ? undefined : fetched;
    if (usable === undefined) fetched?.body.close();
    if (source.isDoubted) this.#doubt(fill);
    const isOfUse = usable !== undefined && (!usable.isWhole || start === 0);
    if (!isOfUse && this.#isComing({ start, end }, fill)) {
      usable?.body.close();
      return undefined;
    }
    // Before the next pause, so that other fills see that this one brings the whole.
    if (mayAsk && usable === undefined) fill.startAgain(true);
    return usable ?? (await source.fetchWhole(fill.charged, signal));
  }

  #noteLatency(askedAt: number): void {
    this.#latenciesMs = [...this.#latenciesMs.slice(-1), this.#rules.clock.now() - askedAt];
  }

  /** As `PartSource.fetchPart`. Readers that wait for what the answer shows of the origin decide again after it. */
  async #fetchPart(fill: Fill, start: number, end: number, signal: AbortSignal): Promise<Part | undefined> {
    const { source } = this.#rules;
    if (source.givesParts) return source.fetchPart(start, end, fill.charged, signal);
    this.#probes += 1;
    try {
      return await source.fetchPart(start, end, fill.charged, signal);
    } finally {
      this.#probes -= 1;
      this.moved();
    }
  }

  get isDoubting(): boolean {
    return this.#host.keeper.isDoubting;
  }

  doubt(fill: Fill, reason: string): void {
    this.#rules.source.doubt(reason);
    this.#doubt(fill);
    fill.startAgain(true);
  }

  keep(block: Arrived): Promise<void> {
    return this.#host.keep(block);
  }

  moved(): void {
    this.#host.notifyReaders();
  }

  isUnread(fill: Fill): boolean {
    const { frontier, limit } = fill;
    return !this.#host.isWanted(this.#isPaced(fill) ? this.#reach(fill) : { start: frontier, end: limit });
  }

  isDue(fill: Fill): boolean {
    if (this.#left.has(fill)) {
      if (this.isUnread(fill)) return false;
      this.#forgetLeft(fill);
    }
    if (!this.#isPaced(fill) || this.isUnread(fill)) return true;
    const { blockSizeBytes, policy } = this.#rules;
    const sizes = { blockSizeBytes, seekAheadBytes: policy.seekAheadBytes };
    return this.#host.isNeeded(this.#reach(fill), (offset, from) => openLimit(offset, from, sizes));
  }

  async whenDue(fill: Fill, signal: AbortSignal): Promise<void> {
    this.#paused += 1;
    try {
      await this.#host.when(() => this.isDue(fill), signal);
    } finally {
      this.#paused -= 1;
    }
  }

  /** Whether a fill waits for its readers. */
  get isPaused(): boolean {
    return this.#paused > 0;
  }

  /** Whether a fill may be one request for all of an open-ended range, which is not to run far ahead of its reader. */
  #isPaced(fill: Fill): boolean {
    const { policy, source } = this.#rules;
    const { sizeBytes, keeper } = this.#host;
    if (fill.isPart || fill.isWhole || sizeBytes === undefined || !growsOpenRanges(policy, sizeBytes)) return false;
    return keeper.isStoring && source.mayAskForParts;
  }

  /** The bytes that a paced fill may bring to a reader sooner than another request would, or than a fill ahead of it. */
  #reach({ frontier, limit }: Fill): Span {
    const { blockSizeBytes, policy } = this.#rules;
    const starts = [...this.#running].map((other) => other.frontier).filter((start) => start > frontier);
    const near = frontier + Math.max(blockSizeBytes, policy.seekAheadBytes);
    return { start: frontier, end: Math.min(limit, near, ...starts) };
  }

  /** Checks for a run of bytes that are present or coming. A fill ends at a long run; a short one is not worth another request. */
  isAheadCovered(fill: Fill, offset: number): boolean {
    const { blockSizeBytes, policy, source } = this.#rules;
    const { sizeBytes, keeper } = this.#host;
    const { present } = keeper;
    if (!source.mayAskForParts || sizeBytes === undefined) return false;
    if (policy.parallel !== undefined && !fill.isPart) this.#overtake(fill, offset);
    const runEnd = present.endOfRun(offset / blockSizeBytes) * blockSizeBytes;
    let comingEnd = runEnd;
    for (const other of this.#running) {
      const block = Math.floor(other.frontier / blockSizeBytes) * blockSizeBytes;
      // A fill behind `offset` would come too late. A fill that has received nothing yet may still begin anew with the whole.
      const isAhead = block >= offset && block <= runEnd;
      if (other !== fill && other.received > 0 && isAhead) comingEnd = Math.max(comingEnd, other.limit);
    }
    const coveredEnd = Math.min(sizeBytes, comingEnd);
    if (coveredEnd <= offset) return false;
    // No byte of a part comes twice.
    const isMet = !fill.isPart && this.#parts.has(offset / blockSizeBytes);
    const most = repeatedBytes(fill, { ...policy, latencyMs: this.latencyMs });
    const isLong = coveredEnd - offset > most || coveredEnd >= fill.limit;
    if ((isMet || isLong) && !fill.isPart) this.#keepTail({ start: offset, end: fill.limit }, fill.charged.client);
    return isMet || isLong;
  }

  /** Remembers bytes that are to come by parts, because the fill that would bring them ends. */
  #keepTail(span: Span, client: string): void {
    if (this.#mostFills > 1 && span.start < span.end) this.#tails = [...this.#tails, { span, client }];
  }

  /** Ends the parts that a fill has reached before their first byte came: a part is of no use where the fill is faster. */
  #overtake(fill: Fill, offset: number): void {
    for (const other of [...this.#running]) {
      if (!other.isPart || other === fill || other.received > 0 || other.frontier !== offset) continue;
      this.#mostFills = 1;
      other.stop(new ProxyError('client_gone', { detail: 'another transfer brings the part' }));
    }
  }

  /** Leaves the rest of a part to other fills. Where the origin refused the part, no more fills run than it has taken. */
  #giveBack({ frontier, limit }: Fill, error: ProxyError): void {
    const { blockSizeBytes, clock } = this.#rules;
    this.#parts.remove({ start: Math.floor(frontier / blockSizeBytes), end: Math.ceil(limit / blockSizeBytes) });
    if (isBeyondLimit(error)) this.#partsAfter = clock.now() + partsAgainMs;
    else if (error.code !== 'client_gone')
      this.#mostFills = Math.max(1, Math.min(this.#mostFills, this.#running.size - 1));
  }

  mayResume(fill: Fill, error: ProxyError): boolean {
    // Another fill brings the bytes where a part was refused.
    if (fill.isPart && (fill.received === 0 || this.#mostFills === 1)) return false;
    const { dead, keeper, readerCount } = this.#host;
    if (dead !== undefined || error.source !== 'origin' || isFatal(error)) return false;
    // An origin that closes TLS without close_notify, or refuses the rest, does so each time.
    if (error.code === 'origin_tls_truncated' || error.code === 'origin_refused_rest') return false;
    // Bytes that the store did not keep cannot be compared with a second transfer.
    if (!keeper.isStoring && !this.#rules.source.mayAskForParts) return false;
    return readerCount > 0 || this.#decideUnread() === 'finish';
  }

  /** Withholds the blocks of parts until they have been compared with the whole, and stops the other fills that bring parts. */
  #doubt(fill: Fill): void {
    if (this.isDoubting) return;
    this.#host.keeper.doubt();
    const error = new ProxyError('client_gone', { detail: 'the whole is fetched in place of a part' });
    for (const other of [...this.#running]) if (other !== fill && !other.isWhole) other.stop(error);
  }

  /**
   * Whether all bytes of a span are present or come by another fill, so that this fill may end. If it ended although some bytes do
   * not come, their reader would start the next fill at once, which would end for the same reason, again and again without a turn
   * of the event loop.
   */
  #isComing({ start, end }: Span, fill: Fill): boolean {
    const { blockSizeBytes } = this.#rules;
    const { sizeBytes, keeper } = this.#host;
    // Where the length is not known, the end of a fill determines it, so no fill may end early.
    if (sizeBytes === undefined) return false;
    const limit = Math.min(end, sizeBytes);
    const blocks = { start: Math.floor(start / blockSizeBytes), end: Math.ceil(limit / blockSizeBytes) };
    const absent = keeper.present.firstMissing(blocks);
    if (absent === undefined) return true;
    const from = absent.start * blockSizeBytes;
    return [...this.#running].some((other) => other !== fill && isComing(other, from) && limit <= other.limit);
  }

  /** A fill with at most one block left may always go on. Most of that is already on its way, and a stop would cost a connection. */
  #mayGoOnUnread(fill: Fill): boolean {
    const { blockSizeBytes, policy, unread } = this.#rules;
    const limit = Math.min(fill.limit, this.#host.sizeBytes ?? Number.POSITIVE_INFINITY);
    if (limit - fill.frontier <= blockSizeBytes) return true;
    return unread.mayGoOn(fill.charged.client, fill, policy.finishMaxPerClient);
  }

  #decideUnread(fill?: Fill): 'finish' | 'stop' {
    const { policy, source } = this.#rules;
    const { sizeBytes } = this.#host;
    const leftBytes = fill === undefined ? undefined : this.#leftBytes(fill);
    return decideUnread(policy, { givesParts: source.givesParts, sizeBytes, leftBytes });
  }

  /** Bytes that a fill has yet to bring; undefined while unknown. */
  #leftBytes({ limit, frontier }: Fill): number | undefined {
    const end = limit === Number.POSITIVE_INFINITY ? this.#host.sizeBytes : limit;
    return end === undefined ? undefined : end - frontier;
  }

  #start({ start, end }: Span, charged: ChargedClients, first?: Part, isPart = false): Fill {
    const { blockSizeBytes, clock, retry } = this.#rules;
    const { sizeBytes } = this.#host;
    const limit = Math.min(end, sizeBytes ?? Number.POSITIVE_INFINITY);
    const firstIndex = start / blockSizeBytes;
    const witness = this.#witness;
    const options = {
      host: this,
      clock,
      retry,
      charged,
      witness,
      blockSizeBytes,
      sizeBytes,
      firstIndex,
      limit,
      isPart,
    };
    const fill = new Fill(options);
    const bodyClients = () => this.#host.bodyClients({ start: fill.frontier, end: fill.limit });
    Object.assign(charged, { bodyClients });
    this.#running.add(fill);
    void this.#follow(fill, first);
    return fill;
  }

  /** Never rejects. */
  async #follow(fill: Fill, first: Part | undefined): Promise<void> {
    const { clock, onFillStart, onFill } = this.#rules;
    const startedAt = clock.now();
    onFillStart('begun');
    let result: FillResult;
    let error: ProxyError | undefined;
    try {
      await fill.run(first);
      result = await this.#host.settle(fill.frontier);
    } catch (thrown) {
      error = toProxyError(thrown);
      result = error.code === 'client_gone' || isBeyondLimit(error) ? 'stopped' : 'failed';
      await this.#noteFault(fill, error);
    }
    this.#running.delete(fill);
    this.#watched.get(fill)?.();
    this.#watched.delete(fill);
    this.#forgetLeft(fill);
    this.#receivedBefore += fill.received;
    this.#rules.unread.forget(fill.charged.client, fill);
    const { received: bytes, resumptions, isPart } = fill;
    if (fill.refusal !== undefined) onFillStart('called_off');
    else onFill({ result, bytes, resumptions, isPart, durationMs: clock.now() - startedAt, error });
    this.moved();
    this.beginParts();
    if (error === undefined) this.complete(fill.charged.client);
    if (this.isIdle) this.#host.noteIdle();
  }

  /** Settles what a fill that has ended early leaves to readers and to other fills. */
  async #noteFault(fill: Fill, error: ProxyError): Promise<void> {
    // The incomplete block is lost with the fill, but readers may have seen its bytes.
    if (!this.#rules.source.isProvable || this.isDoubting) fill.noteSeen();
    if (isBeyondLimit(error) && fill.received === 0) fill.refusal = error;
    const start = Math.floor(fill.frontier / this.#rules.blockSizeBytes) * this.#rules.blockSizeBytes;
    if (fill.isPart && !isFatal(error)) this.#giveBack(fill, error);
    else if (!isBeyondLimit(error)) await this.#host.fail(error, { start, end: fill.limit });
  }
}

/** A fill, or a flight whose response head has not arrived yet. */
interface UnreadTransfer {
  readonly isUnread: boolean;
}

/** Counts unread transfers by client. A transfer does not count while it has a reader again. */
export class UnreadTransfers {
  readonly #byClient = new Map<string, Set<UnreadTransfer>>();

  /** Checks whether a transfer may go on unread, where a client may have `most` at a time. It then counts until `forget`. */
  mayGoOn(client: string, transfer: UnreadTransfer, most: number): boolean {
    if (most === Number.POSITIVE_INFINITY) return true;
    if (!this.hasRoom(client, most, transfer)) return false;
    this.#byClient.set(client, (this.#byClient.get(client) ?? new Set()).add(transfer));
    return true;
  }

  /** Checks whether the client has fewer than `most` unread transfers, not counting `transfer`. */
  hasRoom(client: string, most: number, transfer?: UnreadTransfer): boolean {
    let others = 0;
    for (const other of this.#byClient.get(client) ?? []) if (other !== transfer && other.isUnread) others += 1;
    return others < most;
  }

  /** Removes a transfer that has ended. */
  forget(client: string, transfer: UnreadTransfer): void {
    const transfers = this.#byClient.get(client);
    if (transfers?.delete(transfer) === true && transfers.size === 0) this.#byClient.delete(client);
  }
}

const limitCodes: ReadonlySet<string> = new Set(['origin_share_spent', 'origin_busy', 'too_many_requests']);

/** Checks whether an exchange was refused or ended by a limit of the route, or of the client that it is charged to. */
export function isBeyondLimit({ code }: ProxyError): boolean {
  return limitCodes.has(code);
}

/**
 * Checks whether the refusal of client `refused` also holds for a waiting request of `client`. A limit of the route holds for all
 * clients. A limit of a client holds only for its own requests; other clients ask the origin themselves.
 */
export function refusalAppliesTo(client: string, refusal: ProxyError, refused: string): boolean {
  return refusal.code === 'origin_busy' || client === refused;
}
