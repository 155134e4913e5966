/** The Accept field: which media types a client prefers (RFC 9110 §12.5.1). */

import { listMembers, trimWhitespace } from '../http/fields.ts';

/** Weights from 0 to 1 by media range, in lower case. Empty where nothing tells: any type is as good as another. */
export type Acceptance = ReadonlyMap<string, number>;

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
