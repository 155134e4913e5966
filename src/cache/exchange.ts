/** One conversation with the origin about a key: asks for the whole, or validates what is stored, and decides what becomes of the response. */

import { type Fields, fieldValue, withoutFields } from '../http/fields.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { parseUnsatisfiedRange } from '../semantics/content-range.ts';
import { contentDigestFields, selectContentDigest } from '../semantics/digest.ts';
import { freshened, mayFreshen } from '../semantics/freshen.ts';
import { formatRange, type RangeSpec, selectRanges } from '../semantics/range.ts';
import { conditionalFields } from '../semantics/revalidation.ts';
import { isOriginFailure } from '../semantics/staleness.ts';
import { decideStoring } from '../semantics/storing.ts';
import { type StoredEntry, StoreFault } from '../store/store.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Part } from './fill.ts';
import { isBehind, isWholeRange, selectFirstAsk, selectFirstPart } from './first-ask.ts';
import type { Clearance, Landing } from './flights.ts';
import { withGroupTags } from './group-tags.ts';
import type { Inquiry } from './inquiry.ts';
import { openGeneration, type Received, reopenGeneration } from './open-generation.ts';
import { fillFields, hasPrecondition, rangeSpecs } from './plan.ts';

/** An entry that is to be validated. */
export interface Candidate {
  readonly entry: StoredEntry;
  /** Until when it may be served if the origin fails, in epoch milliseconds; 0 for never. */
  readonly serveStaleUntil: number;
}

/** Asks the origin and lands. Never rejects. */
export async function exchange(
  context: ExchangeContext,
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

/** Opens a stored generation that is there in part, and lands with it. Never rejects. */
export async function reopenStored(
  context: ExchangeContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  clearance: Clearance,
): Promise<Landing> {
  const { store } = context;
  try {
    const writer = await store.resume(entry);
    if (writer === undefined) throw new ProxyError('bytes_gone', { detail: 'the generation is not current any more' });
    // It may have been freshened since it was found.
    const current = (await store.find(inquiry.key)).find(({ generation }) => generation === entry.generation);
    const isRevoked = () => clearance.isRevoked;
    return { kind: 'generation', generation: reopenGeneration(context, inquiry, current ?? entry, writer, isRevoked) };
  } catch (thrown) {
    if (thrown instanceof StoreFault) return { kind: 'unusable', reason: 'store-unavailable' };
    return { kind: 'failed', failure: toProxyError(thrown) };
  }
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
    return { kind: 'failed', failure: toProxyError(thrown) };
  }
}

