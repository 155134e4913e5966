/**
 * Schedules the fills of one generation, so that its absent bytes come: which fills run, when they end, and what follows when
 * one breaks off. `fetch-decision.ts` decides from numbers which bytes are asked for.
 */

import type { Span } from '../../bytes/span.ts';
import type { Clock } from '../../http/clock.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { Errand } from '../../origin/origin.ts';
import { decideUnwanted, errandOf, type FillPolicy, growsOpenRanges, mayComplete } from '../inquiry.ts';
import type { BlockKeeper } from './blocks.ts';
import { type Coming, decideFetch, isComing, nearestFill, type Outlook } from './fetch-decision.ts';
import { type Arrived, Fill, type FillHost, isFatal, type RetryRules, Witness } from './fill.ts';
import type { FirstPart, Part, PartHead, PartSource } from './part-source.ts';
import type { Visitor } from './readers.ts';

/** How a transfer ended; `kept`: all of it is stored, and the generation is not whole yet. */
export type FillResult = 'stored' | 'same' | 'kept' | 'relayed' | 'failed' | 'stopped';

/** What is told of a transfer that is over; `bytes` came from the origin. */
interface FillEnd {
  readonly result: FillResult;
  readonly bytes: number;
  /** How often it broke off and was taken up again. */
  readonly resumptions: number;
  readonly durationMs: number;
  readonly error: ProxyError | undefined;
}

/**
 * How a byte that was demanded comes: by a fill that was begun for it, by one that runs, or by one that is expected there within
 * `seekAheadMs`.
 */
export type Supplied =
  | { readonly kind: 'begun'; readonly fill: Fill }
  | { readonly kind: 'coming' | 'expected'; readonly fill: Fill | undefined };

/** The rules of a supply. */
export interface FillSchedulerRules {
  readonly blockSizeBytes: number;
  readonly policy: FillPolicy;
  readonly retry: RetryRules;
  readonly clock: Clock;
  readonly source: PartSource;
  /** The unread transfers of each client, of all generations. */
  readonly unread: UnreadTransfers;
  /** Told when a transfer begins, and when it turns out not to, because of a limit. Does not throw. */
  readonly onFillStart: (kind: 'begun' | 'called_off') => void;
  /** Told when one that has begun is over. Does not throw. */
  readonly onFill: (end: FillEnd) => void;
}

/** The generation, as its supply needs it. */
export interface FillSchedulerHost {
  /** The length of the whole; undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  readonly keeper: Pick<BlockKeeper, 'present' | 'isStoring' | 'isDoubting' | 'doubt'>;
  /** Why no bytes may be fetched for it any more. */
  readonly dead: ProxyError | undefined;
  /** Whether more than what is read is worth having: others may find it. */
  readonly isJoinable: boolean;
  readonly readerCount: number;
  /** Whether a reader may ask for some of these bytes. */
  isWanted(span: Span): boolean;
  /** The clients of those readers. */
  wanters(span: Span): readonly string[];
  /** Takes the fields that came with a part. Does not throw. */
  learn(head: PartHead): Promise<void>;
  /** Takes a block. Throws `ProxyError` `generation_changed`. */
  keep(block: Arrived): Promise<void>;
  /** Takes note that a transfer has reached its end; `frontier` is where. Throws `ProxyError`. */
  settle(frontier: number): Promise<FillResult>;
  /** Takes note that a transfer was given up, and what it would have brought. */
  fail(error: ProxyError, span: Span): Promise<void>;
  /** Something has come, or will not. */
  moved(): void;
  /** Nothing is on its way any more. */
  idle(): void;
}

/** The fills of one generation. */
export class FillScheduler implements FillHost {
  readonly #rules: FillSchedulerRules;
  readonly #host: FillSchedulerHost;
  readonly #running: RunningFills;
  readonly #witness = new Witness();
  /** How long the origin took to answer the last two times. */
  #latenciesMs: readonly number[] = [0];

  constructor(rules: FillSchedulerRules, host: FillSchedulerHost) {
    this.#rules = rules;
    this.#host = host;
    this.#running = new RunningFills(rules.blockSizeBytes);
  }

