/** The groups of a stored response, as the store knows them (RFC 9875). */

import type { Fields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { groupTag, parseCacheGroups } from '../semantics/cache-groups.ts';
import type { Inquiry } from './inquiry.ts';

/** The tags of the groups that a response names; those are groups of its own origin (RFC 9875 §2). */
export function groupTags(response: Fields, { uriOrigin }: Pick<Inquiry, 'uriOrigin'>): readonly string[] {
  return parseCacheGroups(response).map((group) => groupTag(uriOrigin, group));
}

/** The response, with the tags of the groups that its fields name. */
export function withGroupTags(
  { tags: _outdated, ...response }: StoredResponse,
  inquiry: Pick<Inquiry, 'uriOrigin'>,
): StoredResponse {
  const tags = groupTags(response.fields, inquiry);
  return tags.length === 0 ? response : { ...response, tags };
}
