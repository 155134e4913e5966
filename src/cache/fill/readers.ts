/**
 * Tracks the readers of one generation: the position of each, the spans that it may still ask for, how it waits for bytes, and
 * which failed fills concern it.
 */

import type { Span } from '../../bytes/span.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { ByteReader } from '../answer.ts';

/** One reader of a generation, as fills and limits see it. */
export interface Visitor {
  /** The name of the client, for limits per client. */
  readonly client: string;
  /** Number of fills that had failed when the reader attached. Those failures do not concern it. */
  readonly since: number;
  /** Offset and time (epoch milliseconds) at which it began to read an open-ended range; undefined for every other reader. */
  readonly open?: { readonly from: number; readonly at: number } | undefined;
}

/** A request that is about to read a generation. */
export interface Seat extends Pick<Visitor, 'client'> {
  /** Whether it asks for an open-ended range; its client may leave long before the end. */
  readonly isOpenEnded: boolean;
}

/** A seat of a request that has not begun to read. */
export interface TakenSeat {
  readonly leave: () => void;
  /** Notes that its request waits for the byte at `offset`, to read it elsewhere. */
  readonly awaits: (offset: number) => void;
}

/** Creates byte sources for readers, and is notified of what readers do. */
interface ReadSource {
  /** Creates the byte source of one reader. */
  readonly createReader: (visitor: Visitor) => ByteReader;
  /** Called when a reader has reached `offset`; it reads up to `end` (exclusive). */
  readonly onMoved: (offset: number, end: number, visitor: Visitor) => void;
  /** Called when a seat awaits further bytes. */
  readonly onAwaited: () => void;
  /** Called once for each reader and each seat that has left. */
  readonly onLeft: () => void;
}

interface Reading {
  readonly client: string;
  /** All spans that it may ask for, in order; for a seat, one span of everything. */
  readonly spans: readonly Span[];
  /** Index of the current span; the spans before it are finished. */
  at: number;
  /** The last requested offset, at first the start of the first span; undefined for a seat. */
  floor: number | undefined;
  /** The offset at which it began to read an open-ended range, or 0 for a seat of one; undefined for all others. */
  readonly openFrom: number | undefined;
  /** The offset up to which a seat awaits bytes. */
  awaited: number;
}

/** The readers of one generation, and the seats of the requests that will open it. */
export class Readers {
  readonly #readings = new Set<Reading>();
  readonly #source: ReadSource;

  constructor(source: ReadSource) {
    this.#source = source;
  }

  get size(): number {
    return this.#readings.size;
  }

  /** Adds a seat, which may ask for bytes at any offset later. */
  sit({ client, isOpenEnded }: Seat): TakenSeat {
    const everything = { start: 0, end: Number.POSITIVE_INFINITY };
    const openFrom = isOpenEnded ? 0 : undefined;
    const reading: Reading = { client, spans: [everything], at: 0, floor: undefined, openFrom, awaited: 0 };
    return {
      leave: this.#enter(reading),
      awaits: (offset) => {
        reading.awaited = offset;
        this.#source.onAwaited();
      },
    };
  }

  /** Adds a reader that asks only for these spans, in this order. `visitor` is passed to the read source. */
  add(spans: readonly Span[], visitor: Visitor): ByteReader {
    const { client } = visitor;
    const openFrom = visitor.open?.from;
    const reading: Reading = { client, spans, at: 0, floor: spans[0]?.start ?? 0, openFrom, awaited: 0 };
    const reader = this.#source.createReader(visitor);
    const leave = this.#enter(reading);
    let reportedOffset: number | undefined;
    const move = (offset: number, end: number) => {
      if (offset === reportedOffset) return;
      reportedOffset = offset;
      reading.at = indexOfSpan(reading, offset);
      reading.floor = offset;
      this.#source.onMoved(offset, end, visitor);
    };
    return {
      peek: (from, end) => {
        move(from, end);
        return reader.peek(from, end);
      },
      read: (from, end) => {
        move(from, end);
        return reader.read(from, end);
      },
      close: () => {
        reader.close();
        leave();
      },
    };
  }

  /** Checks whether a reader or seat may still ask for some of these bytes. */
  want(bytes: Span): boolean {
    return [...this.#readings].some((reading) => mayAskFor(reading, bytes));
  }

  /**
   * Checks whether a reader or seat needs some of these bytes now. That of an open-ended range needs only the bytes before
   * `openLimit(offset, from)`, where it is at `offset` and began at `from`.
   */
  need(bytes: Span, openLimit: (offset: number, from: number) => number): boolean {
    return [...this.#readings].some((reading) => {
      const { floor = reading.awaited, openFrom } = reading;
      if (!mayAskFor(reading, bytes)) return false;
      return openFrom === undefined || bytes.start < openLimit(floor, openFrom);
    });
  }

