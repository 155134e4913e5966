/** What a client prefers: media types (Accept, RFC 9110 §12.5.1), and codings in one of few normal forms (Accept-Encoding, §12.5.3). */

import { listMembers, trimWhitespace } from '../http/fields.ts';

/** Weights from 0 to 1 by media range, in lower case. Empty where nothing tells: any type is as good as another. */
type Acceptance = ReadonlyMap<string, number>;

/** A weight as RFC 9110 §12.4.2 writes it. */
const weightPattern = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/;

/**
 * Reads an Accept field; undefined where the client has sent none. Parameters other than the weight are left out, since
 * no type has two forms here; of a range that is named twice the higher weight counts. What is malformed is left out too.
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

/** The weight of a media type, in lower case and without parameters: that of the most specific range, 0 without any. */
export function weightOf(type: string, accepted: Acceptance): number {
  if (accepted.size === 0) return 1;
  const family = type.slice(0, type.indexOf('/'));
  return accepted.get(type) ?? accepted.get(`${family}/*`) ?? accepted.get('*/*') ?? 0;
}

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
