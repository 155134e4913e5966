/** Responses to POST that answer a later GET (RFC 9110 §9.3.3). */

import { fieldLines, withoutFields } from '../http/fields.ts';
import { readCacheControl } from '../semantics/cache-control.ts';
import { freshnessLifetime, isExplicit } from '../semantics/freshness.ts';
import { resolveOwn } from '../semantics/invalidation.ts';
import { isMethodOverride } from '../semantics/method.ts';
import { decideStoring } from '../semantics/storing.ts';
import { changedInquiry, type Inquiry } from './inquiry.ts';
import type { Received } from './open-generation.ts';

/** Fields of a request that are about its content. */
const contentFields = new Set(['content-encoding', 'content-language', 'content-location', 'content-type']);

/**
 * The question of a GET that a response to POST answers as well: where it may be stored, has explicit freshness, and a
 * Content-Location that names the target itself. Undefined for every other response, and every other request. A POST that
 * asks for being taken for another method is none. What breaks off is not asked for again: nobody has asked for it by GET.
 */
export function selectPosted(inquiry: Inquiry, { response, responseAt }: Received): Inquiry | undefined {
  const { request, policy, key, keysOf, originFields } = inquiry;
  if (request.method !== 'POST' || response.status !== 200) return undefined;
  if (request.fields.some(([name]) => isMethodOverride(name))) return undefined;
  const dated = { status: response.status, fields: response.fields, responseAt };
  const control = readCacheControl(dated.fields, policy);
  if (!isExplicit(freshnessLifetime(dated, policy, control).source)) return undefined;
  const named = fieldLines(dated.fields, 'content-location').map((reference) => resolveOwn(reference, request));
  if (named.length !== 1 || named[0] === undefined || keysOf(named[0])?.key !== key) return undefined;
  const fields = withoutFields(originFields, contentFields);
  if (decideStoring({ request: { method: 'GET', fields }, response: dated, policy }).kind === 'refuse')
    return undefined;
  const fill = { ...policy.fill, resumeAttempts: 0 };
  return changedInquiry(inquiry, { originFields: fields, policy: { ...policy, fill } });
}
