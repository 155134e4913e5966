/**
 * The readers of one generation: what each wants now, what it may still ask for, how it waits for bytes, and which failures
 * of transfers it is told of.
 */

import type { Span } from '../../bytes/span.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { ByteReader } from '../answer.ts';

/** Who reads. */
export interface Visitor {
  /** The name of the client, for those who limit what one may cost. */
  readonly client: string;
  /** How many transfers had failed when it came: those are no matter of its own. */
  readonly since: number;
  /** Where and when it began to read an open-ended range (epoch milliseconds); undefined for every other reader. */
  readonly open?: { readonly from: number; readonly at: number } | undefined;
}

/** Who will read. */
export interface Seat extends Pick<Visitor, 'client'> {
  /** Whether an open-ended range was asked for: its client may leave long before the end. */
  readonly isOpenEnded: boolean;
}

/** What a reader reads with, and who is told of it. */
interface ReadSource {
  /** Makes what one reader gets its bytes from. */
  readonly createReader: (visitor: Visitor) => ByteReader;
  /** Told when somebody has come to `offset`, on the way to `end`. */
  readonly onMoved: (offset: number, end: number, visitor: Visitor) => void;
  /** Told once for each reader and each seat, when it has left. */
  readonly onLeft: () => void;
}

interface Reading {
  readonly client: string;
  /** All that it may ask for; everything for a seat that has not been taken to read from. */
  readonly spans: readonly Span[];
  /** The index of the span that it is at: those before it are over. */
  at: number;
  /** The offset that was asked for last; undefined for a seat. */
  floor: number | undefined;
}

/** The readers of one generation, and the seats of those who will open it. */
export class Readers {
  readonly #readings = new Set<Reading>();
  readonly #source: ReadSource;

  constructor(source: ReadSource) {
    this.#source = source;
  }

  get size(): number {
    return this.#readings.size;
  }

  /** Takes a seat: what is asked for later begins anywhere. Gives the function that leaves it. */
  sit({ client }: Omit<Seat, 'isOpenEnded'>): () => void {
    const everything = { start: 0, end: Number.POSITIVE_INFINITY };
    return this.#enter({ client, spans: [everything], at: 0, floor: undefined });
  }

  /** Adds a reader that asks for these spans in their order, and nothing else. `visitor` is passed on with what it reads. */
  add(spans: readonly Span[], visitor: Visitor): ByteReader {
    const { client } = visitor;
    const reading: Reading = { client, spans, at: 0, floor: spans[0]?.start ?? 0 };
    const reader = this.#source.createReader(visitor);
    const leave = this.#enter(reading);
    let toldOffset: number | undefined;
    const move = (offset: number, end: number) => {
      if (offset === toldOffset) return;
      toldOffset = offset;
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

  /** Whether one of them may ask for some of these bytes. */
  want(bytes: Span): boolean {
    return [...this.#readings].some((reading) => mayAskFor(reading, bytes));
  }

  /** The clients of those who may ask for some of these bytes. */
  wanters(bytes: Span): readonly string[] {
    return [...this.#readings].filter((reading) => mayAskFor(reading, bytes)).map(({ client }) => client);
  }

  /** The lowest offset, of `from` and more, that one of them may ask for next; undefined when there is no such reader. */
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

/** The index of the span that it is at when it asks for `offset`: no byte is in two of them. */
function indexOfSpan({ spans, at }: Reading, offset: number): number {
  const index = spans.findIndex(({ start, end }) => start <= offset && offset < end);
  return index === -1 ? at : index;
}

/** Whether some of these bytes are in what is left of its spans. */
function mayAskFor({ spans, at, floor }: Reading, { start, end }: Span): boolean {
  return spans.some((span, place) => {
    if (place < at) return false;
    const from = place === at ? Math.max(span.start, floor ?? span.start) : span.start;
    return Math.max(from, start) < Math.min(span.end, end);
  });
}

/** Waits without polling: conditions are looked at again when the owner of the state says that it changed. */
export interface Waiters {
  /**
   * Resolves once `isMet()` holds. Rejects with what `isMet` throws, or with the signal's reason when it is aborted before.
   */
  wait(isMet: () => boolean, signal?: AbortSignal): Promise<void>;
  /** Looks at every condition again. */
  changed(): void;
}

/** Creates an empty set of waiters. */
export function createWaiters(): Waiters {
  return new WaiterSet();
}

/** What holds already costs its waiter no promise of its own. */
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
  /** Told when it does not wait any more. */
  readonly over: () => void;
}

/** How many are remembered: who waits for one that is older has been told. */
const MAX_FAILURES = 64;

interface Failure {
  /** What the transfer would have brought. */
  readonly span: Span;
  readonly error: ProxyError;
}

/** The failures of one generation, in their order. */
export class Failures {
  readonly #latest: Failure[] = [];
  #count = 0;

  /** How many there have been in all. */
  get count(): number {
    return this.#count;
  }

  /** Takes note of one. */
  add(failure: Failure): void {
    this.#latest.push(failure);
    this.#count += 1;
    if (this.#latest.length > MAX_FAILURES) this.#latest.shift();
  }

  /** Why the byte at `offset` did not come, by a transfer that failed after the first `since` ones; undefined if it is not known. */
  find(offset: number, since: number): ProxyError | undefined {
    const known = this.#latest.slice(Math.max(0, this.#latest.length - (this.#count - since)));
    return known.findLast(({ span }) => span.start <= offset && offset < span.end)?.error;
  }
}
