/**
 * One generation that is being read or filled: the blocks that are there, the fills that bring the others, and its readers.
 * It belongs to no client. Readers attach at any offset, get each byte as it arrives, and leave without harm to it. It is
 * published in part with its first block, and committed when all bytes are there and their digest is right.
 */

import { setImmediate } from 'node:timers/promises';
import type { Span } from '../../bytes/span.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { EntryWriter, StoreFault } from '../../store/store.ts';
import type { ByteReader, Representation } from '../answer.ts';
import type { ByteBudget } from '../read/read-ahead.ts';
import type { OpenGeneration } from './arrived-generation.ts';
import { BlockKeeper, type BodyCheck } from './blocks.ts';
import { BodyReader, type BodyReaderHost } from './body-reader.ts';
import type { WholeBody } from './commit.ts';
import type { Outlook } from './fetch-decision.ts';
import { type Arrived, isFatal } from './fill.ts';
import { type FillResult, FillScheduler, type FillSchedulerHost, type FillSchedulerRules } from './fill-scheduler.ts';
import type { FirstPart, PartHead } from './part-source.ts';
import { createWaiters, Failures, Readers, type Seat, type Visitor, type Waiters } from './readers.ts';

/** What a generation is made with. */
export interface GenerationOptions extends FillSchedulerRules {
  readonly response: StoredResponse;
  readonly sizeBytes: number | undefined;
  readonly writer: EntryWriter;
  /** Whether it can be found in the store already, or is not to be found before it is whole. */
  readonly isPublished: boolean;
  /** How many bytes of each fill are held for readers once the store takes no more. */
  readonly windowBytes: number;
  /** What readers may have read of the store before they ask for it. */
  readonly readAhead: ByteBudget;
  /** What the origin is sending already; undefined for a stored generation that is opened to be completed. */
  readonly first: FirstPart | undefined;
  /** Whether it was invalidated since it was asked for: it may be read, but not be stored. */
  readonly isRevoked: () => boolean;
  readonly check: BodyCheck;
  /** The response under the fields of a newer part; undefined, and no longer to be found, when they forbid storing it. Does not throw. */
  readonly learn: (response: StoredResponse, head: PartHead) => Promise<StoredResponse | undefined>;
  /** Makes the generation findable though blocks are absent. Throws `StoreFault`. */
  readonly publish: (response: StoredResponse) => Promise<void>;
  /** Makes the whole generation findable. Throws `StoreFault`. */
  readonly commit: (response: StoredResponse, body: WholeBody) => Promise<'stored' | 'same' | 'relayed'>;
  /** Told when the store took no more. Does not throw. */
  readonly onStoreFault: (fault: StoreFault) => void;
  /** Told when what is stored of it must go, and why. Does not throw. */
  readonly onUnusable: (error: ProxyError) => Promise<void>;
}

const doubted = new ProxyError('generation_changed', {
  detail: 'the origin lies about ranges, and the whole did not come',
});

/** A generation that is being read or filled. */
export class Generation implements OpenGeneration, FillSchedulerHost, BodyReaderHost {
  readonly #options: GenerationOptions;
  readonly #keeper: BlockKeeper;
  readonly #scheduler: FillScheduler;
  readonly #waiters: Waiters = createWaiters();
  readonly #readers: Readers;
  readonly #bodyReader: BodyReader;
  readonly #failures = new Failures();
  readonly #closed = Promise.withResolvers<void>();
  #response: StoredResponse;
  readonly #wholeness: Wholeness;
  #isPublished: boolean;
  #isWithdrawn = false;
  #isCommitted = false;
  #isStopped = false;
  #isClosed = false;
  /** Why no more bytes will come for good. */
  #dead: ProxyError | undefined;

