/** What a stored response can be removed by besides its key, as the store knows it: its groups (RFC 9875) and its tags. */

import type { Fields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { groupTag, parseCacheGroups } from '../semantics/cache-groups.ts';
import { parseTags, storedTag } from '../semantics/cache-tags.ts';
import type { Inquiry } from './inquiry.ts';

/**
 * The groups and the tags that the fields of a response name. Groups are those of its own URI origin (RFC 9875 §2): another
 * origin's response cannot name them. Tags are for those who run the server, and the same ones whoever has sent them: no
 * response can have anything removed by them.
 */
export function responseTags(response: Fields, { uriOrigin }: Pick<Inquiry, 'uriOrigin'>): readonly string[] {
  const groups = parseCacheGroups(response).map((group) => groupTag(uriOrigin, group));
  return [...groups, ...parseTags(response).map(storedTag)];
}

/** The response, with the groups and the tags that its fields name now. */
export function withTags(
  { tags: _outdated, ...response }: StoredResponse,
  inquiry: Pick<Inquiry, 'uriOrigin'>,
): StoredResponse {
  const tags = responseTags(response.fields, inquiry);
  return tags.length === 0 ? response : { ...response, tags };
}
