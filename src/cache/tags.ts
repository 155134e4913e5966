/** What a stored response can be removed by besides its key: its groups (RFC 9875), its tags, and its URI in normal form. */

import type { Fields } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { groupTag, parseCacheGroups } from '../semantics/cache-groups.ts';
import { parseTags, spellingTag, storedTag } from '../semantics/cache-tags.ts';
import type { Inquiry } from './inquiry.ts';

/** What of an inquiry decides the tags of its response. */
type TaggedInquiry = Pick<Inquiry, 'key' | 'normalKey' | 'uriOrigin'>;

/**
 * The groups and the tags that the fields of a response name. Groups are those of its own URI origin (RFC 9875 §2): another
 * origin's response cannot name them. Tags are for those who run the server, and the same ones whoever has sent them: no
 * response can have anything removed by them. A target that is not in its normal form has a tag more, by which it is found.
 */
export function responseTags(response: Fields, { key, normalKey, uriOrigin }: TaggedInquiry): readonly string[] {
  const groups = parseCacheGroups(response).map((group) => groupTag(uriOrigin, group));
  const spelling = key === normalKey ? [] : [spellingTag(normalKey)];
  return [...groups, ...parseTags(response).map(storedTag), ...spelling];
}

/** The response, with the groups and the tags that its fields name now. */
export function withTags({ tags: _outdated, ...response }: StoredResponse, inquiry: TaggedInquiry): StoredResponse {
  const tags = responseTags(response.fields, inquiry);
  return tags.length === 0 ? response : { ...response, tags };
}
