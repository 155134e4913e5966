/** Groups of stored responses that an origin declares invalid together (RFC 9875). */

import { type Fields, fieldLines } from '../http/fields.ts';
import type { InvalidationInput } from './invalidation.ts';
import { isSafeMethod } from './method.ts';
import { parseStrings } from './structured-fields.ts';

/** How many groups of one field count, the first ones; the law wants at least 32 (RFC 9875 §2). */
export const maxGroups = 128;

/** How many characters a group may have; longer ones do not count. The law wants at least 32 (RFC 9875 §2). */
export const maxGroupLength = 256;

/**
 * The groups that a response belongs to, as Cache-Groups tells them, each once; letter case counts, parameters do not.
 * None when the field is no List of Strings (RFC 9875 §2, RFC 9651 §2). Never throws.
 */
export function parseCacheGroups(response: Fields): readonly string[] {
  return groupsOf(response, 'cache-groups');
}

/**
 * The groups whose stored responses are invalid after an exchange, as Cache-Group-Invalidation tells them: none where the
 * method is safe (RFC 9875 §3). An error invalidates nothing here, as it does nothing to the target (RFC 9111 §4.4): or
 * else whoever is refused could empty the cache. What is invalidated this way invalidates nothing more (RFC 9875 §2.2.1).
 */
export function groupsToInvalidate({
  method,
  response,
}: Pick<InvalidationInput, 'method' | 'response'>): readonly string[] {
  if (isSafeMethod(method) || response.status < 200 || response.status >= 400) return [];
  return groupsOf(response.fields, 'cache-group-invalidation');
}

/**
 * What a store knows a group by: equal for the same group of the same URI origin only (RFC 9875 §2.1). `origin` is the
 * scheme and the authority in its normal form: `https://example.com`.
 */
export function groupTag(origin: string, group: string): string {
  return JSON.stringify([origin, group]);
}

function groupsOf(fields: Fields, name: string): readonly string[] {
  const lines = fieldLines(fields, name);
  if (lines.length === 0) return [];
  const groups = parseStrings(lines)?.filter((group) => group.length <= maxGroupLength);
  return [...new Set(groups)].slice(0, maxGroups);
}
