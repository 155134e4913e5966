/** The groups of a stored response, as the store knows them (RFC 9875). */

import type { StoredResponse } from '../http/stored-response.ts';
import { groupTag, parseCacheGroups } from '../semantics/cache-groups.ts';
import type { Inquiry } from './inquiry.ts';

/** The response, tagged with the groups that its fields name; those are groups of its own origin (RFC 9875 §2). */
export function withGroupTags(
  { tags: _outdated, ...response }: StoredResponse,
  { uriOrigin }: Pick<Inquiry, 'uriOrigin'>,
): StoredResponse {
  const groups = parseCacheGroups(response.fields);
  return groups.length === 0 ? response : { ...response, tags: groups.map((group) => groupTag(uriOrigin, group)) };
}
