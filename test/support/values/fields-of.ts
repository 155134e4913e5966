/** Fields and stored responses as a test writes them. */

import type { Fields } from '../../../src/http/fields.ts';
import type { StoredResponse } from '../../../src/http/stored-response.ts';

/** Field lines from texts such as `Cache-Control: no-store`. */
export function fieldsOf(...lines: readonly string[]): Fields {
  return lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
}

/** When the responses of these tests were sent and had arrived; their Date, where they have one, is `sentDate`. */
export const sentAt = Date.UTC(2026, 0, 1, 12, 0, 0);
export const sentDate = 'Thu, 01 Jan 2026 12:00:00 GMT';

/** A stored 200 that came without delay at `sentAt`, with these field lines. */
export function storedWith(lines: readonly string[], rest: Partial<StoredResponse> = {}): StoredResponse {
  return { status: 200, fields: fieldsOf(...lines), nominated: [], requestAt: sentAt, responseAt: sentAt, ...rest };
}
