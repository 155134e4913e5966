/**
 * Reads client preferences: media types from Accept (RFC 9110 §12.5.1), and codings from Accept-Encoding, in one of eight
 * normal forms (§12.5.3).
 */

import { listMembers, trimWhitespace } from '../http/fields.ts';

/** Weights from 0 to 1 by media range, in lower case. Empty where the client states no preference: all types are then equal. */
type Acceptance = ReadonlyMap<string, number>;

/** A weight (RFC 9110 §12.4.2). */
const weightPattern = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;

/**
 * Parses an Accept field; `value` is undefined where the client sent none. Parameters other than the weight are ignored,
 * because no type has two forms here. Of a range that is named twice, the higher weight counts. Malformed members are ignored.
 */
export function parseAccept(value: string | undefined): Acceptance {
  const weights = new Map<string, number>();
  for (const member of listMembers(value)) {
    const [range = '', ...parameters] = member.split(';').map((part) => trimWhitespace(part).toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
    if (!range.includes('/') || !weightPattern.test(weight)) continue;
    weights.set(range, Math.max(Number(weight), weights.get(range) ?? 0));
  }
  return weights;
}

/**
 * Returns the weight of a media type (lower case, no parameters): that of the most specific matching range, else 0; 1 without
 * preferences.
 */
export function weightOf(type: string, accepted: Acceptance): number {
  if (accepted.size === 0) return 1;
  const family = type.slice(0, type.indexOf('/'));
  return accepted.get(type) ?? accepted.get(`${family}/*`) ?? accepted.get('*/*') ?? 0;
}

/** The codings that origins use on the web, the best compression first. */
const usedCodings = ['zstd', 'br', 'gzip'] as const;

/** A coding or `*`, with an optional weight (RFC 9110 §12.4.2). */
const memberPattern = /^([!#$%&'*+.^_`|~\w-]+)(?:[ \t]*;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/i;

/**
 * Returns which of zstd, br and gzip a client accepts, in this order, or `identity` if none: one of eight values. Weights other
 * than 0 and malformed members are ignored. `value` is undefined where the client sent no Accept-Encoding. Such a client
 * accepts any coding but may support none, so it gets `identity`.
 */
export function normaliseAcceptEncoding(value: string | undefined): string {
  const { accepted, refused } = readCodings(value);
  const codings = usedCodings.filter((coding) => !refused.has(coding) && (accepted.has(coding) || accepted.has('*')));
  return codings.length === 0 ? 'identity' : codings.join(', ');
}

/** A coding that is named twice, once with weight 0, is refused. */
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

/** In lower case; `x-gzip` becomes `gzip` (RFC 9110 §8.4.1.3). */
function codingOf(name: string): string {
  const coding = name.toLowerCase();
  return coding === 'x-gzip' ? 'gzip' : coding;
}
