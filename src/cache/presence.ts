/** Whether a generation that is there in part holds all that a request wants. */

import type { StoredResponse } from '../http/stored-response.ts';
import { evaluatePreconditions } from '../semantics/precondition.ts';
import { selectRanges } from '../semantics/range.ts';
import { rangeSpecs } from './asked.ts';
import { hasBytes, type Outlook } from './fetch-decision.ts';
import type { Inquiry } from './inquiry.ts';

/**
 * Looks at what the request will get: nothing of the body, its ranges, or the whole, where it has none or an If-Range that
 * does not hold.
 */
export function isPresent(
  { response, outlook }: { readonly response: StoredResponse; readonly outlook: Outlook },
  inquiry: Inquiry,
  now: number,
): boolean {
  const { sizeBytes } = outlook;
  if (sizeBytes === undefined) return false;
  const asked = { method: inquiry.request.method, fields: inquiry.originFields };
  const outcome = evaluatePreconditions(asked, response, now);
  if (outcome.kind !== 'proceed') return true;
  const specs = outcome.range === 'apply' ? rangeSpecs(inquiry) : [];
  const selected = specs.length === 0 ? undefined : selectRanges(specs, sizeBytes, { coalesceGapBytes: 0 });
  if (selected?.kind === 'unsatisfiable') return true;
  if (selected?.kind === 'partial') return selected.spans.every((span) => hasBytes(outlook, span));
  return hasBytes(outlook, { start: 0, end: sizeBytes });
}
