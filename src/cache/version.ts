/** Which version of a representation a client is being given, for those who go on with it from elsewhere. */

import type { StoredResponse } from '../http/stored-response.ts';
import { effectiveEntityTag, parseEntityTag, strongValidator } from '../semantics/validator.ts';
import type { Representation } from './representation.ts';

/** Names the bytes of a representation. Plain data. */
export interface Version {
  /** Its name in the store, where it has one. */
  readonly generation: string | undefined;
  /** The strong validator that it has, ours or the origin's; undefined for a part, which is named like its whole. */
  readonly validator: string | undefined;
  /** The length of the whole, where it is known. */
  readonly sizeBytes: number | undefined;
}

/** The version of a representation as it is known now. */
export function versionOf({ response, sizeBytes, generation }: Versioned, now: number): Version {
  return { generation, validator: response.status === 200 ? validatorOf(response, now) : undefined, sizeBytes };
}

function validatorOf(response: StoredResponse, now: number): string | undefined {
  const tag = effectiveEntityTag(response);
  const isStrong = tag !== undefined && parseEntityTag(tag)?.kind === 'strong';
  return isStrong ? tag : strongValidator(response, now);
}

/** What a version is told by. */
export type Versioned = Pick<Representation, 'response' | 'sizeBytes' | 'generation'>;

/**
 * Whether two versions are the same bytes: one generation, or two that the same strong validator names (RFC 9110 §8.8.1), and
 * whose lengths do not say the contrary.
 */
export function isSameVersion(a: Version, b: Version): boolean {
  if (a.generation !== undefined && a.generation === b.generation) return true;
  return a.validator !== undefined && a.validator === b.validator && !hasOtherLength(a, b);
}

/** Whether two versions cannot be the same bytes, for there are more of one. */
export function hasOtherLength(a: Version, b: Version): boolean {
  return a.sizeBytes !== undefined && b.sizeBytes !== undefined && a.sizeBytes !== b.sizeBytes;
}
