/**
 * One generation that is being read or filled: its present blocks, the fills that bring the others, and its readers. It belongs
 * to no client: readers attach at any offset, get each byte as it arrives, and leave without harm to it. Read this file first,
 * then `fill-scheduler.ts` and `fill.ts`.
 *
 * A generation that may be combined from parts is published with its first block. It is committed when all bytes are present
 * and their digest is right.
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
import { createWaiters, Failures, Readers, type Seat, type TakenSeat, type Visitor, type Waiters } from './readers.ts';

/** Options of a generation. */
export interface GenerationOptions extends FillSchedulerRules {
  readonly response: StoredResponse;
  readonly sizeBytes: number | undefined;
  readonly writer: EntryWriter;
  /** Whether it is published already, or must not be published before it is whole. */
  readonly isPublished: boolean;
  /** Bytes of each fill that are held for readers once the store takes no more. */
  readonly windowBytes: number;
  /** Bytes that all readers together may read from the store ahead of their positions. */
  readonly readAhead: ByteBudget;
  /** The part that the origin is already sending; undefined for a stored generation that is reopened for its absent bytes. */
  readonly first: FirstPart | undefined;
  /** Whether it was invalidated since its request was sent. It may then be read, but not stored. */
  readonly isRevoked: () => boolean;
  readonly check: BodyCheck;
  /**
   * Returns the response with the fields of a newer part. Where they forbid storing it, removes the entry and returns undefined.
   * Does not throw.
   */
  readonly learn: (response: StoredResponse, head: PartHead) => Promise<StoredResponse | undefined>;
  /** Makes the generation findable though blocks are absent. Throws `StoreFault`. */
  readonly publish: (response: StoredResponse) => Promise<void>;
  /** Makes the whole generation findable. Throws `StoreFault`. */
  readonly commit: (response: StoredResponse, body: WholeBody) => Promise<'stored' | 'same' | 'relayed'>;
  /** Called when the store takes no more. Does not throw. */
  readonly onStoreFault: (fault: StoreFault) => void;
  /** Called with the reason when its stored bytes must be removed. Does not throw. */
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
  /** Undefined while it is not known. */
  #sizeBytes: number | undefined;
  #isPublished: boolean;
  #isPublishing = false;
  #isFindable: boolean;
  #isWithdrawn = false;
  #isCommitted = false;
  #isStopped = false;
  #isClosed = false;
  /** The error that ended the generation for good. */
  #dead: ProxyError | undefined;

  constructor(options: GenerationOptions) {
    this.#options = options;
    this.#response = options.response;
    this.#sizeBytes = options.sizeBytes;
    this.#isPublished = options.isPublished;
    this.#isFindable = options.first === undefined;
    this.#scheduler = new FillScheduler(options, this);
    this.#readers = new Readers({
      createReader: (visitor) => this.#bodyReader.createReader(visitor),
      onMoved: (offset, end, visitor) => {
        if (!this.#keeper.isStoring) {
          this.#scheduler.endUnwanted();
          this.notifyReaders();
        }
        this.#bodyReader.lookAhead(offset, end, visitor);
        if (this.#scheduler.isPaused) this.notifyReaders();
        this.#scheduler.beginParts();
      },
      onAwaited: () => this.notifyReaders(),
      onLeft: () => {
        this.#scheduler.endUnwanted();
        this.notifyReaders();
        this.noteIdle();
      },
    });
    // No spreads: there are many options, and this runs for each miss.
    const { blockSizeBytes, sizeBytes, writer, source, windowBytes, policy, clock, readAhead } = options;
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

  /** The status of the response that began it: 206 for a part. */
  get originStatus(): number {
    return this.#options.first?.isWhole === false ? 206 : this.#response.status;
  }

