/** Asking the origin about a key: for the whole, for a part of it, or whether it has changed. */

import type { Fields } from '../http/fields.ts';
import { toProxyError } from '../http/proxy-error.ts';
import { isOriginFailure } from '../semantics/staleness.ts';
import type { RevalidationEvent } from '../telemetry/events.ts';
import { fillFields } from './asked.ts';
import { errandOf } from './errand.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Clearance } from './flight.ts';
import type { Inquiry } from './inquiry.ts';
import type { Received } from './open-generation.ts';

/** Asks for the whole current representation; `more` are the fields of a condition or a range. Throws `ProxyError`. */
export async function ask(
  context: ExchangeContext,
  inquiry: Inquiry,
  more: Fields,
  clearance: Clearance,
): Promise<Received> {
  const requestAt = context.clock.now();
  const errand = errandOf(inquiry);
  clearance.awaitErrand(errand);
  const response = await inquiry.origin.fetch({
    method: 'GET',
    target: inquiry.originTarget,
    fields: [...fillFields(inquiry.originFields), ...more],
    body: undefined,
    bodySizeBytes: undefined,
    signal: clearance.signal,
    onInterim: inquiry.onInterim,
    errand,
    causedBy: inquiry.causedBy,
  });
  return { response, requestAt, responseAt: context.clock.now(), errand };
}

/** Asks on conditions, and tells what has come of them. Throws `ProxyError`. */
export async function askWhetherCurrent(
  context: ExchangeContext,
  inquiry: Inquiry,
  conditions: Fields,
  clearance: Clearance,
): Promise<Received> {
  const tell = (result: RevalidationEvent['result']) => context.emit({ kind: 'revalidation', result });
  try {
    const received = await ask(context, inquiry, conditions, clearance);
    const { status } = received.response;
    tell(status === 304 ? 'confirmed' : isOriginFailure(status) ? 'failed' : 'replaced');
    return received;
  } catch (thrown) {
    if (toProxyError(thrown).source === 'origin') tell('failed');
    throw thrown;
  }
}
