/** Parses the cookies of a request (RFC 6265 §5.4). */

import { type Fields, fieldLines, trimWhitespace } from '../http/fields.ts';

/** One cookie as sent. */
export interface Cookie {
  /** Case-sensitive. */
  readonly name: string;
  /** `name=value`, or the name alone where there is no `=`. */
  readonly pair: string;
}

/**
 * Returns the cookies of a request in order, from all Cookie lines (RFC 9113 §8.2.3), duplicates included. As lenient as
 * servers are: a cookie may contain any character but `;`, white space around names and values is dropped, quotation marks have
 * no meaning, and a cookie without `=` is a name.
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
