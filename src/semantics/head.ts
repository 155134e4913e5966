/** What the response to a HEAD tells of a stored response to a GET (RFC 9111 §4.3.5). */

import { type Fields, fieldLines, fieldValue } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';

/** `freshen`: it is still the current one, and takes these fields. `invalidate`: it is not. */
export type HeadEffect = 'freshen' | 'invalidate';

/**
 * Decides by a 200 to a HEAD about a stored response that could have been chosen for that request: it is current as long
 * as no validator that was received, and no Content-Length, differs from what is stored.
 */
export function decideHeadEffect(stored: Pick<StoredResponse, 'fields'>, sizeBytes: number, head: Fields): HeadEffect {
  const isSame = ['etag', 'last-modified'].every((name) => {
    const received = fieldValue(head, name);
    return received === undefined || received === fieldValue(stored.fields, name);
  });
  return isSame && fieldLines(head, 'content-length').every((length) => length === String(sizeBytes))
    ? 'freshen'
    : 'invalidate';
}
