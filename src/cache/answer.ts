/**
 * What the cache answers: a representation, whose bytes can be read at any offset and whose length may come later, or a
 * response of the origin that is passed on. Delivery makes the HTTP response of it.
 */

import type { Span } from '../bytes/span.ts';
import { type Fields, withoutFields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { OriginResponse } from '../origin/origin.ts';
import type { CacheStatus } from '../semantics/cache-status.ts';

/** How an answer came about, in the words of RFC 9211. */
export interface AnswerFacts {
  readonly outcome: 'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable';
  /** Why it is not a hit, or why it is uncacheable. */
  readonly reason: string | undefined;
  /** The fields and cookies that kept a stored response from this request because it was for equal requests only, if one was. */
  readonly apartBy?: readonly string[] | undefined;
  /** Whether it came with a flight that another request had started. */
  readonly collapsed: boolean;
  readonly status: CacheStatus;
  /** Bytes of body that the origin sent because of this request, until now. */
  readonly originBytes: () => number;
}

/** A representation to select from, or a response to pass on. */
export type Answer = AnswerFacts &
  (
    | {
        readonly kind: 'representation';
        readonly representation: Representation;
        /** Whether the origin's Age is to be replaced, because this is a reuse (RFC 9111 §5.1). */
        readonly isReuse: boolean;
      }
    | { readonly kind: 'relay'; readonly relay: Relay }
  );

/**
 * Reads the bytes of one representation at any offset. Where nothing but its readers keeps the bytes of a fill, those
 * before the last offset that was asked for may be gone: reading them throws `ProxyError` `bytes_gone`.
 */
export interface ByteReader {
  /** Bytes from `offset` (inclusive) on, at most up to `end` (exclusive), that are in memory now; undefined when there are none. */
  peek(offset: number, end: number): Uint8Array | undefined;
  /**
   * At least one byte from `offset` on and at most up to `end`, waiting for it where it has to come first. Undefined
   * when the representation turns out to end at `offset`. Throws `ProxyError`, `client_gone` once the reader is closed.
   */
  read(offset: number, end: number): Promise<Uint8Array | undefined>;
  /**
   * Has the system put `head`, and then bytes from `offset` on, up to `end` (exclusive), into a socket (its descriptor) that
   * waits for nothing; gives how many of both, together, that took: 0 where the bytes cannot be moved. Absent where none ever
   * are. Does not throw.
   */
  move?(socket: number, head: Uint8Array, offset: number, end: number): number;
  /** Takes back bytes that `peek` or `read` gave and that nothing reads any more (`StoredEntry.giveBack`). Absent where none are lent. */
  giveBack?(bytes: Uint8Array): void;
  /** Gives back what the reader holds and ends its waiting; may be called more than once. */
  close(): void;
}

/** One selected representation, stored or on its way from the origin, held for one request until it is closed. */
export interface Representation {
  readonly response: StoredResponse;
  /** The name of the generation that its bytes are of; undefined where they are not told apart by it. */
  readonly generation?: string | undefined;
  /** The length of the whole; undefined as long as it is not known. */
  readonly sizeBytes: number | undefined;
  /** Bytes in memory now, without opening. */
  peek(offset: number, end: number): Uint8Array | undefined;
  /** As `peek`, but only what need not be read first. Absent where nothing is stored in a file. */
  peekKept?(offset: number, end: number): Uint8Array | undefined;
  /** Whether the system can send all bytes of a span from a file now. Absent where nothing is stored in a file. */
  canMove?(span: Span): boolean;
  /** Has the system send bytes of which `canMove` has just told (`StoredEntry.move`). */
  move?(socket: number, head: Uint8Array, span: Span): number;
  /** Takes back bytes that `peek` gave and that nobody reads any more (`StoredEntry.giveBack`). */
  giveBack?(chunks: readonly Uint8Array[]): void;
  /**
   * Opens it for reading these spans, in this order, and nothing else. Throws the signal's reason, or `ProxyError`:
   * `bytes_gone` when it is not there any more, or when what is stored at the first byte is damaged.
   */
  open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader>;
  /**
   * Waits until the length is known or, earlier, the bytes before `end` are there, and tells true; or false as soon as
   * there is no sense in waiting, because bytes that go by are not kept. Throws `ProxyError`, or the signal's reason.
   */
  whenPresent(end: number, signal: AbortSignal): Promise<boolean>;
  /** Tells that nothing more will be asked of it. What it was opened for is read on. */
  close(): void;
}

/** The same representation under a head that has been freshened since it was opened. */
export function withResponse(representation: Representation, response: StoredResponse): Representation {
  return new UnderResponse(representation, response);
}

class UnderResponse implements Representation {
  readonly response: StoredResponse;
  readonly generation: string | undefined;
  readonly #representation: Representation;

  constructor(representation: Representation, response: StoredResponse) {
    this.response = response;
    this.generation = representation.generation;
    this.#representation = representation;
  }

  get sizeBytes(): number | undefined {
    return this.#representation.sizeBytes;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return this.#representation.peek(offset, end);
  }

  peekKept(offset: number, end: number): Uint8Array | undefined {
    return this.#representation.peekKept?.(offset, end);
  }

  canMove(span: Span): boolean {
    return this.#representation.canMove?.(span) === true;
  }

  move(socket: number, head: Uint8Array, span: Span): number {
    return this.#representation.move?.(socket, head, span) ?? 0;
  }

  giveBack(chunks: readonly Uint8Array[]): void {
    this.#representation.giveBack?.(chunks);
  }

  open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    return this.#representation.open(spans, signal);
  }

  whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    return this.#representation.whenPresent(end, signal);
  }

  close(): void {
    this.#representation.close();
  }
}

/** The same representation with more fields in its head, which take the place of those of their names. */
export function withMoreFields(representation: Representation, more: Fields): Representation {
  if (more.length === 0) return representation;
  const { response } = representation;
  const names = new Set(more.map(([name]) => name));
  return withResponse(representation, { ...response, fields: [...withoutFields(response.fields, names), ...more] });
}

/** A response passed on as it comes from the origin; its bytes can be read once, from the first to the last. */
export interface Relay {
  readonly response: OriginResponse;
  readonly requestAt: number;
  readonly responseAt: number;
  /** Whether the origin was sent the client's Range and preconditions, so that they have been answered already. */
  readonly evaluated: boolean;
  /** Of the response to a HEAD: whether the response to a GET may be stored, so that ranges of it can be had. */
  readonly isStorable?: boolean | undefined;
}
