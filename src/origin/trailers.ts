/** Which trailer fields of a response are kept. */

import type { Fields } from '../http/fields.ts';
import { withoutConnectionFields } from '../semantics/end-to-end.ts';

/**
 * What a trailer section must not say (RFC 9110 §6.5.1), because it is needed before: for framing, for routing, for
 * authentication, to control caches and the response, or to read its content.
 */
const headOnly: ReadonlySet<string> = new Set([
  'age',
  'authorization',
  'cache-control',
  'content-encoding',
  'content-length',
  'content-range',
  'content-type',
  'date',
  'expires',
  'host',
  'location',
  'proxy-authenticate',
  'retry-after',
  'set-cookie',
  'vary',
  'warning',
  'www-authenticate',
]);

/** The fields of a trailer section that may be passed on. */
export function keptTrailers(fields: Fields): Fields {
  if (fields.length === 0) return fields;
  return withoutConnectionFields(fields).filter(([name]) => !headOnly.has(name) && !name.startsWith(':'));
}
