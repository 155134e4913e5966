/** When a HEAD gets a length (RFC 9110 §8.6, §9.3.2). */

import { type Fields, fieldValue, hasField } from '../http/fields.ts';

/**
 * Whether a length that the origin has not stated may be added to the response to a HEAD, by the fields of the representation. Not
 * where it has a content coding (§8.4): the length would be that of the coded form, but a client that asks for a length mostly
 * continues with ranges, which it requests without a coding, as the Fetch standard demands. Without a length such clients ask for
 * a range at once, and its Content-Range has the length that they need.
 */
export function mayAddLength(fields: Fields): boolean {
  const coding = fieldValue(fields, 'content-encoding') ?? 'identity';
  return hasField(fields, 'content-length') || coding.toLowerCase() === 'identity';
}
