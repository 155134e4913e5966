/** Errors that one client could provoke so that a cache gives them to all others ("CPDoS"). */

import type { Fields } from '../http/fields.ts';

/** Refusals that tell of nothing but the target, which is in the cache key: what is not there, is gone, or too long. */
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

/** Beginnings of the names by which clouds are asked for more than a file, and refuse it where it makes no sense. */
const suspectFamilies = ['x-amz-', 'x-goog-', 'x-ms-'];

/** Request fields by which origins tell who may have something, or from which page, and refuse it to others. */
const fieldsOfAsker: ReadonlySet<string> = new Set(['cookie', 'origin', 'referer']);

/** The members of a negotiation field, from which an origin may find that it has nothing to offer (RFC 9110 §12.5). */
const negotiationForms: Readonly<Record<string, RegExp>> = {
  accept: memberForm('\\*|[\\w!#$&^.+*-]+/[\\w!#$&^.+*-]+'),
  'accept-charset': memberForm('[\\w*.:+-]+'),
  'accept-encoding': memberForm('[\\w*.+-]+'),
  'accept-language': memberForm('[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*|\\*'),
};

/**
 * Whether an error may be due to fields of the request rather than to its target: to their size, their characters, to one that
 * is out of place, or that makes no sense; or, where it is the client's (4xx) and not about the target alone, to who asks. It is
 * then not to be stored, for whoever asks plainly would get it too. `request` are the fields that the origin was sent, without
 * what the operator adds.
 */
export function mayBeProvoked(request: Fields, status: number): boolean {
  if (status < 400) return false;
  const isAboutAsker = status < 500 && !refusalsOfTarget.has(status);
  let bytes = 0;
  for (const [name, value] of request) {
    bytes += name.length + value.length + 4;
    if (isSuspect(name, value) || (isAboutAsker && fieldsOfAsker.has(name))) return true;
  }
  return bytes > MAX_PLAIN_BYTES;
}

function isSuspect(name: string, value: string): boolean {
  if (suspectFields.has(name) || !plainValue.test(value)) return true;
  if (suspectFamilies.some((family) => name.startsWith(family))) return true;
  const form = negotiationForms[name];
  return form !== undefined && !value.split(',').every((member) => form.test(member));
}

/** A member of a list: nothing, or what is asked for and its parameters. */
function memberForm(wanted: string): RegExp {
  return new RegExp(`^[ \\t]*(?:(?:${wanted})(?:[ \\t]*;[ \\t]*[\\w-]+=(?:[\\w.+/-]+|"[^"\\\\]*"))*[ \\t]*)?$`);
}
