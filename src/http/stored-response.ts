/** What is kept of a response besides its bytes. */

import type { Fields } from './fields.ts';

/** A request field that a stored response's Vary nominates, and its normalised value; null when it was not sent. */
export type NominatedField = readonly [name: string, value: string | null];

/** What a stored 206 that stands by itself is of. */
export interface Fragment {
  /** The Range that it was the answer to. */
  readonly range: string;
  /** Where its bytes begin in the whole. */
  readonly start: number;
  /** The length of the whole. */
  readonly wholeBytes: number;
}

/**
 * Who asked for a stored response, as far as the request said. The values are secrets, so only a digest of them is kept; the
 * names are for people, the first of them where there are many.
 */
export interface StoredIdentity {
  /** Empty for an anonymous client; equal for equal values only. */
  readonly digest: string;
  /** The fields and, as `cookie:name`, the cookies that the digest was made of. */
  readonly names: readonly string[];
}

/** A stored response without its body. Plain data: it survives JSON. */
export interface StoredResponse {
  readonly status: number;
  /** The end-to-end fields as the origin sent them, freshened since. */
  readonly fields: Fields;
  /** The presented values of the request fields that Vary nominates (RFC 9111 §4.1). */
  readonly nominated: readonly NominatedField[];
  /** The presented values of what the operator selects besides; none where nothing is selected. */
  readonly selected?: readonly NominatedField[];
  /**
   * Who asked for it, where the response did not say that it is for all. While it does not say so, it is for requests of the
   * same identity; for no request, where this is absent.
   */
  readonly identity?: StoredIdentity;
  /** Set where the bytes are a part that cannot be combined with others; absent where they are the representation. */
  readonly fragment?: Fragment;
  /** When the request that led to it was sent, and when its head arrived: epoch milliseconds (RFC 9111 §4.2.3). */
  readonly requestAt: number;
  readonly responseAt: number;
  /** A strong entity tag that Rangeway made because the origin sent no validator, or only weak ones, quotes included; never sent to the origin. */
  readonly ownEntityTag?: string;
  /**
   * The SHA-256 of the whole body, lower-case hexadecimal, where it was hashed; always where `ownEntityTag` is, to tell
   * whether a refetch brought the same bytes.
   */
  readonly bodyDigest?: string;
  /** Set where the origin has let it be known that it has changed: it is to be validated before it is used (RFC 9111 §4.3.5, §4.4). */
  readonly isInvalid?: true;
  /**
   * Since when it is to be validated before it is used, in epoch milliseconds, because those who run the server want that:
   * its lifetime ended then, and where it may be served stale it still may.
   */
  readonly expiredAt?: number;
  /**
   * What the entry can be removed by besides its key (`Store.removeTagged`): texts of the writer's choice, opaque and
   * case-sensitive. Absent where there are none.
   */
  readonly tags?: readonly string[];
}
