/** The syntax of Cache-Control, read so that a malformed directive never permits more than a sound one. */

import { trimWhitespace } from '../http/fields.ts';

/** One directive as written. */
export interface CacheDirective {
  /** Lower-case. */
  readonly name: string;
  /** The argument without its quotes, or undefined when there is none. */
  readonly argument: string | undefined;
  /** Whether the argument was a quoted-string. */
  readonly quoted: boolean;
  /** Whether the text around the name was no directive by the grammar. Such a directive may restrict, never permit. */
  readonly malformed: boolean;
}

/** Larger numbers of seconds count as this one (RFC 9111 §1.2.2). */
export const maxDeltaSeconds = 2 ** 31;

const directiveForm = /^([!#$%&'*+\-.^_`|~\w]+)(?:=(?:([!#$%&'*+\-.^_`|~\w]+)|"((?:[^"\\]|\\.)*)"))?$/;
const words = /[!#$%&'*+\-.^_`|~\w]+/g;

/**
 * The directives of the lines of a Cache-Control field, in order (RFC 9111 §5.2). Each line is read by itself, so that
 * an open quote cannot hide what the next line says. Every word of a malformed member counts as a malformed directive:
 * `max-age=60; private` restricts twice.
 */
export function parseCacheDirectives(lines: readonly string[]): CacheDirective[] {
  const directives: CacheDirective[] = [];
  for (const line of lines) {
    for (const member of splitMembers(line)) directives.push(...parseMember(member));
  }
  return directives;
}

/**
 * The members of one line, trimmed: split at commas outside quoted-strings. A quote that is never closed, or does not
 * follow `=`, quotes nothing.
 */
export function splitMembers(line: string): string[] {
  const members: string[] = [];
  let start = 0;
  let quotesClose = true;
  for (let at = 0; at < line.length; at++) {
    if (line[at] === ',') {
      members.push(trimWhitespace(line.slice(start, at)));
      start = at + 1;
    } else if (quotesClose && line[at] === '=' && line[at + 1] === '"') {
      const end = endOfQuoted(line, at + 1);
      quotesClose = end !== undefined;
      at = end ?? at;
    }
  }
  members.push(trimWhitespace(line.slice(start)));
  return members;
}

/** The index of the quote that closes the one at `open`. */
function endOfQuoted(line: string, open: number): number | undefined {
  for (let at = open + 1; at < line.length; at++) {
    if (line[at] === '\\') at++;
    else if (line[at] === '"') return at;
  }
  return undefined;
}

function parseMember(member: string): CacheDirective[] {
  const [, name, token, quoted] = directiveForm.exec(member) ?? [];
  if (name === undefined) return (member.match(words) ?? []).map(malformedDirective);
  const argument = token ?? quoted?.replace(/\\(.)/g, '$1');
  return [{ name: name.toLowerCase(), argument, quoted: quoted !== undefined, malformed: false }];
}

function malformedDirective(word: string): CacheDirective {
  return { name: word.toLowerCase(), argument: undefined, quoted: false, malformed: true };
}

/** A number of seconds (RFC 9111 §1.2.2), capped; undefined for anything else, signs and fractions included. */
export function parseDeltaSeconds(text: string | undefined): number | undefined {
  if (text === undefined || !/^[0-9]+$/.test(text)) return undefined;
  return Math.min(Number(text), maxDeltaSeconds);
}