  get sizeBytes(): number | undefined {
    return this.#sizeBytes;
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

  /**
   * Whether the last block must not be read yet, because the body is not verified. A client that has all bytes but those of the
   * last block sees that its response is incomplete.
   */
  get isWithheld(): boolean {
    if (!this.#options.check.isVerifying || this.#sizeBytes === undefined) return false;
    return this.#blockCount(this.#sizeBytes) - this.#keeper.present.size <= 1;
  }

  get findable(): 'now' | 'later' | 'never' {
    if (this.#isFindable) return 'now';
    const { source, blockSizeBytes } = this.#options;
    const isToCome = !this.#isPublished && source.isProvable && (this.#sizeBytes ?? 0) > blockSizeBytes;
    return isToCome || this.#isPublishing ? 'later' : 'never';
  }

  /** Which bytes are present, coming, or to be requested. */
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

  isRead(span: Span): boolean {
    return this.#readers.read(span);
  }

  isNeeded(span: Span, openLimit: (offset: number, from: number) => number): boolean {
    return this.#readers.need(span, openLimit);
  }

  when(isMet: () => boolean, signal: AbortSignal): Promise<void> {
    return this.#waiters.wait(isMet, signal);
  }

  bodyClients(span: Span): readonly string[] {
    return this.#readers.bodyClients(span);
  }

  /**
   * Gives the waiting requests their seats, and begins with the part that the origin is already sending, if any. Resolves when
   * no reader is left, no fill runs, and the store has been released. Never rejects.
   */
  async run(waiting: Iterable<Seat>): Promise<void> {
    const { first } = this.#options;
    const leave = Array.from(waiting, (seat) => this.#readers.sit(seat).leave);
    if (first !== undefined) this.#scheduler.begin(first);
    // The waiting requests attach during this pause.
    await Promise.resolve();
    for (const each of leave) each();
    // All requests that asked for it may have left before.
    if (leave.length === 0) this.#scheduler.endUnwanted();
    this.noteIdle();
    await this.#closed.promise;
  }

  /**
   * Waits one turn of the event loop while a body of at most one block is arriving. The bytes that have already arrived are taken
   * in that turn, so that a small body is sent at once. Undefined in all other cases.
   */
  whenTaken(): Promise<void> | undefined {
    const { sizeBytes } = this;
    const isSmall = sizeBytes !== undefined && sizeBytes <= this.#options.blockSizeBytes;
    return isSmall && !this.#scheduler.isIdle && !this.#scheduler.hasReached(sizeBytes) ? setImmediate() : undefined;
  }

  /** Replaces the metadata, for example with those that a 304 has freshened. */
  freshen(metadata: StoredResponse): void {
    this.#response = metadata;
  }

  /** Stops all fills. Clients reading the generation are disconnected. */
  stop(error: ProxyError): void {
    this.#dead ??= error;
    this.#isStopped = true;
    this.#scheduler.stop(error);
    this.notifyReaders();
    this.noteIdle();
  }

  /** Returns a representation for one request. The generation stays open until the representation is closed. */
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
    const { check } = this.#options;
    check.add(block.index, block.bytes);
    if (this.#completes(block)) await this.#keeper.verify(check, this.#blockCount(this.#sizeBytes ?? 0), block);
    await this.#keeper.keep(block);
    if (this.#isPublished || this.#keeper.hasDoubts || !this.#options.source.isProvable || !this.isJoinable) return;
    if (this.sizeBytes === undefined || this.#keeper.isWhole(this.sizeBytes)) return;
    this.#isPublished = true;
    this.#isPublishing = true;
    await this.#keeper.store(() => this.#options.publish(this.#response));
    this.#isPublishing = false;
    this.#isFindable = this.#keeper.isStoring;
    this.notifyReaders();
  }

  /** Commits when all bytes are present. */
  async settle(frontier: number): Promise<FillResult> {
    const { check } = this.#options;
    const sizeBytes = this.#sizeBytes ?? this.#endAt(frontier);
    const isDue = this.#keeper.isWhole(sizeBytes) || this.#sizeBytes === undefined;
    const isVerified = isDue && (await this.#keeper.verify(check, this.#blockCount(sizeBytes)));
    this.#sizeBytes = sizeBytes;
    const isWhole = isVerified && this.#keeper.isWhole(sizeBytes);
    this.notifyReaders();
    if (!this.#keeper.isStoring || this.#isWithdrawn) return 'relayed';
    if (!isWhole) return 'kept';
    if (this.#isCommitted) return 'stored';
    this.#isCommitted = true;
    const body = { sizeBytes, digest: check.digest };
    const committed = await this.#keeper.store(() => this.#options.commit(this.#response, body));
    return committed?.value ?? 'relayed';
  }

  async fail(error: ProxyError, span: Span): Promise<void> {
    // The stop of an unwanted fill is no failure: a reader that attaches meanwhile starts a new fill.
    if (error.code !== 'client_gone') this.#failures.add({ error, span });
    if (!isFatal(error) || this.#dead !== undefined) return;
    this.#dead = error;
    this.#scheduler.stop(error);
    this.notifyReaders();
    await this.#options.onUnusable(error);
  }

  notifyReaders(): void {
    this.#waiters.changed();
  }

  noteIdle(): void {
    const isRead = this.#readers.size > 0 && !this.#isStopped;
    if (this.#isClosed || !this.#scheduler.isIdle || isRead) return;
    this.#isClosed = true;
    void this.#close().then(this.#closed.resolve);
  }

  /** Releases the store. Parts from an origin that was found lying are removed, unless the whole has confirmed them. */
  async #close(): Promise<void> {
    const { onUnusable, writer } = this.#options;
    if (this.#keeper.hasDoubts && this.#dead === undefined) await onUnusable(doubted);
    await writer[Symbol.asyncDispose]();
  }

  /** The length of a body whose length was not stated. Throws `generation_changed` when a present block lies behind it. */
  #endAt(frontier: number): number {
    if (this.#keeper.present.firstAfter(this.#blockCount(frontier) - 1) === undefined) return frontier;
    throw new ProxyError('generation_changed', { detail: 'fewer bytes' });
  }

  /** Whether a block that was not kept yet completes a body that has to be verified. */
  #completes({ index }: Arrived): boolean {
    const { check } = this.#options;
    if (!check.isVerifying || this.#sizeBytes === undefined) return false;
    const { present } = this.#keeper;
    const count = this.#blockCount(this.#sizeBytes);
    const missing = count - present.size;
    return (missing === 1 && !present.has(index)) || missing === 0 || check.hasAll(count);
  }

  #blockCount(sizeBytes: number): number {
    return Math.ceil(sizeBytes / this.#options.blockSizeBytes);
  }

  /** Whether it may be found in the store: neither a newer part nor an invalidation has forbidden it. */
  get #mayBeFound(): boolean {
    return !this.#isWithdrawn && !this.#options.isRevoked();
  }
}

/** The generation, as its representations see it. */
interface AttachedHost {
  readonly name: string;
  readonly response: StoredResponse;
  /** Undefined while it is not known. */
  readonly sizeBytes: number | undefined;
}

/** Keeps the generation open for one visitor until it is closed. */
class AttachedRepresentation implements Representation {
  readonly response: StoredResponse;
  readonly generation: string;
  readonly close: () => void;
  readonly #seat: TakenSeat;
  readonly #host: AttachedHost;
  readonly #readers: Readers;
  readonly #bodyReader: BodyReader;
  readonly #visitor: Visitor;
  readonly #isOpenEnded: boolean;

  constructor(host: AttachedHost, readers: Readers, bodyReader: BodyReader, visitor: Visitor, seat: Seat) {
    this.response = host.response;
    this.generation = host.name;
    this.#seat = readers.sit(seat);
    this.close = this.#seat.leave;
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
    // The seat wants all bytes; the reader wants only its spans.
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

  whenStored(offset: number, end: number, signal: AbortSignal): Promise<number> {
    this.#seat.awaits(offset);
    return this.#bodyReader.whenStored(offset, end, this.#visitor, signal);
  }
}