  get isIdle(): boolean {
    return this.#running.size === 0;
  }

  /** How long the origin takes to answer: the shorter of the last two times, so that one slow answer counts for nothing; 0 at first. */
  get latencyMs(): number {
    return Math.min(...this.#latenciesMs);
  }

  /** Bytes that the origin has sent. */
  get received(): number {
    return this.#running.received;
  }

  /** Bytes from `offset` on, of a block that is arriving. */
  peek(offset: number, end: number): Uint8Array | undefined {
    return this.#running.peek(offset, end);
  }

  /** Whether an absent byte is on its way. */
  brings(offset: number): boolean {
    return this.#running.bring(offset);
  }

  /** Where the transfer ends that brings an absent byte. */
  comingEnd(offset: number): number {
    return this.#running.nearest(offset)?.limit ?? offset;
  }

  /** Whether what comes has come as far as `end`. */
  hasReached(end: number): boolean {
    return this.#running.hasReached(end);
  }

  /** What can be expected. */
  get outlook(): Outlook {
    const { blockSizeBytes, policy, source } = this.#rules;
    const { sizeBytes, keeper } = this.#host;
    return {
      sizeBytes,
      blockSizeBytes,
      present: keeper.present,
      fills: this.#running.coming,
      mayAskForParts: source.mayAskForParts,
      seekAheadBytes: policy.seekAheadBytes,
      seekAheadMs: policy.seekAheadMs,
      growsOpenRanges: sizeBytes !== undefined && growsOpenRanges(policy, sizeBytes),
    };
  }

  /** Takes up what the origin is sending already. */
  begin(first: FirstPart): void {
    const { blockSizeBytes } = this.#rules;
    const start = Math.ceil(first.from / blockSizeBytes) * blockSizeBytes;
    this.#start({ start, end: first.end ?? Number.POSITIVE_INFINITY }, first.errand, first);
  }

  /**
   * Sees to it that an absent byte comes, for a reader on the way to `end`: by a fill that runs, or by one that was begun. One that is expected is
   * to be asked for again if it has not come by then. `gone` where the byte cannot be had any more: no strong validator names it, and
   * the store took no more and the byte has passed, or what follows could not be compared before it is given. `paceBytes`: see `Need`.
   */
  demand(offset: number, end: number, { client, open }: Visitor, paceBytes: number): Supplied | 'gone' {
    const { blockSizeBytes, source } = this.#rules;
    const { present, isStoring } = this.#host.keeper;
    const decision = decideFetch({ ...this.outlook, offset, end, openFrom: open?.from, paceBytes });
    if (decision.kind !== 'fetch') {
      const fill = this.#running.nearest(offset);
      fill?.errand.onWanted?.(client);
      return { kind: decision.kind === 'wait' ? 'coming' : 'expected', fill };
    }
    if (!isStoring && !source.isProvable) return 'gone';
    const isFollowed = present.firstAfter(Math.floor(offset / blockSizeBytes)) !== undefined;
    if (isFollowed && !source.isProvable) return 'gone';
    return { kind: 'begun', fill: this.#start(decision.span, errandOf({ client })) };
  }

  /** Ends the transfers that nobody wants: at once, or with their block where the rest can be had later. */
  endUnwanted(): void {
    for (const fill of this.#running) {
      const isDone = fill.frontier >= fill.limit;
      if (isDone || !this.isUnread(fill)) continue;
      // What the store does not take is of no use later.
      const isOfUse = this.#host.keeper.isStoring && this.#decideUnwanted(fill) === 'finish';
      if (isOfUse && this.#mayGoOnUnread(fill)) continue;
      const error = new ProxyError('client_gone', { detail: 'nobody reads it any more' });
      if (this.#rules.policy.onAbort === 'finish' && this.#rules.source.givesParts) fill.stopAfterBlock(error);
      else fill.stop(error);
    }
  }

  /** Fetches what is absent for its own sake, when nothing else comes, on the account of a client. */
  complete(client: string): void {
    const { blockSizeBytes, policy, source, unread } = this.#rules;
    const { sizeBytes, keeper, isJoinable } = this.#host;
    const { present } = keeper;
    if (!this.isIdle || sizeBytes === undefined || !isJoinable || !source.mayAskForParts) return;
    if (!mayComplete(policy, sizeBytes) || !unread.hasRoom(client, policy.finishMaxPerClient)) return;
    const missing = present.firstMissing({ start: 0, end: Math.ceil(sizeBytes / blockSizeBytes) });
    if (missing !== undefined) {
      const span = { start: missing.start * blockSizeBytes, end: missing.end * blockSizeBytes };
      const fill = this.#start(span, errandOf({ client }));
      unread.mayGoOn(client, fill, policy.finishMaxPerClient);
    }
  }

  /** Ends all of it. */
  stop(error: ProxyError): void {
    for (const fill of this.#running) fill.stop(error);
  }

  async fetch(fill: Fill, start: number, end: number, signal: AbortSignal): Promise<Part | undefined> {
    const { source, clock } = this.#rules;
    const askedAt = clock.now();
    const mayAsk = source.mayAskForParts;
    const given = mayAsk ? await source.fetchPart(start, end, fill.errand, signal) : undefined;
    this.#latenciesMs = [...this.#latenciesMs.slice(-1), clock.now() - askedAt];
    // A part is of no use where another fill has met a lie meanwhile.
    const asked = given?.isWhole === false && source.isDoubted ? undefined : given;
    if (asked === undefined) given?.body.close();
    if (source.isDoubted) this.#doubt(fill);
    const isOfUse = asked !== undefined && (!asked.isWhole || start === 0);
    if (!isOfUse && this.#isComing({ start, end }, fill)) {
      asked?.body.close();
      return undefined;
    }
    // Other fills see at once that it brings all of it.
    if (mayAsk && asked === undefined) fill.startAgain(true);
    const part = asked ?? (await source.fetchWhole(fill.errand, signal));
    if (part.head !== undefined) await this.#host.learn(part.head);
    return part;
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
    this.#host.moved();
  }

  isUnread({ frontier, limit }: Fill): boolean {
    return !this.#host.isWanted({ start: frontier, end: limit });
  }

  /** A fill ends where a long enough run is there already; a short one is not worth another request. */
  isAheadCovered(fill: Fill, offset: number): boolean {
    const { blockSizeBytes, policy, source } = this.#rules;
    const { sizeBytes, keeper } = this.#host;
    const { present } = keeper;
    if (!source.mayAskForParts || sizeBytes === undefined) return false;
    const runEnd = present.endOfRun(offset / blockSizeBytes) * blockSizeBytes;
    const coveredEnd = Math.min(sizeBytes, this.#running.coveredEnd(fill, offset, runEnd));
    return coveredEnd - offset > policy.seekAheadBytes || (coveredEnd > offset && coveredEnd >= fill.limit);
  }

  mayResume(error: ProxyError): boolean {
    const { dead, keeper, readerCount } = this.#host;
    if (dead !== undefined || error.source !== 'origin' || isFatal(error)) return false;
    // An origin that closes TLS so does it each time.
    if (error.code === 'origin_tls_truncated') return false;
    // What a store did not keep cannot be compared with a second transfer.
    if (!keeper.isStoring && !this.#rules.source.mayAskForParts) return false;
    return readerCount > 0 || this.#decideUnwanted() === 'finish';
  }

  /** Nothing that parts have brought is given any more before it was compared with the whole; the other fills that bring parts end. */
  #doubt(fill: Fill): void {
    if (this.isDoubting) return;
    this.#host.keeper.doubt();
    const error = new ProxyError('client_gone', { detail: 'the whole is fetched in place of a part' });
    for (const other of this.#running) if (other !== fill && !other.isWhole) other.stop(error);
  }

  /**
   * Whether all that a fill is to bring is there or comes by another one, so that it may end. Where some of it does not, a reader of that
   * would start the next fill at once, which would end for the same reason, again and again without a turn of the event loop.
   */
  #isComing({ start, end }: Span, fill: Fill): boolean {
    const { blockSizeBytes } = this.#rules;
    const { sizeBytes, keeper } = this.#host;
    // Where the length is not known, a fill that has ended tells it: none ends early then.
    if (sizeBytes === undefined) return false;
    const limit = Math.min(end, sizeBytes);
    const blocks = { start: Math.floor(start / blockSizeBytes), end: Math.ceil(limit / blockSizeBytes) };
    const absent = keeper.present.firstMissing(blocks);
    return absent === undefined || this.#running.bringAll({ start: absent.start * blockSizeBytes, end: limit }, fill);
  }

  /** What a block would bring has mostly been sent by now: to end it costs a connection and saves little. */
  #mayGoOnUnread(fill: Fill): boolean {
    const { blockSizeBytes, policy, unread } = this.#rules;
    const limit = Math.min(fill.limit, this.#host.sizeBytes ?? Number.POSITIVE_INFINITY);
    if (limit - fill.frontier <= blockSizeBytes) return true;
    return unread.mayGoOn(fill.errand.client, fill, policy.finishMaxPerClient);
  }

  #decideUnwanted(fill?: Fill): 'finish' | 'stop' {
    const { policy, source } = this.#rules;
    const { sizeBytes } = this.#host;
    const limit = fill === undefined || fill.limit === Number.POSITIVE_INFINITY ? sizeBytes : fill.limit;
    const leftBytes = limit === undefined || fill === undefined ? undefined : limit - fill.frontier;
    return decideUnwanted(policy, { givesParts: source.givesParts, sizeBytes, leftBytes });
  }

  #start({ start, end }: Span, errand: Errand, first?: Part): Fill {
    const { blockSizeBytes, clock, retry } = this.#rules;
    const { sizeBytes } = this.#host;
    const limit = Math.min(end, sizeBytes ?? Number.POSITIVE_INFINITY);
    const firstIndex = start / blockSizeBytes;
    const witness = this.#witness;
    const fill = new Fill({ host: this, clock, retry, errand, witness, blockSizeBytes, sizeBytes, firstIndex, limit });
    const wanters = () => this.#host.wanters({ start: fill.frontier, end: fill.limit });
    Object.assign(errand, { wanters });
    this.#running.add(fill);
    void this.#follow(fill, first);
    return fill;
  }

  /** Never rejects. */
  async #follow(fill: Fill, first: Part | undefined): Promise<void> {
    const { blockSizeBytes, clock, onFillStart, onFill } = this.#rules;
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
      // What had come of a block goes with the fill.
      if (!this.#rules.source.isProvable || this.isDoubting) fill.noteSeen();
      const start = Math.floor(fill.frontier / blockSizeBytes) * blockSizeBytes;
      if (!isBeyondLimit(error)) await this.#host.fail(error, { start, end: fill.limit });
      else if (fill.received === 0) fill.refusal = error;
    }
    this.#running.remove(fill);
    this.#rules.unread.forget(fill.errand.client, fill);
    const { received: bytes, resumptions } = fill;
    if (fill.refusal !== undefined) onFillStart('called_off');
    else onFill({ result, bytes, resumptions, durationMs: clock.now() - startedAt, error });
    this.moved();
    if (error === undefined) this.complete(fill.errand.client);
    if (this.isIdle) this.#host.idle();
  }
}

/** A set of running fills. */
class RunningFills implements Iterable<Fill> {
  readonly #blockSizeBytes: number;
  readonly #fills = new Set<Fill>();
  #receivedBefore = 0;

  constructor(blockSizeBytes: number) {
    this.#blockSizeBytes = blockSizeBytes;
  }

  get size(): number {
    return this.#fills.size;
  }

  /** Bytes that the origin has sent, through all fills that there were. */
  get received(): number {
    return [...this.#fills].reduce((sum, fill) => sum + fill.received, this.#receivedBefore);
  }

  get coming(): readonly Coming[] {
    return [...this.#fills];
  }

  add(fill: Fill): void {
    this.#fills.add(fill);
  }

  /** Forgets a fill that has ended. */
  remove(fill: Fill): void {
    if (this.#fills.delete(fill)) this.#receivedBefore += fill.received;
  }

  [Symbol.iterator](): Iterator<Fill> {
    return [...this.#fills][Symbol.iterator]();
  }

  /** Bytes from `offset` on that lie in a block which is arriving. */
  peek(offset: number, end: number): Uint8Array | undefined {
    const index = Math.floor(offset / this.#blockSizeBytes);
    const start = index * this.#blockSizeBytes;
    for (const fill of this.#fills) {
      const block = fill.blockAt(index);
      if (block === undefined || start + block.length <= offset) continue;
      return block.subarray(offset - start, Math.min(end - start, block.length));
    }
    return undefined;
  }

  /** Whether an absent byte will come. */
  bring(offset: number): boolean {
    return [...this.#fills].some((fill) => isComing(fill, offset));
  }

  /** The fill that brings an absent byte first. */
  nearest(offset: number): Fill | undefined {
    return nearestFill([...this.#fills], offset);
  }

  /** Whether all of these bytes will come by another fill than this one. */
  bringAll({ start, end }: Span, besides: Fill): boolean {
    return [...this.#fills].some((fill) => fill !== besides && isComing(fill, start) && end <= fill.limit);
  }

  /** Whether some fill has come as far as `end`. */
  hasReached(end: number): boolean {
    return [...this.#fills].some((fill) => fill.frontier >= end);
  }

  /** How far the bytes from `offset` on are there or coming by others, where a run that is there ends at `runEnd`. */
  coveredEnd(fill: Fill, offset: number, runEnd: number): number {
    let coveredEnd = runEnd;
    for (const other of this.#fills) {
      const block = Math.floor(other.frontier / this.#blockSizeBytes) * this.#blockSizeBytes;
      // One that is behind would be there too late, and one that has brought nothing yet may turn out to bring the whole anew.
      const isAhead = block >= offset && block <= runEnd;
      if (other !== fill && other.received > 0 && isAhead) coveredEnd = Math.max(coveredEnd, other.limit);
    }
    return coveredEnd;
  }
}

/** A transfer, or an exchange that has not brought its head yet. */
interface UnreadTransfer {
  readonly isUnread: boolean;
}

/** Counts unread transfers by client. A transfer that is read again does not count until its last reader leaves again. */
export class UnreadTransfers {
  readonly #byClient = new Map<string, Set<UnreadTransfer>>();

  /** Whether a transfer may go on unread, where `most` of its client may at a time. It counts until `forget`. */
  mayGoOn(client: string, transfer: UnreadTransfer, most: number): boolean {
    if (most === Number.POSITIVE_INFINITY) return true;
    if (!this.hasRoom(client, most, transfer)) return false;
    this.#byClient.set(client, (this.#byClient.get(client) ?? new Set()).add(transfer));
    return true;
  }

  /** Whether one more may be unread, besides those that are and are not this one. */
  hasRoom(client: string, most: number, transfer?: UnreadTransfer): boolean {
    let others = 0;
    for (const other of this.#byClient.get(client) ?? []) if (other !== transfer && other.isUnread) others += 1;
    return others < most;
  }

  /** The transfer has ended. */
  forget(client: string, transfer: UnreadTransfer): void {
    const transfers = this.#byClient.get(client);
    if (transfers?.delete(transfer) === true && transfers.size === 0) this.#byClient.delete(client);
  }
}

const codes: ReadonlySet<string> = new Set(['origin_share_spent', 'origin_busy', 'too_many_requests']);

/** Whether an exchange was refused, or ended, because of a limit: of the route, or of the client that it was for. */
export function isBeyondLimit({ code }: ProxyError): boolean {
  return codes.has(code);
}

/**
 * Whether such a refusal, which one client got, holds for another request too that has waited for the same. A limit of the
 * route is one for all of them; a limit of a client is one for its own requests, and others ask for themselves.
 */
export function isRefusedTo(client: string, refusal: ProxyError, refused: string): boolean {
  return refusal.code === 'origin_busy' || client === refused;
}
