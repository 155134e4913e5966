/**
 * The answer of the cache to one request: a representation, readable at any offset, whose length may become known later; or a
 * response of the origin that is passed on. Delivery makes the HTTP response from it.
 */

import type { Span } from '../bytes/span.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { OriginResponse } from '../origin/origin.ts';
import type { CacheStatus } from '../semantics/cache-status.ts';

/** How an answer came about, in the terms of RFC 9211. */
export interface AnswerFacts {
  readonly outcome: 'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable';
  /** Why the answer is not a hit, or is not stored. */
  readonly reason: string | undefined;
  /** Set where a stored response was for equal requests only: the fields and cookies in which this request differs. */
  readonly apartBy?: readonly string[] | undefined;
  /** Whether the answer came from a flight that another request started. */
  readonly collapsed: boolean;
  readonly status: CacheStatus;
  /** Bytes of body that the origin has sent because of this request so far. */
  readonly originBytes: () => number;
}

/** A representation to select from, or a response to pass on. */
export type Answer = AnswerFacts &
  (
    | {
        readonly kind: 'representation';
        readonly representation: Representation;
        /** Whether the response is reused, so that the origin's Age must be replaced (RFC 9111 §5.1). */
        readonly isReuse: boolean;
      }
    | { readonly kind: 'relay'; readonly relay: Relay }
  );

/**
 * Reads the bytes of one representation at any offset. A fill that is not stored keeps bytes only for its readers. Bytes before
 * the last requested offset may be gone then: reading them throws `ProxyError` `bytes_gone`.
 */
export interface ByteReader {
  /** Returns bytes from `offset` (inclusive), at most up to `end` (exclusive), in the same tick; undefined when none are available. */
  peek(offset: number, end: number): Uint8Array | undefined;
  /**
   * Returns at least one byte from `offset`, at most up to `end` (exclusive); waits until one is available. Undefined when the
   * representation turns out to end at `offset`. Throws `ProxyError`, `client_gone` once the reader is closed.
   */
  read(offset: number, end: number): Promise<Uint8Array | undefined>;
  /**
   * Has the system put `head`, and then bytes from `offset` up to `end` (exclusive), into a non-blocking socket (its descriptor).
   * Returns how many bytes of both together the socket took; 0 where the bytes cannot be moved. Absent where bytes are never
   * moved. Does not throw.
   */
  move?(socket: number, head: Uint8Array, offset: number, end: number): number;
  /** Takes back a lent buffer of `peek` or `read` that is not read any more (`StoredEntry.giveBack`). Absent where none are lent. */
  giveBack?(bytes: Uint8Array): void;
  /** Releases what the reader holds, and ends a pending `read`. May be called more than once. */
  close(): void;
}

/** A selected representation, stored or arriving from the origin, held for one request until it is closed. */
export interface Representation {
  readonly response: StoredResponse;
  /** The name of the generation that the bytes belong to; undefined where the bytes have no such name, as a part of a fragment. */
  readonly generation?: string | undefined;
  /** Length in bytes; undefined while it is unknown. */
  readonly sizeBytes: number | undefined;
  /** Returns bytes as `ByteReader.peek`, without opening. */
  peek(offset: number, end: number): Uint8Array | undefined;
  /** As `peek`, but only bytes that are in memory already: no file is read. Absent where nothing is stored in a file. */
  peekKept?(offset: number, end: number): Uint8Array | undefined;
  /** Checks whether the system can send all bytes of a span from a file now. Absent where nothing is stored in a file. */
  canMove?(span: Span): boolean;
  /** Has the system send a span, in the tick in which `canMove` returned true for it (`StoredEntry.move`). */
  move?(socket: number, head: Uint8Array, span: Span): number;
  /** Takes back lent buffers of `peek` that are not read any more (`StoredEntry.giveBack`). */
  giveBack?(chunks: readonly Uint8Array[]): void;
  /**
   * Opens the representation for reading these spans, in this order, and no other bytes. Throws the signal's reason, or
   * `ProxyError`: `bytes_gone` when the bytes are gone, or when the first one is damaged and cannot be fetched again.
   */
  open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader>;
  /**
   * Waits until the length is known or, earlier, a transfer has reached `end`; returns true then. Returns false as soon as
   * arriving bytes are not stored: those that arrive while a request waits would be lost. Throws `ProxyError`, or the signal's
   * reason.
   */
  whenPresent(end: number, signal: AbortSignal): Promise<boolean>;
  /**
   * Waits until the byte at `offset` is in the store, and other processes can find it there. Returns the end (exclusive) of the bytes
   * from there on of which the same is known; `offset` where the byte will not be stored before it has been read. Throws `ProxyError`,
   * or the signal's reason. Absent where no bytes are arriving.
   */
  whenStored?(offset: number, end: number, signal: AbortSignal): Promise<number>;
  /** Releases the representation. Readers that it opened go on. */
  close(): void;
}

/** A response that is passed on as it arrives from the origin. Its bytes can be read once, in order. */
export interface Relay {
  readonly response: OriginResponse;
  readonly requestAt: number;
  readonly responseAt: number;
  /** Whether the origin got the client's Range and preconditions, and so has evaluated them. */
  readonly evaluated: boolean;
  /** For a HEAD only: whether the response to a GET may be stored, so that ranges of it can be served. */
  readonly isStorable?: boolean | undefined;
}