  /** As `want`, without seats, which may ask for less than everything later. */
  read(bytes: Span): boolean {
    return [...this.#readings].some((reading) => reading.floor !== undefined && mayAskFor(reading, bytes));
  }

  /** Returns the clients of the readers and seats that may still ask for some of these bytes. */
  bodyClients(bytes: Span): readonly string[] {
    return [...this.#readings].filter((reading) => mayAskFor(reading, bytes)).map(({ client }) => client);
  }

  /** Returns the lowest offset, `from` or more, that a reader may ask for next; undefined when there is none. A seat counts as `from`. */
  lowest(from: number): number | undefined {
    let lowest: number | undefined;
    for (const { floor = from } of this.#readings) {
      if (floor >= from && (lowest === undefined || floor < lowest)) lowest = floor;
    }
    return lowest;
  }

  #enter(reading: Reading): () => void {
    this.#readings.add(reading);
    return () => {
      if (this.#readings.delete(reading)) this.#source.onLeft();
    };
  }
}

/** The index of the span that holds `offset`, otherwise the current index. Spans do not overlap. */
function indexOfSpan({ spans, at }: Reading, offset: number): number {
  const index = spans.findIndex(({ start, end }) => start <= offset && offset < end);
  return index === -1 ? at : index;
}

/** Whether some of these bytes are in the unread rest of its spans. */
function mayAskFor({ spans, at, floor }: Reading, { start, end }: Span): boolean {
  return spans.some((span, place) => {
    if (place < at) return false;
    const from = place === at ? Math.max(span.start, floor ?? span.start) : span.start;
    return Math.max(from, start) < Math.min(span.end, end);
  });
}

/** Waits for conditions without polling: the owner of the state calls `changed`, and all conditions are checked again. */
export interface Waiters {
  /**
   * Resolves once `isMet()` holds. Rejects with the error that `isMet` throws, or with the signal's reason when it aborts first.
   */
  wait(isMet: () => boolean, signal?: AbortSignal): Promise<void>;
  /** Checks every condition again. */
  changed(): void;
}

/** Creates an empty set of waiters. */
export function createWaiters(): Waiters {
  return new WaiterSet();
}

/** Shared by all waits whose condition holds at once, so that they need no promise of their own. */
const met = Promise.resolve();

class WaiterSet implements Waiters {
  #waiting: Set<Waiter> | undefined;

  wait(isMet: () => boolean, signal?: AbortSignal): Promise<void> {
    try {
      signal?.throwIfAborted();
      return isMet() ? met : new Promise((resolve, reject) => this.#enlist({ isMet, resolve, reject }, signal));
    } catch (thrown) {
      return Promise.reject(thrown);
    }
  }

  changed(): void {
    if (this.#waiting === undefined) return;
    for (const waiter of this.#waiting) this.#settle(waiter);
  }

  #enlist(waiter: Omit<Waiter, 'over'>, signal: AbortSignal | undefined): void {
    const leave = () => {
      this.#waiting?.delete(enlisted);
      waiter.reject(signal?.reason);
    };
    const enlisted = { ...waiter, over: () => signal?.removeEventListener('abort', leave) };
    signal?.addEventListener('abort', leave, { once: true });
    this.#waiting ??= new Set();
    this.#waiting.add(enlisted);
  }

  #settle(waiter: Waiter): void {
    try {
      if (!waiter.isMet()) return;
      waiter.resolve();
    } catch (thrown) {
      waiter.reject(thrown);
    }
    this.#waiting?.delete(waiter);
    waiter.over();
  }
}

interface Waiter {
  readonly isMet: () => boolean;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
  /** Removes the abort listener once the condition has settled the wait. */
  readonly over: () => void;
}

/** Number of failures that are remembered. Older ones have reached the readers that waited for them. */
const MAX_FAILURES = 64;

interface Failure {
  /** The bytes that the fill would have brought. */
  readonly span: Span;
  readonly error: ProxyError;
}

/** The failed fills of one generation, in order. */
export class Failures {
  readonly #latest: Failure[] = [];
  #count = 0;

  /** Total number of failures, including forgotten ones. */
  get count(): number {
    return this.#count;
  }

  add(failure: Failure): void {
    this.#latest.push(failure);
    this.#count += 1;
    if (this.#latest.length > MAX_FAILURES) this.#latest.shift();
  }

  /** Returns the latest failure that prevented the byte at `offset`, without the first `since` failures; undefined where none is known. */
  find(offset: number, since: number): ProxyError | undefined {
    const recent = this.#latest.slice(Math.max(0, this.#latest.length - (this.#count - since)));
    return recent.findLast(({ span }) => span.start <= offset && offset < span.end)?.error;
  }
}
