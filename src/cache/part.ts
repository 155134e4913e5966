/** Bytes of a generation on their way, as one response of the origin brings them. */

import type { Hash } from 'node:crypto';
import type { Fields } from '../http/fields.ts';
import type { BodyStream } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { Errand } from '../origin/origin.ts';
import type { Digest } from '../semantics/digest.ts';

/** The fields that came with a part, and when it was asked for and came. */
export interface PartHead {
  readonly fields: Fields;
  readonly requestAt: number;
  readonly responseAt: number;
}

/** Bytes of a generation on their way. */
export interface Part {
  /** The offset of the first byte. */
  readonly from: number;
  /** Where the part ends (exclusive), as the origin promised; undefined when only its end will tell. */
  readonly end: number | undefined;
  readonly body: BodyStream;
  /** Whether it is the whole representation. */
  readonly isWhole: boolean;
  /** Whether a body that comes to an end before `end` is a lie: the end of a connection may be a transfer that broke off. */
  readonly hasSureEnd: boolean;
  /** Whether a strong validator says that these are bytes of this generation. Otherwise they are compared with what is there. */
  readonly isProven: boolean;
  /** What the hash of the part must come to, where the origin states it. */
  readonly digest: Digest | undefined;
  /** What is to replace the fields that came before (RFC 9111 §3.4); undefined where nothing proves that it belongs to them. */
  readonly head: PartHead | undefined;
}

/** Bytes that come already when a generation is opened. */
export interface FirstPart extends Part {
  readonly errand: Errand;
}

/** Throws `ProxyError` `origin_digest_mismatch` when a part that has come to its end is not what its digest tells. */
export function verifyContent({ from, end, digest }: Part, hash: Hash | undefined): void {
  if (hash?.digest('hex') === digest?.hex) return;
  throw new ProxyError('origin_digest_mismatch', {
    detail: `the content of bytes ${from}-${(end ?? 0) - 1} is another`,
  });
}