  constructor(options: GenerationOptions) {
    this.#options = options;
    this.#response = options.response;
    this.#isPublished = options.isPublished;
    this.#scheduler = new FillScheduler(options, this);
    this.#readers = new Readers({
      createReader: (visitor) => this.#bodyReader.createReader(visitor),
      onMoved: (offset, end, visitor) => {
        if (!this.#keeper.isStoring) {
          this.#scheduler.endUnwanted();
          this.moved();
        }
        this.#bodyReader.lookAhead(offset, end, visitor);
      },
      onLeft: () => {
        this.#scheduler.endUnwanted();
        this.moved();
        this.idle();
      },
    });
    // Without spreads: there are many options, and this is done for each miss.
    const { blockSizeBytes, sizeBytes, writer, source, windowBytes, check, policy, clock, readAhead } = options;
    const waiters = this.#waiters;
    const keeper = new BlockKeeper({
      writer,
      blockSizeBytes,
      sizeBytes,
      source,
      windowBytes,
      isWanted: (span) => this.#readers.want(span),
      lowestWanted: (from) => (this.#isStopped ? undefined : this.#readers.lowest(from)),
      waiters,
      onStoreFault: options.onStoreFault,
    });
    this.#keeper = keeper;
    this.#wholeness = new Wholeness({ blockSizeBytes, sizeBytes, keeper, check });
    const scheduler = this.#scheduler;
    const failures = this.#failures;
    this.#bodyReader = new BodyReader(
      { blockSizeBytes, policy, clock, readAhead, keeper, scheduler, waiters, failures },
      this,
    );
  }

  /** Its name in the store. */
  get name(): string {
    return this.#options.writer.generation;
  }

  get response(): StoredResponse {
    return this.#response;
  }

  /** The status of the response that the origin began it with. */
  get originStatus(): number {
    return this.#options.first?.isWhole === false ? 206 : this.#response.status;
  }

  get sizeBytes(): number | undefined {
    return this.#wholeness.sizeBytes;
  }

  get keeper(): BlockKeeper {
    return this.#keeper;
  }

  get dead(): ProxyError | undefined {
    return this.#dead;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get isWithheld(): boolean {
    return this.#wholeness.isWithheld;
  }

  /** Which bytes are there, coming, or to be asked for. */
  get outlook(): Outlook {
    return this.#scheduler.outlook;
  }

  get readerCount(): number {
    return this.#readers.size;
  }

  /** Bytes that the origin has sent for it. */
  get received(): number {
    return this.#scheduler.received;
  }

  /** Whether new readers may attach and find every byte. */
  get isJoinable(): boolean {
    return this.#keeper.isStoring && this.#mayBeFound && this.#dead === undefined && !this.#isClosed;
  }

  isWanted(span: Span): boolean {
    return this.#readers.want(span);
  }

  wanters(span: Span): readonly string[] {
    return this.#readers.wanters(span);
  }

  /**
   * Begins with what the origin is sending already, if anything; those who have waited for it are seated before. Resolves when
   * nobody reads it, nothing comes, and the store has been let go of. Never rejects.
   */
  async run(waiting: Iterable<Seat>): Promise<void> {
    const { first } = this.#options;
    const leave = Array.from(waiting, (seat) => this.#readers.sit(seat));
    if (first !== undefined) this.#scheduler.begin(first);
    // They take their own seats in this turn.
    await Promise.resolve();
    for (const each of leave) each();
    // Those who have asked for it may all have left before.
    if (leave.length === 0) this.#scheduler.endUnwanted();
    this.idle();
    await this.#closed.promise;
  }

  /**
   * Where it is a block or less, and on its way: waits until the origin's bytes that have arrived by now are taken, so that a
   * small body is given out at once and not piece by piece. Undefined where there is nothing to be won by it.
   */
  whenTaken(): Promise<void> | undefined {
    const { sizeBytes } = this;
    const isSmall = sizeBytes !== undefined && sizeBytes <= this.#options.blockSizeBytes;
    return isSmall && !this.#scheduler.isIdle && !this.#scheduler.hasReached(sizeBytes) ? setImmediate() : undefined;
  }

  /** Takes the metadata that a 304 has freshened. */
  freshen(metadata: StoredResponse): void {
    this.#response = metadata;
  }

  /** Cuts everything off. */
  stop(error: ProxyError): void {
    this.#dead ??= error;
    this.#isStopped = true;
    this.#scheduler.stop(error);
    this.moved();
    this.idle();
  }

  /** Holds it for one request of a client until the representation is closed. */
  attach(seat: Seat): Representation {
    const visitor = { client: seat.client, since: this.#failures.count };
    return new AttachedRepresentation(this, this.#readers, this.#bodyReader, visitor, seat);
  }

  async learn(head: PartHead): Promise<void> {
    const fresh = await this.#options.learn(this.#response, head);
    if (fresh === undefined) this.#isWithdrawn = true;
    else this.#response = fresh;
  }

  async keep(block: Arrived): Promise<void> {
    const verifying = this.#wholeness.add(block);
    if (verifying !== undefined) await verifying;
    await this.#keeper.keep(block);
    if (this.#isPublished || this.#keeper.hasDoubts || !this.#options.source.isProvable || !this.isJoinable) return;
    if (this.sizeBytes === undefined || this.#keeper.isWhole(this.sizeBytes)) return;
    this.#isPublished = true;
    await this.#keeper.store(() => this.#options.publish(this.#response));
  }

  /** Commits when everything is there. */
  async settle(frontier: number): Promise<FillResult> {
    const { sizeBytes, isWhole } = await this.#wholeness.settle(frontier);
    this.moved();
    if (!this.#keeper.isStoring || this.#isWithdrawn) return 'relayed';
    if (!isWhole) return 'kept';
    if (this.#isCommitted) return 'stored';
    this.#isCommitted = true;
    const body = { sizeBytes, digest: this.#options.check.digest };
    const committed = await this.#keeper.store(() => this.#options.commit(this.#response, body));
    return committed?.value ?? 'relayed';
  }

  async fail(error: ProxyError, span: Span): Promise<void> {
    // Whoever comes while a transfer ends because nobody wanted it has it taken up again.
    if (error.code !== 'client_gone') this.#failures.add({ error, span });
    if (!isFatal(error) || this.#dead !== undefined) return;
    this.#dead = error;
    this.#scheduler.stop(error);
    this.moved();
    await this.#options.onUnusable(error);
  }

  moved(): void {
    this.#waiters.changed();
  }

  idle(): void {
    const isRead = this.#readers.size > 0 && !this.#isStopped;
    if (this.#isClosed || !this.#scheduler.isIdle || isRead) return;
    this.#isClosed = true;
    void this.#close().then(this.#closed.resolve);
  }

  /** Lets go of the store. What an origin has brought in parts before it was found lying is not kept, unless the whole has come. */
  async #close(): Promise<void> {
    const { onUnusable, writer } = this.#options;
    if (this.#keeper.hasDoubts && this.#dead === undefined) await onUnusable(doubted);
    await writer[Symbol.asyncDispose]();
  }

  /** Whether nothing has forbidden storing it since it was asked for. */
  get #mayBeFound(): boolean {
    return !this.#isWithdrawn && !this.#options.isRevoked();
  }
}

/** What a generation has to be whole of. */
interface WholenessOptions {
  readonly blockSizeBytes: number;
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
  readonly keeper: BlockKeeper;
  readonly check: BodyCheck;
}

/** Of one generation. */
class Wholeness {
  readonly #options: WholenessOptions;
  #sizeBytes: number | undefined;

  constructor(options: WholenessOptions) {
    this.#options = options;
    this.#sizeBytes = options.sizeBytes;
  }

  get sizeBytes(): number | undefined {
    return this.#sizeBytes;
  }

  /** The last block cannot be read before the whole is verified: who has all but that sees that the rest is missing. */
  get isWithheld(): boolean {
    const { check, keeper } = this.#options;
    if (!check.isVerifying || this.#sizeBytes === undefined) return false;
    return this.#blockCount(this.#sizeBytes) - keeper.present.size <= 1;
  }

  /**
   * Takes a block that has come, before it is kept. Gives a promise where all is there with it and is to be verified, which is
   * rejected with `ProxyError` where it is not what its digest tells.
   */
  add(block: Arrived): Promise<unknown> | undefined {
    const { check, keeper } = this.#options;
    check.add(block.index, block.bytes);
    if (!check.isVerifying || this.#sizeBytes === undefined) return undefined;
    const count = this.#blockCount(this.#sizeBytes);
    return this.#isLast(block.index, count) ? keeper.verify(check, count, block) : undefined;
  }

  /** A transfer has come to its end, at `frontier`. Throws `ProxyError`: `generation_changed`, or as `add` does. */
  async settle(frontier: number): Promise<{ readonly sizeBytes: number; readonly isWhole: boolean }> {
    const { check, keeper } = this.#options;
    const sizeBytes = this.#sizeBytes ?? this.#endAt(frontier);
    const isDue = keeper.isWhole(sizeBytes) || this.#sizeBytes === undefined;
    const isVerified = isDue && (await keeper.verify(check, this.#blockCount(sizeBytes)));
    this.#sizeBytes = sizeBytes;
    return { sizeBytes, isWhole: isVerified && keeper.isWhole(sizeBytes) };
  }

  /** The length that a body without a stated one turns out to have. */
  #endAt(frontier: number): number {
    if (this.#options.keeper.present.firstAfter(this.#blockCount(frontier) - 1) === undefined) return frontier;
    throw new ProxyError('generation_changed', { detail: 'fewer bytes' });
  }

  #blockCount(sizeBytes: number): number {
    return Math.ceil(sizeBytes / this.#options.blockSizeBytes);
  }

  /** Whether everything is there once this block is. */
  #isLast(index: number, count: number): boolean {
    const { check, keeper } = this.#options;
    const missing = count - keeper.present.size;
    return (missing === 1 && !keeper.present.has(index)) || missing === 0 || check.hasAll(count);
  }
}

/** The generation. */
interface AttachedHost {
  readonly name: string;
  readonly response: StoredResponse;
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
}

/** Holds the generation for a visitor until it is closed. */
class AttachedRepresentation implements Representation {
  readonly response: StoredResponse;
  readonly generation: string;
  readonly close: () => void;
  readonly #host: AttachedHost;
  readonly #readers: Readers;
  readonly #bodyReader: BodyReader;
  readonly #visitor: Visitor;
  readonly #isOpenEnded: boolean;

  constructor(host: AttachedHost, readers: Readers, bodyReader: BodyReader, visitor: Visitor, seat: Seat) {
    this.response = host.response;
    this.generation = host.name;
    this.close = readers.sit(seat);
    this.#host = host;
    this.#readers = readers;
    this.#bodyReader = bodyReader;
    this.#visitor = visitor;
    this.#isOpenEnded = seat.isOpenEnded;
  }

  get sizeBytes(): number | undefined {
    return this.#host.sizeBytes;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return this.#bodyReader.peek(offset, end);
  }

  async open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    const [first] = spans;
    const isOpen = this.#isOpenEnded && first !== undefined;
    const visitor = isOpen ? { ...this.#visitor, open: this.#bodyReader.beginOpen(first.start) } : this.#visitor;
    const reader = this.#readers.add(spans, visitor);
    // The seat would hold on to all bytes, though it is known now which ones are wanted.
    this.close();
    try {
      if (first !== undefined) await this.#bodyReader.open(first, visitor, signal);
      return reader;
    } catch (thrown) {
      reader.close();
      throw thrown;
    }
  }

  whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    return this.#bodyReader.whenPresent(end, this.#visitor, signal);
  }
}
