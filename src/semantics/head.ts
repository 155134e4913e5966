/** What the response to a HEAD tells of a stored response to a GET (RFC 9111 §4.3.5). */

import { type Fields, fieldLines, fieldValue } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { mayFreshen } from './freshen.ts';

/** `freshen`: it is still the current one, and takes these fields. `invalidate`: it is not. */
export type HeadEffect = 'freshen' | 'invalidate';

/**
 * Decides by a 200 to a HEAD about a stored response that could have been chosen for that request: it is current as long
 * as no validator that was received, and no Content-Length, differs from what is stored, nor which fields Vary names. A
 * stored response of another status is not. `sizeBytes` is the length of what is stored.
 */
export function decideHeadEffect(stored: StoredResponse, sizeBytes: number, head: Fields): HeadEffect {
  const { status, fields, fragment } = stored;
  const isSuccess = status === 200 || fragment !== undefined;
  const isSameVersion = ['etag', 'last-modified'].every((name) => {
    const received = fieldValue(head, name);
    return received === undefined || received === fieldValue(fields, name);
  });
  const wholeBytes = String(fragment?.wholeBytes ?? sizeBytes);
  const isSameLength = fieldLines(head, 'content-length').every((length) => length === wholeBytes);
  return isSuccess && isSameVersion && isSameLength && mayFreshen(stored, head) ? 'freshen' : 'invalidate';
}
