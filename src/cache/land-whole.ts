/** What becomes of a response that stands for the whole: a generation where it may be stored, or else a relay. */

import type { Fields } from '../http/fields.ts';
import type { BodyStream } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { explainsNotModified } from '../semantics/precondition.ts';
import { decideReuse } from '../semantics/reuse.ts';
import { isOriginFailure } from '../semantics/staleness.ts';
import { decideStoring, personalFields } from '../semantics/storing.ts';
import { type StoredEntry, StoreFault } from '../store/store.ts';
import { BegunBody, gather } from './arrived-generation.ts';
import type { ExchangeContext } from './exchange-context.ts';
import { decideUnwanted } from './fill-policy.ts';
import type { Clearance, Landing } from './flight.ts';
import type { CachePolicy, Inquiry } from './inquiry.ts';
import { openArrived, openGeneration, type Received } from './open-generation.ts';
import type { Part } from './part.ts';

/**
 * Lands with a response that stands for the whole; `validated` is the entry that it was to validate, `part` what it holds
 * where that is not all. Closes its body where it throws `ProxyError`.
 */
export async function landWhole(
  context: ExchangeContext,
  inquiry: Inquiry,
  validated: StoredEntry | undefined,
  given: Received,
  clearance: Clearance,
  part?: Pick<Part, 'from' | 'end' | 'isWhole' | 'hasSureEnd' | 'digest'>,
): Promise<Landing> {
  const { sizeBytes } = given.response;
  let received = given;
  try {
    const reason = refusalToStore(inquiry, validated, received);
    if (reason !== undefined) return await relayWith(context, inquiry, validated, received, reason);
    if (validated === undefined && part === undefined && isOneBlock(sizeBytes, context.store.blockSizeBytes)) {
      const { body } = given.response;
      const gathered = await gather(body, sizeBytes);
      const arrived = gathered instanceof Uint8Array && openArrived(context, inquiry, received, gathered, clearance);
      if (arrived) return { kind: 'generation', generation: arrived, personal: personalOf(received, inquiry) };
      received = withBody(given, gathered instanceof Uint8Array ? new BegunBody([gathered], body) : gathered);
    }
    const whole = { from: 0, end: sizeBytes, isWhole: true, hasSureEnd: false, digest: undefined };
    const { errand } = received;
    const { body } = received.response;
    const first = { ...(part ?? whole), body, isProven: true, head: undefined, errand };
    const generation = await openGeneration(context, inquiry, validated, received, first, clearance);
    return { kind: 'generation', generation, personal: personalOf(received, inquiry) };
  } catch (thrown) {
    if (thrown instanceof StoreFault) {
      const reason = thrown.reason === 'too_large' ? 'too-large' : 'store-unavailable';
      return await relayWith(context, inquiry, validated, received, reason);
    }
    received.response.body.close();
    throw thrown;
  }
}

function personalOf({ response: { fields } }: Received, { policy }: Inquiry): Fields {
  return personalFields(fields, fields, policy);
}

function isOneBlock(sizeBytes: number | undefined, blockSizeBytes: number): sizeBytes is number {
  return sizeBytes !== undefined && sizeBytes > 0 && sizeBytes <= blockSizeBytes;
}

function withBody(received: Received, body: BodyStream): Received {
  return { ...received, response: { ...received.response, body } };
}

/** Lands with the response to a POST, for `inquiry`, the GET that it answers too. Never rejects. */
export async function landPosted(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  clearance: Clearance,
): Promise<Landing> {
  try {
    return await landWhole(context, inquiry, undefined, received, clearance);
  } catch (thrown) {
    return { kind: 'failed', failure: toProxyError(thrown), client: inquiry.client };
  }
}

/** Relays what is not stored. Where it takes the place of what is, that is not to be used unseen any more. */
async function relayWith(
  { store, unshared, refusals, clock }: ExchangeContext,
  { key }: Inquiry,
  validated: StoredEntry | undefined,
  received: Received,
  reason: string,
): Promise<Landing> {
  const { status } = received.response;
  const at = clock.now();
  unshared.note(key, reason, at);
  refusals.note(key, { reason, status, at });
  const isOutdated = validated !== undefined && isSuccessor(status, reason);
  const outdated = isOutdated
    ? await store.replaceMetadata(validated, { ...validated.metadata, isInvalid: true })
    : undefined;
  return { kind: 'relay', relay: { ...received, evaluated: false }, reason, outdated };
}

/** Whether a response that is not stored takes the place of what is; most errors, and a 304, are about the one who asks. */
function isSuccessor(status: number, reason: string): boolean {
  return reason !== 'authorization' && status !== 304 && (status < 400 || status === 404 || status === 410);
}

/** Why a response is not stored. Throws `ProxyError` for one that answers another request. */
function refusalToStore(
  { originFields, policy, rangeAbility, isUnattended }: Inquiry,
  validated: StoredEntry | undefined,
  { response, responseAt }: Received,
): string | undefined {
  const { status, fields, framing, sizeBytes } = response;
  if (status === 206) rangeAbility.distrust('it sent a part that was not asked for');
  // Such an origin goes by something else than the fields of the request; the client has a copy all the same.
  if (status === 304 && explainsNotModified(originFields, fields, responseAt)) return 'status';
  if (status === 206 || status === 304) {
    throw new ProxyError('origin_ill_framed', { detail: `status ${status} to a request without Range or condition` });
  }
  const decision = decideStoring({
    request: { method: 'GET', fields: originFields },
    response: { status, fields, responseAt },
    policy,
  });
  if (decision.kind === 'refuse') return decision.reason;
  if (isOriginFailure(status) && isOfUse(validated, policy, responseAt)) return 'origin-failure';
  const unread = { givesParts: rangeAbility.isKnown, sizeBytes, leftBytes: sizeBytes };
  if (isUnattended === true && decideUnwanted(policy.fill, unread) === 'stop') return 'unread';
  return framing === 'close' && policy.closeDelimited === 'relay' ? 'close-delimited' : undefined;
}

/**
 * Whether what is stored may be given to others although the origin fails (RFC 9111 §4.3.3): the failure does not take its
 * place then, whoever has asked for it.
 */
function isOfUse(stored: StoredEntry | undefined, policy: CachePolicy, now: number): boolean {
  if (stored === undefined || isOriginFailure(stored.metadata.status)) return false;
  const reuse = decideReuse({ requestFields: [], hasRange: false, stored: stored.metadata, now, policy });
  return reuse.kind !== 'validate' || reuse.serveStaleUntil > now;
}
