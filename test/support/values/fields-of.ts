/** Short notations for fields and stored responses in tests. */

import type { Fields } from '../../../src/http/fields.ts';
import type { StoredResponse } from '../../../src/http/stored-response.ts';

/** Parses field lines such as `Cache-Control: no-store`. */
export function fieldsOf(...lines: readonly string[]): Fields {
  return lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
}

/** The time at which the responses of tests were sent and received, in epoch milliseconds; `sentDate` is the same as a Date field. */
export const sentAt = Date.UTC(2026, 0, 1, 12, 0, 0);
export const sentDate = 'Thu, 01 Jan 2026 12:00:00 GMT';

/** Makes a stored 200 with these field lines, which arrived without delay at `sentAt`. */
export function storedWith(lines: readonly string[], rest: Partial<StoredResponse> = {}): StoredResponse {
  return { status: 200, fields: fieldsOf(...lines), nominated: [], requestAt: sentAt, responseAt: sentAt, ...rest };
}
