/** Asking the origin about a key: for the whole, for a part of it, or whether it has changed. */

import type { Fields } from '../http/fields.ts';
import { fillFields } from './asked.ts';
import { errandOf } from './errand.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Clearance } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import type { Received } from './open-generation.ts';

/** Asks for the whole current representation; `more` are the fields of a condition or a range. Throws `ProxyError`. */
export async function ask(
  context: ExchangeContext,
  inquiry: Inquiry,
  more: Fields,
  { signal }: Clearance,
): Promise<Received> {
  const requestAt = context.clock.now();
  const errand = errandOf(inquiry);
  const response = await inquiry.origin.fetch({
    method: 'GET',
    target: inquiry.originTarget,
    fields: [...fillFields(inquiry.originFields), ...more],
    body: undefined,
    bodySizeBytes: undefined,
    signal,
    onInterim: inquiry.onInterim,
    errand,
  });
  return { response, requestAt, responseAt: context.clock.now(), errand };
}
