/** What the response to a HEAD tells of a stored response to a GET (RFC 9111 §4.3.5). */

import { type Fields, fieldLines, fieldValue, hasField } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { mayFreshen } from './freshen.ts';

/** `freshen`: it is still the current one, and takes these fields. `invalidate`: it is not. `none`: nothing is told of it. */
export type HeadEffect = 'freshen' | 'invalidate' | 'none';

const validators = ['etag', 'last-modified'] as const;

/**
 * Decides by a 200 to a HEAD about a stored response that could have been chosen for that request: it is current as long
 * as no validator that was received, and no Content-Length, differs from what is stored, nor which fields Vary names. A
 * stored response of another status is not. One that was purged, or is known to be outdated, becomes valid again by a validator
 * only: that nothing differs proves nothing of its bytes. `sizeBytes` is the length of what is stored.
 */
export function decideHeadEffect(stored: StoredResponse, sizeBytes: number, head: Fields): HeadEffect {
  const { status, fields, fragment, isInvalid, expiredAt } = stored;
  const isSuccess = status === 200 || fragment !== undefined;
  const isSameVersion = validators.every((name) => {
    const received = fieldValue(head, name);
    return received === undefined || received === fieldValue(fields, name);
  });
  const wholeBytes = String(fragment?.wholeBytes ?? sizeBytes);
  const isSameLength = fieldLines(head, 'content-length').every((length) => length === wholeBytes);
  if (!isSuccess || !isSameVersion || !isSameLength || !mayFreshen(stored, head)) return 'invalidate';
  const isEnded = isInvalid === true || expiredAt !== undefined;
  return isEnded && !validators.some((name) => hasField(head, name)) ? 'none' : 'freshen';
}
