/** One conversation with the origin about a key: asks for the whole, or validates what is stored, and decides what becomes of the response. */

import type { Fields } from '../http/fields.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { freshened, mayFreshen } from '../semantics/freshen.ts';
import { conditionalFields } from '../semantics/revalidation.ts';
import { decideStoring } from '../semantics/storing.ts';
import { type StoredEntry, StoreFault } from '../store/store.ts';
import type { Clearance, Landing } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import { createFill, type FillContext, type Received } from './new-fill.ts';
import { fillFields } from './plan.ts';

/** An entry that is to be validated, and whether it may be served if the origin fails. */
export interface Candidate {
  readonly entry: StoredEntry;
  readonly mayServeStale: boolean;
}

/** Asks the origin and lands. Never rejects. */
export async function exchange(
  context: FillContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  clearance: Clearance,
): Promise<Landing> {
  try {
    return await converse(context, inquiry, candidate, clearance);
  } catch (thrown) {
    return { kind: 'failed', failure: toProxyError(thrown) };
  }
}

async function converse(
  context: FillContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  clearance: Clearance,
): Promise<Landing> {
  const conditions = candidate === undefined ? [] : conditionalFields(candidate.entry.metadata);
  const received = await ask(context, inquiry, conditions, clearance);
  const { body, status } = received.response;
  if (status >= 500 && candidate?.mayServeStale === true) {
    body.close();
    return { kind: 'failed', failure: status };
  }
  if (status !== 304 || candidate === undefined || conditions.length === 0) {
    return await landWhole(context, inquiry, candidate, received, clearance);
  }
  body.close();
  const entry = await freshen(context, inquiry, candidate.entry, received);
  if (entry !== undefined) return { kind: 'revalidated', entry };
  const again = await ask(context, inquiry, [], clearance);
  return await landWhole(context, inquiry, candidate, again, clearance);
}

async function ask(
  context: FillContext,
  inquiry: Inquiry,
  conditions: Fields,
  { signal }: Clearance,
): Promise<Received> {
  const requestAt = context.clock.now();
  const response = await inquiry.origin.fetch({
    method: 'GET',
    target: inquiry.originTarget,
    fields: [...fillFields(inquiry.originFields), ...conditions],
    body: undefined,
    bodySizeBytes: undefined,
    signal,
    onInterim: inquiry.onInterim,
  });
  return { response, requestAt, responseAt: context.clock.now() };
}

/** RFC 9111 §4.3.4. Undefined when the 304 is not about this entry, or the entry is gone. */
async function freshen(
  context: FillContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  { response, requestAt, responseAt }: Received,
): Promise<StoredEntry | undefined> {
  if (!mayFreshen(entry.metadata, response.fields)) return undefined;
  const metadata = freshened(entry.metadata, response, requestAt, responseAt);
  // The 304 may have taken back what allowed the response to be stored. What this request said is no matter of the entry.
  const decision = decideStoring({
    request: { method: 'GET', fields: [] },
    response: metadata,
    policy: inquiry.policy,
  });
  if (decision.kind === 'refuse') {
    await context.store.removeEntry(entry);
    return undefined;
  }
  return await context.store.replaceMetadata(entry, metadata);
}

/** Lands with the response to a request for the whole. Closes its body where it throws. */
async function landWhole(
  context: FillContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  received: Received,
  clearance: Clearance,
): Promise<Landing> {
  try {
    const reason = refusalToStore(inquiry, received);
    if (reason !== undefined) return relay(context, inquiry, received, reason);
    return { kind: 'fill', fill: await createFill(context, inquiry, candidate?.entry, received, clearance) };
  } catch (thrown) {
    if (thrown instanceof StoreFault) {
      return relay(context, inquiry, received, thrown.reason === 'too_large' ? 'too-large' : 'store-unavailable');
    }
    received.response.body.close();
    throw thrown;
  }
}

function relay({ unshared, clock }: FillContext, { key }: Inquiry, received: Received, reason: string): Landing {
  unshared.note(key, reason, clock.now());
  return { kind: 'relay', relay: { ...received, evaluated: false }, reason };
}

/** Why a response is not stored. Throws `ProxyError` for one that answers another request. */
function refusalToStore({ originFields, policy }: Inquiry, { response, responseAt }: Received): string | undefined {
  const { status, fields, framing } = response;
  if (status === 206 || status === 304) {
    throw new ProxyError('origin_ill_framed', { detail: `status ${status} to a request without Range or condition` });
  }
  const decision = decideStoring({
    request: { method: 'GET', fields: originFields },
    response: { status, fields, responseAt },
    policy,
  });
  if (decision.kind === 'refuse') return decision.reason;
  return framing === 'close' && policy.closeDelimited === 'relay' ? 'close-delimited' : undefined;
}
