/** What is stored of a response besides its body. */

import type { Fields } from './fields.ts';

/** A request field that the Vary of a stored response names, and its normalised value; null when it was not sent. */
export type NominatedField = readonly [name: string, value: string | null];

/** The place of a stored 206 in its whole, where the 206 is stored by itself. */
export interface Fragment {
  /** The Range that it answered. */
  readonly range: string;
  /** Offset of its first byte in the whole. */
  readonly start: number;
  /** Length of the whole, in bytes. */
  readonly wholeBytes: number;
}

/**
 * The identity of the client that a stored response was requested by, as far as the request shows it. The values are secrets,
 * so only a digest of them is stored. The names are for people; only the first ones where there are many.
 */
export interface StoredIdentity {
  /** Empty for an anonymous client; equal only for equal values. */
  readonly digest: string;
  /** The names of the fields, and of the cookies as `cookie:name`, that the digest covers. */
  readonly names: readonly string[];
}

/** A stored response without its body. Plain data that can be written as JSON. */
export interface StoredResponse {
  readonly status: number;
  /** The end-to-end fields as the origin sent them, or as freshened since. */
  readonly fields: Fields;
  /** The normalised values of the request fields that Vary names (RFC 9111 §4.1). */
  readonly nominated: readonly NominatedField[];
  /** The values of the request parts that the operator selects; absent where the operator selects none. */
  readonly selected?: readonly NominatedField[];
  /**
   * Identity of the client that requested it, where the response did not state that it is for all. As long as it does not state
   * that, it is only for requests with this identity, and without one for no request.
   */
  readonly identity?: StoredIdentity;
  /** Set where the bytes are a part that cannot be combined with others; absent where they are the representation. */
  readonly fragment?: Fragment;
  /** When the request that led to it was sent, and when its head arrived: epoch milliseconds (RFC 9111 §4.2.3). */
  readonly requestAt: number;
  readonly responseAt: number;
  /**
   * A strong entity tag that Rangeway made, quotes included, because the origin sent no validator or only weak ones. Never sent
   * to the origin.
   */
  readonly ownEntityTag?: string;
  /**
   * SHA-256 of the whole body, lower-case hexadecimal, where it was computed. Always present with `ownEntityTag`, to detect
   * whether a refetch brought the same bytes.
   */
  readonly bodyDigest?: string;
  /** Set where the origin has shown that the resource changed: the response must be validated before use (RFC 9111 §4.3.5, §4.4). */
  readonly isInvalid?: true;
  /**
   * When an operator expired it, in epoch milliseconds. Its lifetime ended then, and it must be validated before use; it may
   * still be served stale where that is allowed.
   */
  readonly expiredAt?: number;
  /**
   * Texts by which the entry can be removed, besides its key (`Store.removeTagged`); opaque to the store and case-sensitive.
   * Absent where there are none.
   */
  readonly tags?: readonly string[];
}
