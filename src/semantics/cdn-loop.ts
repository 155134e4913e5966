/** CDN-Loop: which networks have passed a request on, and whether we have already (RFC 8586). */

import { type Fields, fieldLines, trimWhitespace } from '../http/fields.ts';

const cdnLoopField = 'cdn-loop';

/** A copy with our member after all others (RFC 8586 §2): a pseudonym, which is a token. */
export function withCdnLoop(fields: Fields, pseudonym: string): Fields {
  return [...fields, [cdnLoopField, pseudonym]];
}

/**
 * Whether a member of CDN-Loop is our pseudonym, in any case and with any parameters. Every comma separates here, those in
 * quotes too: proxies add members at the end of whatever a client has begun with, and an open quote must not hide them.
 */
export function isCdnLoop(request: Fields, pseudonym: string): boolean {
  const own = pseudonym.toLowerCase();
  return fieldLines(request, cdnLoopField).some((line) => line.split(',').some((member) => idOf(member) === own));
}

function idOf(member: string): string {
  const [id = ''] = member.split(';', 1);
  return trimWhitespace(id).toLowerCase();
}