async function converse(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  clearance: Clearance,
): Promise<Landing> {
  const range = candidate === undefined ? firstAsk(context, inquiry) : undefined;
  if (range !== undefined) {
    const part = await ask(context, inquiry, [['range', formatRange([range])]], clearance);
    return await landPart(context, inquiry, range, part, clearance);
  }
  const conditions = candidate === undefined ? [] : conditionalFields(candidate.entry.metadata);
  const received = await ask(context, inquiry, conditions, clearance);
  const { body, status } = received.response;
  if (isOriginFailure(status) && candidate !== undefined && received.responseAt <= candidate.serveStaleUntil) {
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
  context: ExchangeContext,
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
  context: ExchangeContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  { response, requestAt, responseAt }: Received,
): Promise<StoredEntry | undefined> {
  if (!mayFreshen(entry.metadata, response.fields)) return undefined;
  const fresh = freshened(entry.metadata, response, requestAt, responseAt, inquiry.policy);
  const metadata = withGroupTags(fresh, inquiry);
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

/** What is asked for first where a client wants a range and the origin may have ranges. */
function firstAsk({ store }: ExchangeContext, inquiry: Inquiry): RangeSpec | undefined {
  return inquiry.rangeAbility.mayAsk ? selectFirstAsk(rangeSpecs(inquiry), store.blockSizeBytes) : undefined;
}

/** What came for a part: it becomes a generation where parts of it may be combined (RFC 9111 §3.3, §3.4). */
async function landPart(
  context: ExchangeContext,
  inquiry: Inquiry,
  asked: RangeSpec,
  received: Received,
  clearance: Clearance,
): Promise<Landing> {
  const { response, responseAt } = received;
  const { rangeAbility } = inquiry;
  // Some origins send a 200 when the range is the whole, and all do when there are no bytes.
  if (response.status === 200 && !isWholeRange(asked, response.sizeBytes)) rangeAbility.noteWhole();
  if (response.status === 416) return await landUnsatisfied(context, inquiry, received, clearance);
  if (response.status !== 206) return await landWhole(context, inquiry, undefined, received, clearance);
  const part = selectFirstPart(response, responseAt, context.store.blockSizeBytes);
  if (part.kind === 'refuse') {
    response.body.close();
    if (part.isLie) rangeAbility.distrust(part.reason);
    else rangeAbility.noteUnnamed();
    return await landWhole(context, inquiry, undefined, await ask(context, inquiry, [], clearance), clearance);
  }
  rangeAbility.noteParts();
  const fields = withoutFields(response.fields, partFields);
  const whole = { ...received, response: { ...response, status: 200, fields, sizeBytes: part.sizeBytes } };
  const landing = await landWhole(context, inquiry, undefined, whole, clearance, {
    from: part.span.start,
    end: part.span.end,
    isWhole: false,
    digest: selectContentDigest(response.fields),
  });
  if (landing.kind !== 'relay') return landing;
  // It is not to be stored, and holds other bytes than the client wants.
  response.body.close();
  return { kind: 'unusable', reason: landing.reason };
}

/** Fields of a 206 that say nothing of the whole. */
const partFields = new Set(['content-range', 'content-length', ...contentDigestFields]);

/**
 * A 416 that tells the length is believed and passed on, where no range and no condition of the client says otherwise;
 * after any other one the whole is asked for.
 */
async function landUnsatisfied(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  clearance: Clearance,
): Promise<Landing> {
  const { fields, body } = received.response;
  const sizeBytes = parseUnsatisfiedRange(fieldValue(fields, 'content-range') ?? '');
  const specs = rangeSpecs(inquiry);
  const isRight =
    sizeBytes !== undefined && selectRanges(specs, sizeBytes, { coalesceGapBytes: 0 }).kind === 'unsatisfiable';
  if (isRight && !hasPrecondition(inquiry)) {
    return { kind: 'relay', relay: { ...received, evaluated: true }, reason: 'status' };
  }
  body.close();
  const whole = await ask(context, inquiry, [], clearance);
  const { status, sizeBytes: wholeBytes = 0 } = whole.response;
  if (status === 200 && !specs.slice(0, 1).every((spec) => isBehind(spec, wholeBytes))) {
    inquiry.rangeAbility.distrust('it answered 416 to a range that it has bytes of');
  }
  return await landWhole(context, inquiry, undefined, whole, clearance);
}

/** Lands with a response that stands for the whole. Closes its body where it throws. */
async function landWhole(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  received: Received,
  clearance: Clearance,
  part?: Pick<Part, 'from' | 'end' | 'isWhole' | 'digest'>,
): Promise<Landing> {
  const { body, sizeBytes } = received.response;
  try {
    const reason = refusalToStore(inquiry, received);
    if (reason !== undefined) {
      if (candidate !== undefined && isSuccessor(received.response.status, reason)) {
        await context.store.replaceMetadata(candidate.entry, { ...candidate.entry.metadata, isInvalid: true });
      }
      return relay(context, inquiry, received, reason);
    }
    const whole = { from: 0, end: sizeBytes, isWhole: true, digest: undefined };
    const first = { ...(part ?? whole), body, isProven: true, head: undefined };
    const generation = await openGeneration(context, inquiry, candidate?.entry, received, first, clearance);
    return { kind: 'generation', generation };
  } catch (thrown) {
    if (thrown instanceof StoreFault) {
      return relay(context, inquiry, received, thrown.reason === 'too_large' ? 'too-large' : 'store-unavailable');
    }
    body.close();
    throw thrown;
  }
}

/** Whether a response that is not stored takes the place of what is; most errors are about the one who asks. */
function isSuccessor(status: number, reason: string): boolean {
  return reason !== 'authorization' && (status < 400 || status === 404 || status === 410);
}

function relay({ unshared, clock }: ExchangeContext, { key }: Inquiry, received: Received, reason: string): Landing {
  unshared.note(key, reason, clock.now());
  return { kind: 'relay', relay: { ...received, evaluated: false }, reason };
}

/** Why a response is not stored. Throws `ProxyError` for one that answers another request. */
function refusalToStore(
  { originFields, policy, rangeAbility }: Inquiry,
  { response, responseAt }: Received,
): string | undefined {
  const { status, fields, framing } = response;
  if (status === 206) rangeAbility.distrust('it sent a part that was not asked for');
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
