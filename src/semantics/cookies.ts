/** The cookies of a request (RFC 6265 §5.4). */

import { type Fields, fieldLines, trimWhitespace } from '../http/fields.ts';

/** One cookie as it was sent. */
export interface Cookie {
  /** Letter case counts. */
  readonly name: string;
  /** `name=value`, or the name alone where there is no `=`. */
  readonly pair: string;
}

/**
 * The cookies of a request in order, those of several Cookie lines too (RFC 9113 §8.2.3), duplicates kept. Lenient as
 * servers are: any character but `;` may be in a cookie, white space around names and values does not count, quotation
 * marks mean nothing, and what has no `=` is a name.
 */
export function parseCookies(request: Fields): Cookie[] {
  return fieldLines(request, 'cookie')
    .flatMap((line) => line.split(';'))
    .map(trimWhitespace)
    .filter((text) => text !== '')
    .map(parseCookie);
}

function parseCookie(text: string): Cookie {
  const end = text.indexOf('=');
  if (end < 0) return { name: text, pair: text };
  const name = trimWhitespace(text.slice(0, end));
  return { name, pair: `${name}=${trimWhitespace(text.slice(end + 1))}` };
}
