/** The Via field: who has passed a message on, and whether we have already (RFC 9110 §7.6.3). */

import { type Fields, fieldLines, trimWhitespace } from '../http/fields.ts';
import { isCdnLoop } from './cdn-loop.ts';

/** A member of Via. `version` is that of the message as received: `1.0`, `1.1`, `2`. */
export function formatVia(version: string, pseudonym: string): string {
  return `${version} ${pseudonym}`;
}

/** A copy with our member after all others. */
export function withVia(fields: Fields, version: string, pseudonym: string): Fields {
  return [...fields, ['via', formatVia(version, pseudonym)]];
}

/**
 * Whether a request has passed here before: a member of its Via was received by our pseudonym, in any case, or CDN-Loop names
 * it (RFC 8586), which survives where Via is taken out on the way.
 */
export function isLoop(request: Fields, pseudonym: string): boolean {
  const own = pseudonym.toLowerCase();
  const isVia = fieldLines(request, 'via').some((line) =>
    viaMembers(line).some((member) => receivedBy(member) === own),
  );
  return isVia || isCdnLoop(request, pseudonym);
}

/** Received-protocol, white space, received-by, in lower case. */
function receivedBy(member: string): string | undefined {
  const [, name] = trimWhitespace(member).split(/[ \t]+/, 2);
  return name?.toLowerCase();
}

/**
 * The members with a space in place of each comment; comments may nest and hold commas. Where one is never closed
 * nothing counts as a comment: an open parenthesis must not hide a loop.
 */
function viaMembers(line: string): string[] {
  let depth = 0;
  let text = '';
  for (let at = 0; at < line.length; at++) {
    const character = line.charAt(at);
    if (character === '(') {
      depth++;
      text += ' ';
    } else if (depth === 0) {
      text += character;
    } else if (character === ')') {
      depth--;
    } else if (character === '\\') {
      at++;
    }
  }
  return (depth === 0 ? text : line).split(',');
}
