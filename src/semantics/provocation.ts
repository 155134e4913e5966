/** Errors that one client could provoke so that a cache gives them to all others ("CPDoS"). */

import type { Fields } from '../http/fields.ts';

/** Refusals that depend on nothing but the target, which is in the cache key: what is not there, is gone, or too long. */
const refusalsOfTarget: ReadonlySet<number> = new Set([404, 410, 414, 451]);

/** Origins with tight limits take some 4 KiB of fields; what is larger may be what they refuse. */
const MAX_PLAIN_BYTES = 4096;

/** What a field value may hold without being suspect: visible characters, spaces and tabs. */
const plainValue = /^[\t\x20-\x7e]*$/;

/** Request fields that no key holds and for which an origin may refuse a request for anything. */
const suspectFields: ReadonlySet<string> = new Set([
  'authorization',
  'content-encoding',
  'content-type',
  'max-forwards',
]);

/**
 * Whether an error may be due to fields of the request rather than to its target: to their size, their characters, or
 * one that is out of place. It is then not to be stored, for whoever asks plainly would get it too. `request` are the
 * fields that the origin was sent.
 */
export function mayBeProvoked(request: Fields, status: number): boolean {
  if (status < 400 || refusalsOfTarget.has(status)) return false;
  let bytes = 0;
  for (const [name, value] of request) {
    bytes += name.length + value.length + 4;
    if (suspectFields.has(name) || !plainValue.test(value)) return true;
  }
  return bytes > MAX_PLAIN_BYTES;
}
