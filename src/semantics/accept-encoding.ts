/** Accept-Encoding in one of few forms (RFC 9110 §12.5.3). */

import { listMembers } from '../http/fields.ts';

/** The codings that origins use for the web, the ones that compress most first. */
const usedCodings = ['zstd', 'br', 'gzip'] as const;

/** A coding or `*`, and perhaps a weight (RFC 9110 §12.4.2). */
const memberPattern = /^([!#$%&'*+.^_`|~\w-]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/i;

/**
 * What a client accepts of zstd, br and gzip, in this order, or `identity` where that is nothing: one of eight values.
 * Weights other than 0 and what is malformed are left out. `value` is the field's, undefined where the client has sent
 * none: it then accepts any coding, but may know of none.
 */
export function normaliseAcceptEncoding(value: string | undefined): string {
  const { accepted, refused } = readCodings(value);
  const codings = usedCodings.filter((coding) => !refused.has(coding) && (accepted.has(coding) || accepted.has('*')));
  return codings.length === 0 ? 'identity' : codings.join(', ');
}

/** What is named twice, with the weight 0 and without, is refused. */
function readCodings(value: string | undefined) {
  const accepted = new Set<string>();
  const refused = new Set<string>();
  for (const member of listMembers(value)) {
    const match = memberPattern.exec(member);
    if (match === null) continue;
    const [, name = '', weight = '1'] = match;
    (Number(weight) > 0 ? accepted : refused).add(codingOf(name));
  }
  return { accepted, refused };
}

/** In lower case, and without the old name of gzip (RFC 9110 §8.4.1.3). */
function codingOf(name: string): string {
  const coding = name.toLowerCase();
  return coding === 'x-gzip' ? 'gzip' : coding;
}
