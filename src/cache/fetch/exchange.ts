/**
 * Runs one exchange with the origin for a key, and turns the response into a fetch result. Requests the whole, a part, or a
 * validation of the stored response. Read this file first, then `open-generation.ts`.
 *
 * A 304 freshens the stored response (`freshen`, RFC 9111 §4.3.4). A 200 becomes a generation where it may be stored, otherwise it
 * is relayed (`on200`). A 206 begins a generation where parts may be combined (`on206`, RFC 9110 §15.3.7.3), or is kept as a
 * fragment (RFC 9111 §3.3).
 */

import { hash } from 'node:crypto';
import { spanSize } from '../../bytes/span.ts';
import { cutSpan } from '../../http/cut-body.ts';
import { type Fields, fieldValue, hasField, withField, withoutFields } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import type { Fragment, StoredResponse } from '../../http/stored-response.ts';
import type { OriginResponse } from '../../origin/origin.ts';
import { type RangeFault, rangeRefusals, refusesWhole } from '../../origin/range-ability.ts';
import { contentDigestFields, selectContentDigest, withoutDigestsOfContent } from '../../semantics/digest.ts';
import {
  fieldsBesidesValidity,
  freshened,
  isConfirmedByTag,
  mayFreshen,
  validityFields,
} from '../../semantics/freshen.ts';
import { isOriginFailure } from '../../semantics/freshness.ts';
import { canUseNotModified } from '../../semantics/precondition.ts';
import {
  formatContentRange,
  formatRange,
  isCodedAlone,
  parseContentRange,
  parseUnsatisfiedRange,
  type RangeSpec,
  selectRanges,
  statesPart,
} from '../../semantics/range.ts';
import { decideReuse } from '../../semantics/reuse.ts';
import { isForAuthorized, personalFields } from '../../semantics/storing.ts';
import { compareVersions, conditionalFields, strongValidator } from '../../semantics/validator.ts';
import { originEcho, variantName, withoutOriginEcho } from '../../semantics/vary.ts';
import { type StoredEntry, StoreFault, toStoreFault } from '../../store/store.ts';
import type { Clearance, FetchResult, Kept } from '../collapse/flight.ts';
import type { ExchangeContext } from '../context.ts';
import { gather, type OpenGeneration, ResumedBody } from '../fill/arrived-generation.ts';
import { commit, expireLate } from '../fill/commit.ts';
import {
  asWhole,
  doubtWhole,
  isPastEnd,
  isWholeRange,
  isWholeStatus,
  isWrongPart,
  noteDoubted,
  selectFirstPart,
  selectFirstRange,
  type WholeDoubt,
  wholeInsteadOf,
} from '../fill/fetch-decision.ts';
import type { Part } from '../fill/part-source.ts';
import {
  type CachePolicy,
  chargeTo,
  decideStoringFor,
  decideUnread,
  fillFields,
  hasPrecondition,
  hasRange,
  type Inquiry,
  isAskedOnce,
  rangeSpecs,
} from '../inquiry.ts';
import { isFragment, isUsable, mayBeServedTo, withIdentity } from '../lookup/lookup.ts';
import {
  describe,
  openArrived,
  openGeneration,
  type Received,
  reopenGeneration,
  warnOfSetCookie,
  withTags,
} from './open-generation.ts';

/** A stored response that is to be validated. */
export interface Candidate {
  /** Undefined where only a generation is arriving. */
  readonly entry: StoredEntry | undefined;
  /** Until when the entry may be served if the origin fails, in epoch milliseconds; 0 for never. */
  readonly serveStaleUntil: number;
  /** A newer generation that is arriving, and that the store does not find yet. It is validated in place of the entry. */
  readonly arriving?: OpenGeneration | undefined;
}

/** Runs an exchange and returns its fetch result; an error gives the result `failed`. Never rejects. */
export async function exchange(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  clearance: Clearance,
): Promise<FetchResult> {
  try {
    return await askAndInterpret(context, inquiry, candidate, clearance);
  } catch (thrown) {
    return { kind: 'failed', failure: toProxyError(thrown), client: inquiry.client };
  }
}

/** Opens a stored generation that is present in part, and returns it as a fetch result. Never rejects. */
export async function reopenStored(
  context: ExchangeContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  clearance: Clearance,
): Promise<FetchResult> {
  const { store } = context;
  try {
    const writer = await store.resume(entry);
    if (writer === undefined) throw new ProxyError('bytes_gone', { detail: 'the generation is not current any more' });
    // The entry may have been freshened since it was found.
    const current = (await store.find(inquiry.key)).find(({ generation }) => generation === entry.generation);
    return { kind: 'generation', generation: reopenGeneration(context, inquiry, current ?? entry, writer, clearance) };
  } catch (thrown) {
    if (thrown instanceof StoreFault) return { kind: 'unusable', reason: 'store-unavailable' };
    return { kind: 'failed', failure: toProxyError(thrown), client: inquiry.client };
  }
}

/** How often a validation is repeated because its stored response was replaced meanwhile. After that the whole is requested. */
const MAX_VALIDATIONS = 3;

async function askAndInterpret(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  clearance: Clearance,
): Promise<FetchResult> {
  if (candidate !== undefined) return await validate(context, inquiry, candidate, clearance, MAX_VALIDATIONS);
  const ofPart = await askForPart(context, inquiry, clearance);
  if (ofPart !== undefined) return ofPart;
  const whole = await ask(context, inquiry, [], clearance);
  // Where no part is requested because earlier ones were of no use, they may still be all that the client can have.
  const mayGiveParts = hasRange(inquiry) && inquiry.rangeSupport.refusal !== undefined;
  if (!mayGiveParts || !refusesWhole(whole.response.status)) {
    return await on200(context, inquiry, undefined, whole, clearance);
  }
  whole.response.body.close();
  return partsOnly;
}

/**
 * Validates a stored response, or fetches it anew where it has no validator. A 304 confirms whichever stored response has the
 * validators that the origin was sent: another exchange may have stored the same version again. Where it has stored another
 * version, that one is validated, at most `left` times in all; a whole response is requested where the 304 is of no use.
 */
async function validate(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate,
  clearance: Clearance,
  left: number,
): Promise<FetchResult> {
  const { entry, serveStaleUntil } = candidate;
  const target = candidate.arriving?.response ?? entry?.metadata;
  const conditions = left > 0 && target !== undefined ? conditionalFields(target) : [];
  const received = await (conditions.length > 0 ? askWhetherCurrent : ask)(context, inquiry, conditions, clearance);
  const { body, status } = received.response;
  const refused = refusedValidation(inquiry, received, serveStaleUntil);
  if (refused !== undefined) {
    body.close();
    return refused;
  }
  const isConfirmation = status === 304 && conditions.length > 0;
  if (isConfirmation) body.close();
  const result = await (isConfirmation ? freshenBy304 : freshenBy200)(context, inquiry, candidate, received, clearance);
  if (conditions.length > 0 && !isOriginFailure(status)) {
    context.emit({ kind: 'revalidation', result: isConfirmation || result !== undefined ? 'confirmed' : 'replaced' });
  }
  if (result !== undefined) return result;
  if (!isConfirmation) return await on200(context, inquiry, entry, received, clearance);
  const successor = await findSuccessor(context, inquiry, candidate);
  const next = { entry: successor ?? entry, serveStaleUntil };
  return await validate(context, inquiry, next, clearance, successor === undefined ? 0 : left - 1);
}

/** What a response to a validation becomes that says nothing of the stored response; undefined where it does. */
function refusedValidation(
  inquiry: Inquiry,
  { response: { status }, responseAt }: Received,
  serveStaleUntil: number,
): FetchResult | undefined {
  if (isOriginFailure(status) && responseAt < serveStaleUntil) {
    return { kind: 'failed', failure: status, client: inquiry.client };
  }
  // An origin that gives parts only refuses the whole, whether it has changed or not.
  return hasRange(inquiry) && refusesWhole(status) ? partsOnly : undefined;
}

/** Freshens what a 304 confirms; undefined where nothing that is stored or arriving is confirmed, or may be kept. */
async function freshenBy304(
  context: ExchangeContext,
  inquiry: Inquiry,
  { entry, arriving }: Candidate,
  received: Received,
  clearance: Clearance,
): Promise<FetchResult | undefined> {
  const target = arriving?.response ?? entry?.metadata;
  if (target === undefined) return undefined;
  const tried = new Set<string>();
  let stored = arriving === undefined ? entry : await findCurrent(context, inquiry, isNamed(arriving.name));
  while (stored !== undefined) {
    const result = await freshen(context, inquiry, stored, received, clearance);
    if (result !== undefined) return result;
    tried.add(stored.generation);
    stored = await findCurrent(context, inquiry, ({ generation, metadata }) => {
      return !tried.has(generation) && isSameToOrigin(target, metadata, received.responseAt);
    });
  }
  return arriving?.isJoinable === true ? freshenArriving(inquiry, arriving, received, clearance) : undefined;
}

/**
 * Freshens the stored response that has the strong validator of a 200, so that the same bytes are not stored anew under all who
 * read them. Some origins never send a 304. Undefined where the 200 may differ from what is stored.
 */
async function freshenBy200(
  context: ExchangeContext,
  inquiry: Inquiry,
  { arriving }: Candidate,
  received: Received,
  clearance: Clearance,
): Promise<FetchResult | undefined> {
  const { response, responseAt } = received;
  if (response.status !== 200 || clearance.isRevoked) return undefined;
  if (decideStoringFor(inquiry, { status: 200, fields: response.fields, responseAt }).kind === 'refuse')
    return undefined;
  const isSame = (metadata: StoredResponse, sizeBytes: number | undefined) =>
    isSameRepresentation({ metadata, sizeBytes }, received);
  const stored = await findCurrent(
    context,
    inquiry,
    ({ isComplete, metadata, sizeBytes }) => isComplete && isSame(metadata, sizeBytes),
  );
  let result = stored && (await freshen(context, inquiry, stored, received, clearance));
  if (result === undefined && arriving?.isJoinable === true && isSame(arriving.response, arriving.sizeBytes)) {
    result = freshenArriving(inquiry, arriving, received, clearance);
  }
  if (result !== undefined) dropBody(response, context.store.blockSizeBytes);
  return result;
}

/** Reads a body of at most one block to its end, which keeps the connection to the origin; a longer one is closed. Never throws. */
function dropBody({ body, sizeBytes }: Received['response'], blockSizeBytes: number): void {
  if (sizeBytes === undefined || sizeBytes > blockSizeBytes) {
    body.close();
    return;
  }
  const read = async () => {
    for await (const _ of body);
  };
  read().catch(() => body.close());
}

/** Whether a 200 has the strong validator of a stored response, and nothing in it says that its bytes differ. */
function isSameRepresentation(
  { metadata, sizeBytes }: { readonly metadata: StoredResponse; readonly sizeBytes: number | undefined },
  { response, responseAt }: Received,
): boolean {
  const isEqual = (name: string) => fieldValue(metadata.fields, name) === fieldValue(response.fields, name);
  return (
    metadata.status === 200 &&
    !hasField(response.fields, 'content-range') &&
    (sizeBytes === undefined || response.sizeBytes === undefined || sizeBytes === response.sizeBytes) &&
    ['content-encoding', 'content-type', 'repr-digest', ...contentDigestFields].every(isEqual) &&
    compareVersions(metadata, { fields: response.fields, responseAt }, responseAt) === 'same'
  );
}

/** Whether a validation of one stored response says the same of another one: the strong validator, or the tag and the date, are equal. */
function isSameToOrigin(a: StoredResponse, b: StoredResponse, now: number): boolean {
  if (compareVersions(a, b, now) === 'same') return true;
  const isEqual = (name: string) =>
    hasField(a.fields, name) && fieldValue(a.fields, name) === fieldValue(b.fields, name);
  return isEqual('etag') && isEqual('last-modified');
}

function isNamed(name: string): (entry: StoredEntry) => boolean {
  return ({ generation }) => generation === name;
}

/** Finds the stored response that the origin may be asked about for a request. */
async function findCurrent(
  { store, clock }: ExchangeContext,
  inquiry: Inquiry,
  holds: (entry: StoredEntry) => boolean,
): Promise<StoredEntry | undefined> {
  return (await store.find(inquiry.key)).find(
    (entry) =>
      entry.pinnedUntil === undefined &&
      isUsable(entry, clock.now()) &&
      !isFragment(entry.metadata) &&
      mayBeServedTo(entry.metadata, inquiry) &&
      holds(entry),
  );
}

/** Finds what another exchange has stored in place of a response that was validated. */
function findSuccessor(
  context: ExchangeContext,
  inquiry: Inquiry,
  { entry, arriving }: Candidate,
): Promise<StoredEntry | undefined> {
  return findCurrent(
    context,
    inquiry,
    ({ generation }) => generation !== entry?.generation && generation !== arriving?.name,
  );
}

/** What a validation makes of a stored response. */
interface Freshened {
  /** Undefined where the response may not be kept any more. */
  readonly metadata: StoredResponse | undefined;
  /** The fields that go into it, and into the others that the validation is about. */
  readonly shared: Fields;
  readonly isForAll: boolean;
  /** The fields that are only for the request. */
  readonly personal: Fields;
}

/**
 * Merges a 304, or the head of a 200, into a stored response (RFC 9111 §4.3.4); undefined where it is not about this response.
 * Where it is only for requests with the same Authorization (§3.5), the response takes only its validity fields. CORS fields that
 * repeat the Origin of the request are for that request only.
 */
function freshenedBy(
  inquiry: Inquiry,
  stored: StoredResponse,
  received: Received,
  clearance: Clearance,
): Freshened | undefined {
  const { originFields, policy } = inquiry;
  const { fields } = received.response;
  if (!mayFreshen(stored, fields)) return undefined;
  const merged = mergeInto(inquiry, stored, fields, received, clearance);
  const isForAll = !isForAuthorized(originFields, merged.fields, policy);
  const shared = isForAll ? withoutOriginEcho(originFields, fields) : validityFields(fields, policy);
  const metadata = withIdentity(mergeInto(inquiry, stored, shared, received, clearance), inquiry);
  const personal = isForAll
    ? [...personalFields(fields, metadata.fields, policy), ...originEcho(originFields, fields)]
    : fieldsBesidesValidity(fields, policy);
  return { metadata: mayKeep(metadata, inquiry, clearance) ? metadata : undefined, shared, isForAll, personal };
}

function mergeInto(
  inquiry: Inquiry,
  stored: StoredResponse,
  newer: Fields,
  { requestAt, responseAt }: Received,
  clearance: Clearance,
): StoredResponse {
  const { expiredAt = stored.expiredAt } = clearance;
  const known = expiredAt === undefined ? stored : { ...stored, expiredAt };
  return withTags(freshened(known, { fields: newer }, requestAt, responseAt, inquiry.policy), inquiry);
}

/** Freshens a generation that is arriving in another flight; undefined as `freshen`. */
function freshenArriving(
  inquiry: Inquiry,
  generation: OpenGeneration,
  received: Received,
  clearance: Clearance,
): FetchResult | undefined {
  const fresh = freshenedBy(inquiry, generation.response, received, clearance);
  if (fresh?.metadata === undefined) return undefined;
  generation.freshen(fresh.metadata);
  return { kind: 'confirmed', generation, personal: fresh.personal };
}

function replace(
  store: ExchangeContext['store'],
  entry: StoredEntry,
  metadata: StoredResponse,
  clearance: Clearance,
): Promise<StoredEntry | undefined> {
  return clearance.storing(async () => {
    const replaced = await store.replaceMetadata(entry, metadata);
    return replaced && (await expireLate(store, replaced, clearance.expiredAt));
  });
}

/**
 * Freshens an entry with a 304, or the head of a 200 (RFC 9111 §4.3.4). Undefined when that is not about this entry, when it
 * forbids keeping the entry, or when the entry is gone.
 */
async function freshen(
  context: ExchangeContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  received: Received,
  clearance: Clearance,
): Promise<FetchResult | undefined> {
  const { status, fields } = received.response;
  const fresh = freshenedBy(inquiry, entry.metadata, received, clearance);
  if (fresh === undefined) return undefined;
  const { metadata, shared, isForAll, personal } = fresh;
  if (metadata === undefined) {
    if (isForAll) await context.store.removeEntry(entry);
    return undefined;
  }
  warnOfSetCookie(context, inquiry.key, fields, metadata.fields);
  const replaced = await replace(context.store, entry, metadata, clearance);
  if (replaced === undefined) return undefined;
  const alike: StoredEntry[] = [];
  for (const other of status === 304 ? await findAlike(context, inquiry, entry, fields) : []) {
    const merged = mergeInto(inquiry, other.metadata, shared, received, clearance);
    const updated = mayKeep(merged, inquiry, clearance)
      ? await replace(context.store, other, merged, clearance)
      : undefined;
    if (updated !== undefined) alike.push(updated);
  }
  return { kind: 'revalidated', entry: replaced, alike, status, personal };
}

/**
 * Whether a freshened response may stay stored: the 304 may have withdrawn the permission. The fields of this request do not count.
 */
function mayKeep(metadata: StoredResponse, { policy }: Inquiry, clearance: Clearance): boolean {
  const decision = decideStoringFor({ originFields: [], policy }, metadata);
  return decision.kind === 'store' && !clearance.isRevokedFor(metadata.tags);
}

/** The other entries that could have been selected for the request and that the strong tag of a 304 names (RFC 9111 §4.3.4). */
async function findAlike(
  { store }: ExchangeContext,
  inquiry: Inquiry,
  { generation }: StoredEntry,
  notModified: Fields,
): Promise<readonly StoredEntry[]> {
  if (!hasField(notModified, 'etag')) return [];
  return (await store.find(inquiry.key)).filter(
    (other) =>
      other.generation !== generation &&
      other.pinnedUntil === undefined &&
      !isFragment(other.metadata) &&
      mayBeServedTo(other.metadata, inquiry) &&
      isConfirmedByTag(other.metadata, notModified),
  );
}

/** Requests the whole current representation; `more` are the fields of a condition or a range. Throws `ProxyError`. */
async function ask(context: ExchangeContext, inquiry: Inquiry, more: Fields, clearance: Clearance): Promise<Received> {
  const requestAt = context.clock.now();
  const charged = chargeTo(inquiry);
  clearance.awaitCharged(charged);
  const response = await inquiry.origin.fetch({
    method: 'GET',
    target: inquiry.originTarget,
    fields: [...fillFields(inquiry.originFields), ...more],
    body: undefined,
    bodySizeBytes: undefined,
    signal: clearance.signal,
    onInterim: inquiry.onInterim,
    charged,
    causedBy: inquiry.causedBy,
  });
  return { response, requestAt, responseAt: context.clock.now(), charged };
}

/** Sends a conditional request, and emits a `revalidation` event where it fails. Throws `ProxyError`. */
async function askWhetherCurrent(
  context: ExchangeContext,
  inquiry: Inquiry,
  conditions: Fields,
  clearance: Clearance,
): Promise<Received> {
  const report = () => context.emit({ kind: 'revalidation', result: 'failed' });
  try {
    const received = await ask(context, inquiry, conditions, clearance);
    const { status } = received.response;
    if (isOriginFailure(status)) report();
    return received;
  } catch (thrown) {
    if (toProxyError(thrown).source === 'origin') report();
    throw thrown;
  }
}

/**
 * Turns a response whose head is that of the whole into a generation, or into a relay where it is not stored. `validated` is the
 * entry that the request was to validate. `part` describes the body where it is only a part. Closes the body before it throws
 * `ProxyError`.
 */
async function on200(
  context: ExchangeContext,
  inquiry: Inquiry,
  validated: StoredEntry | undefined,
  original: Received,
  clearance: Clearance,
  part?: Pick<Part, 'from' | 'end' | 'isWhole' | 'hasSureEnd' | 'digest'>,
): Promise<FetchResult> {
  let received = withResponse(original, asWhole(original.response));
  const { sizeBytes } = received.response;
  try {
    const reason = refusalToStore(inquiry, validated, received);
    if (reason !== undefined && isOwnRangeBetter(inquiry, reason)) {
      received.response.body.close();
      return { kind: 'unusable', reason };
    }
    if (reason !== undefined) return await relayWith(context, inquiry, validated, received, reason);
    if (validated === undefined && part === undefined && isOneBlock(sizeBytes, context.store.blockSizeBytes)) {
      const { body } = received.response;
      const gathered = await gather(body, sizeBytes);
      const arrived = gathered instanceof Uint8Array && openArrived(context, inquiry, received, gathered, clearance);
      if (arrived) return { kind: 'generation', generation: arrived, personal: personalOf(received, inquiry) };
      received = withBody(received, gathered instanceof Uint8Array ? new ResumedBody([gathered], body) : gathered);
    }
    const whole = { from: 0, end: sizeBytes, isWhole: true, hasSureEnd: false, digest: undefined };
    const { charged } = received;
    const { body } = received.response;
    const first = { ...(part ?? whole), body, isProven: true, head: undefined, charged };
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

/**
 * Whether the client's own Range is to be passed on in place of a response that is not stored. A part that nobody has asked for is of
 * no use to the client. Where the origin sends parts, though with the status of the whole, the range costs less than the whole.
 */
function isOwnRangeBetter(inquiry: Inquiry, reason: string): boolean {
  return hasRange(inquiry) && (reason === unaskedPart || inquiry.rangeSupport.refusal?.fault === 'disguised');
}

function personalOf({ response: { fields } }: Received, { policy }: Inquiry): Fields {
  return personalFields(fields, fields, policy);
}

function isOneBlock(sizeBytes: number | undefined, blockSizeBytes: number): sizeBytes is number {
  return sizeBytes !== undefined && sizeBytes > 0 && sizeBytes <= blockSizeBytes;
}

function withBody(received: Received, body: BodyStream): Received {
  return withResponse(received, { ...received.response, body });
}

function withResponse(received: Received, response: OriginResponse): Received {
  return response === received.response ? received : { ...received, response };
}

/** Turns the response to a POST into a fetch result for `inquiry`, the GET that the response also answers. Never rejects. */
export async function onPostedResponse(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  clearance: Clearance,
): Promise<FetchResult> {
  try {
    return await on200(context, inquiry, undefined, received, clearance);
  } catch (thrown) {
    return { kind: 'failed', failure: toProxyError(thrown), client: inquiry.client };
  }
}

/** Relays a response that is not stored. Marks the stored response as invalid where this one replaces it. */
async function relayWith(
  { store, hitForPass, notStoredReasons, clock }: ExchangeContext,
  { key }: Inquiry,
  validated: StoredEntry | undefined,
  received: Received,
  reason: string,
): Promise<FetchResult> {
  const { status } = received.response;
  const at = clock.now();
  hitForPass.note(key, reason, at);
  notStoredReasons.note(key, { reason, status, at });
  const isOutdated = validated !== undefined && isSuccessor(status, reason);
  const outdated = isOutdated
    ? await store.replaceMetadata(validated, { ...validated.metadata, isInvalid: true })
    : undefined;
  return { kind: 'relay', relay: { ...received, evaluated: false }, reason, outdated };
}

/** Whether a response that is not stored replaces the stored one. Most errors, and a 304, are about the request only. */
function isSuccessor(status: number, reason: string): boolean {
  return reason !== 'authorization' && status !== 304 && (status < 400 || status === 404 || status === 410);
}

/** The response is a part, to a request without Range. It is passed on, and says nothing about other resources of the origin. */
const unaskedPart = 'unasked-part';

/** Why a response is not stored; undefined where it is. Throws `ProxyError` for a 304 that answers another request. */
function refusalToStore(
  inquiry: Inquiry,
  validated: StoredEntry | undefined,
  { response, responseAt }: Received,
): string | undefined {
  const { originFields, policy, rangeSupport, isBackground } = inquiry;
  const { status, fields, framing, sizeBytes } = response;
  if (status === 206 || (isWholeStatus(status) && statesPart(fields, sizeBytes))) return unaskedPart;
  // The request had no condition, so the origin did not go by its fields. The 304 is right for the client, which has a copy.
  if (status === 304 && canUseNotModified(originFields, fields, responseAt)) return 'status';
  if (status === 304) {
    throw new ProxyError('origin_ill_framed', { detail: 'status 304 to a request without a condition' });
  }
  const decision = decideStoringFor(inquiry, { status, fields, responseAt });
  if (decision.kind === 'refuse') return decision.reason;
  if (isOriginFailure(status) && isOfUse(validated, policy, responseAt)) return 'origin-failure';
  if (isBackground === true) {
    const unread = { givesParts: rangeSupport.isKnown, sizeBytes, leftBytes: sizeBytes };
    if (decideUnread(policy.fill, unread) === 'stop') return 'unread';
  }
  return framing === 'close' && policy.closeDelimited === 'relay' ? 'close-delimited' : undefined;
}

/**
 * Whether the stored response may still be served to other requests although the origin fails (RFC 9111 §4.3.3). The failure then
 * does not replace it.
 */
function isOfUse(stored: StoredEntry | undefined, policy: CachePolicy, now: number): boolean {
  if (stored === undefined || isOriginFailure(stored.metadata.status)) return false;
  const reuse = decideReuse({ requestFields: [], hasRange: false, stored: stored.metadata, now, policy });
  return reuse.kind !== 'validate' || reuse.serveStaleUntil > now;
}

/** Requests a part and handles the response, where the client wants a range and the origin may have ranges; undefined otherwise. */
async function askForPart(
  context: ExchangeContext,
  inquiry: Inquiry,
  clearance: Clearance,
): Promise<FetchResult | undefined> {
  if (hasRange(inquiry) && inquiry.rangeSupport.givesPartsOnly) return partsOnly;
  const wanted = selectPart(inquiry, context.store.blockSizeBytes);
  if (wanted === undefined) return undefined;
  const { spec, isTail } = wanted;
  const received = await ask(context, inquiry, partFields(inquiry, spec), clearance);
  const handle = isTail ? onTailResponse : on206;
  return await handle(context, inquiry, spec, received, clearance);
}

/**
 * Returns the fields that request a part where nothing is stored. Where the URL may answer only once, the client's If-Range goes with
 * them: the answer then holds what the client wants, also where that is the whole of another version.
 */
export function partFields(inquiry: Inquiry, spec: RangeSpec): Fields {
  const ifRange = isAskedOnce(inquiry) ? fieldValue(inquiry.originFields, 'if-range') : undefined;
  const range: Fields = [['range', formatRange([spec])]];
  return ifRange === undefined ? range : [...range, ['if-range', ifRange]];
}

/** Returns the part to request where nothing is stored: the tail as the client wants it, or whole blocks; undefined for the whole. */
export function selectPart(
  inquiry: Inquiry,
  blockSizeBytes: number,
): { readonly spec: RangeSpec; readonly isTail: boolean } | undefined {
  const specs = rangeSpecs(inquiry);
  if (specs.length === 0) return undefined;
  // Several ranges would take several requests.
  if (specs.length > 1 && isAskedOnce(inquiry)) return undefined;
  const tail = selectTail(inquiry, specs, blockSizeBytes);
  if (tail !== undefined) return { spec: tail, isTail: true };
  const { openRanges } = inquiry.policy.fill;
  const { mayRequestPart, mayJoinParts } = inquiry.rangeSupport;
  const isOnce = openRanges === 'grow' && (!mayJoinParts || isAskedOnce(inquiry));
  const spec = mayRequestPart ? selectFirstRange(specs, blockSizeBytes, isOnce ? 'once' : openRanges) : undefined;
  return spec === undefined ? undefined : { spec, isTail: false };
}

/**
 * The range of a client that wants the end of a representation, at most one block, where that range is sent to the origin as it
 * is. The response can then be relayed to the client, even where it is of no use to the cache.
 */
function selectTail(
  inquiry: Inquiry,
  [spec, ...more]: readonly RangeSpec[],
  blockSizeBytes: number,
): RangeSpec | undefined {
  const isTail = spec?.kind === 'suffix' && spec.length > 0 && spec.length <= blockSizeBytes && more.length === 0;
  return isTail && inquiry.rangeSupport.mayRequestTail && !hasPrecondition(inquiry) ? spec : undefined;
}

/** Handles the response to a request for a tail. A 206 that cannot begin a generation is relayed, and kept as a fragment. */
async function onTailResponse(
  context: ExchangeContext,
  inquiry: Inquiry,
  requested: RangeSpec,
  received: Received,
  clearance: Clearance,
): Promise<FetchResult> {
  const { response, responseAt } = received;
  const part = parseContentRange(fieldValue(response.fields, 'content-range') ?? '');
  const isFragment =
    response.status === 206 &&
    part?.sizeBytes !== undefined &&
    !isWrongPart(requested, part, response.sizeBytes) &&
    !isCodedAlone(response.fields, response.sizeBytes);
  if (!isFragment || selectFirstPart(requested, response, responseAt, context.store.blockSizeBytes).kind === 'part') {
    return await on206(context, inquiry, requested, received, clearance);
  }
  const isNamed = strongValidator({ fields: response.fields, responseAt }, responseAt) !== undefined;
  if (isNamed) inquiry.rangeSupport.noteParts();
  else inquiry.rangeSupport.noteUncombinable();
  const fragment = { range: formatRange([requested]), start: part.span.start, wholeBytes: part.sizeBytes };
  const kept = keepFragment(context, inquiry, received, fragment, clearance);
  if (kept === undefined) context.notStoredReasons.note(inquiry.key, { reason: 'part', status: 206, at: responseAt });
  const relay = { ...received, response: { ...response, body: kept?.body ?? response.body }, evaluated: true };
  return { kind: 'relay', relay, reason: 'part', kept: kept?.kept };
}

/** Handles the response to a request for a part. A 206 begins a generation where parts may be combined (RFC 9111 §3.3, §3.4). */
async function on206(
  context: ExchangeContext,
  inquiry: Inquiry,
  requested: RangeSpec,
  answer: Received,
  clearance: Clearance,
): Promise<FetchResult> {
  const { rangeSupport } = inquiry;
  const received = withResponse(answer, wholeInsteadOf(requested, answer.response));
  const { response, responseAt } = received;
  const knownBytes = isWholeStatus(response.status) ? await findKnownLength(context, inquiry) : undefined;
  const mayGiveParts = rangeSupport.mayDisguiseParts && !isAskedOnce(inquiry);
  const doubt = isWholeStatus(response.status) ? doubtWhole(requested, response, knownBytes, mayGiveParts) : undefined;
  if (doubt !== undefined) return await askAgain(context, inquiry, received, doubt, clearance);
  const isForIfRange = isAskedOnce(inquiry) && hasField(inquiry.originFields, 'if-range');
  if (response.status === 200 && !isForIfRange && showsNoRanges(requested, response)) rangeSupport.noteWhole();
  if (response.status === 416) return await on416(context, inquiry, received, clearance);
  if (rangeRefusals.has(response.status) && !rangeSupport.refusesAll)
    return await onRefusedRange(context, inquiry, received, clearance);
  if (response.status !== 206 && !isWholeStatus(response.status) && statesPart(response.fields, response.sizeBytes)) {
    response.body.close();
    return { kind: 'unusable', reason: 'part' };
  }
  // An error to a request with Range says nothing certain about one without.
  if (response.status >= 400) {
    const reason = refusalToStore(inquiry, undefined, received) ?? 'provoked';
    return await relayWith(context, inquiry, undefined, received, reason);
  }
  if (response.status !== 206) return await on200(context, inquiry, undefined, received, clearance);
  const part = selectFirstPart(requested, response, responseAt, context.store.blockSizeBytes);
  if (part.kind === 'refuse') return await onPartOfNoUse(context, inquiry, received, part, clearance);
  rangeSupport.noteParts();
  const fields = fieldsOfWhole(response.fields, part.sizeBytes);
  const whole = { ...received, response: { ...response, status: 200, fields, sizeBytes: part.sizeBytes } };
  const result = await on200(context, inquiry, undefined, whole, clearance, {
    from: part.span.start,
    end: part.span.end,
    isWhole: false,
    hasSureEnd: response.framing !== 'close',
    digest: selectContentDigest(response.fields),
  });
  if (result.kind !== 'relay') return result;
  // The part is not stored. Where it holds what the client wants, no second request is needed, which might be refused.
  const cut = cutToClient(inquiry, response);
  if (cut !== undefined) return { ...result, relay: { ...received, response: cut, evaluated: true } };
  response.body.close();
  return { kind: 'unusable', reason: result.reason };
}

/** The whole cannot be had, and a part can: the client's own range is passed on as it is. */
const partsOnly: FetchResult = { kind: 'unusable', reason: 'parts-only' };

/** Asks once without Range, because some origins refuse any Range, with statuses for many other things. */
async function onRefusedRange(
  context: ExchangeContext,
  inquiry: Inquiry,
  { response }: Received,
  clearance: Clearance,
): Promise<FetchResult> {
  response.body.close();
  const whole = await ask(context, inquiry, [], clearance);
  if (whole.response.status < 400) inquiry.rangeSupport.refuse(`it answered ${response.status} to a range`, 'odd');
  else inquiry.rangeSupport.noteRefusesAll();
  return await on200(context, inquiry, undefined, whole, clearance);
}

/** The length of the whole as a stored response states it; undefined where none does. */
async function findKnownLength({ store }: ExchangeContext, inquiry: Inquiry): Promise<number | undefined> {
  const stored = (await store.find(inquiry.key)).find(({ metadata }) => mayBeServedTo(metadata, inquiry));
  return stored?.metadata.fragment?.wholeBytes ?? stored?.sizeBytes;
}

/** Asks for the whole without Range, because a response that should be the whole may be a part. */
async function askAgain(
  context: ExchangeContext,
  inquiry: Inquiry,
  { response }: Received,
  doubt: WholeDoubt,
  clearance: Clearance,
): Promise<FetchResult> {
  response.body.close();
  const whole = await ask(context, inquiry, [], clearance);
  noteDoubted(inquiry.rangeSupport, doubt, whole.response);
  return await on200(context, inquiry, undefined, whole, clearance);
}

/** Returns the fields of the whole, by those of a 206: without what describes the part, and with the length of the whole. */
function fieldsOfWhole(part: Fields, sizeBytes: number): Fields {
  return withField(withoutFields(withoutDigestsOfContent(part), rangeOnly), 'content-length', String(sizeBytes));
}

const rangeOnly = new Set(['content-range']);

/**
 * Whether a 200 to a range shows that there are no ranges. Not where the representation has no bytes, or the range with an end is the
 * whole of it; nor where an origin that says that it has ranges sends the whole for all bytes from the first one on.
 */
function showsNoRanges(requested: RangeSpec, { fields, sizeBytes }: OriginResponse): boolean {
  if (requested.kind !== 'open') return !isWholeRange(requested, sizeBytes);
  return sizeBytes !== 0 && fieldValue(fields, 'accept-ranges')?.toLowerCase() !== 'bytes';
}

/**
 * Asks for the whole in place of a part that cannot begin a generation. Where the whole would not be stored, and where the URL may
 * answer only once, the client gets its range from the part; where the whole is refused, the client's own range is passed on.
 */
async function onPartOfNoUse(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  { fault, reason }: { readonly fault: RangeFault; readonly reason: string },
  clearance: Clearance,
): Promise<FetchResult> {
  const { rangeSupport } = inquiry;
  const { response } = received;
  const { fields } = response;
  const isKept = decideStoringFor(inquiry, { status: 200, fields, responseAt: received.responseAt }).kind === 'store';
  const isEnough = fault === 'uncombinable' && (!isKept || isAskedOnce(inquiry));
  const cut = isEnough ? cutToClient(inquiry, response) : undefined;
  if (cut !== undefined)
    return { kind: 'relay', relay: { ...received, response: cut, evaluated: true }, reason: 'part' };
  response.body.close();
  const whole = await ask(context, inquiry, [], clearance);
  if (refusesWhole(whole.response.status)) {
    whole.response.body.close();
    rangeSupport.notePartsOnly();
    return partsOnly;
  }
  if (fault === 'lie' || fault === 'odd') rangeSupport.distrust(reason, fault);
  else rangeSupport.noteUncombinable();
  return await on200(context, inquiry, undefined, whole, clearance);
}

/**
 * Cuts a 206 to the one range that the client wants; undefined where the range is not in it, or depends on preconditions. A 206 of a
 * length that is not known is passed on only as it is.
 */
function cutToClient(inquiry: Inquiry, response: OriginResponse): OriginResponse | undefined {
  const part = parseContentRange(fieldValue(response.fields, 'content-range') ?? '');
  const specs = rangeSpecs(inquiry);
  if (part?.sizeBytes === undefined || specs.length !== 1 || hasPrecondition(inquiry)) return undefined;
  const selected = selectRanges(specs, part.sizeBytes, { coalesceGapBytes: 0 });
  const [span] = selected.kind === 'partial' ? selected.spans : [];
  if (span === undefined || span.start < part.span.start || span.end > part.span.end) return undefined;
  if (span.start === part.span.start && span.end === part.span.end) return response;
  const sizeBytes = spanSize(span);
  const { start } = part.span;
  return {
    ...response,
    fields: [...fieldsOfWhole(response.fields, sizeBytes), ['content-range', formatContentRange(span, part.sizeBytes)]],
    framing: 'length',
    sizeBytes,
    body: cutSpan(response.body, { start: span.start - start, end: span.end - start }),
  };
}

/**
 * Handles a 416. It is relayed where it states the length, every range of the client lies outside it, and the client sent no
 * condition. After any other 416 the whole is requested.
 */
async function on416(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  clearance: Clearance,
): Promise<FetchResult> {
  const { fields, body } = received.response;
  const sizeBytes = parseUnsatisfiedRange(fieldValue(fields, 'content-range') ?? '');
  const specs = rangeSpecs(inquiry);
  const isRight =
    sizeBytes !== undefined && selectRanges(specs, sizeBytes, { coalesceGapBytes: 0 }).kind === 'unsatisfiable';
  if (isRight && !hasPrecondition(inquiry)) {
    context.notStoredReasons.note(inquiry.key, { reason: 'status', status: 416, at: received.responseAt });
    return { kind: 'relay', relay: { ...received, evaluated: true }, reason: 'status' };
  }
  body.close();
  const whole = await ask(context, inquiry, [], clearance);
  const { status, sizeBytes: wholeBytes = 0 } = whole.response;
  if (status === 200 && !specs.slice(0, 1).every((spec) => isPastEnd(spec, wholeBytes))) {
    inquiry.rangeSupport.distrust('it answered 416 to a range that it has bytes of');
  }
  // Where the whole is not stored, the client gets the content of the origin's own 416, as it does where it is.
  const isBehindEnd = status === 200 && wholeBytes > 0 && specs.every((spec) => isPastEnd(spec, wholeBytes));
  if (isBehindEnd && !hasPrecondition(inquiry) && refusalToStore(inquiry, undefined, whole) !== undefined) {
    whole.response.body.close();
    return { kind: 'unusable', reason: 'behind-end' };
  }
  return await on200(context, inquiry, undefined, whole, clearance);
}

/** The body of a 206, which is stored as a fragment once it has been read to its end. */
interface KeptFragment {
  readonly body: BodyStream;
  readonly kept: Kept;
}

/** Wraps the body of a 206 that is to be stored as a fragment; undefined where it may not be stored, or is not at most one block. */
function keepFragment(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  fragment: Fragment,
  clearance: Clearance,
): KeptFragment | undefined {
  const { response, responseAt } = received;
  const { body, sizeBytes, fields } = response;
  const decision = decideStoringFor(inquiry, { status: 200, fields, responseAt });
  const isSmall = sizeBytes !== undefined && sizeBytes > 0 && sizeBytes <= context.store.blockSizeBytes;
  if (decision.kind === 'refuse' || !isSmall) return undefined;
  const stored = { ...describe(inquiry, received), fragment };
  context.hitForPass.noteBound(inquiry.key, stored.identity !== undefined, context.clock.now());
  const over = Promise.withResolvers<void>();
  let isRead = false;
  const giveUp = () => {
    if (!isRead) over.resolve();
  };
  clearance.signal.addEventListener('abort', giveUp, { once: true });
  const passing: BodyStream = {
    close: () => {
      body.close();
      giveUp();
    },
    async *[Symbol.asyncIterator]() {
      try {
        const chunks: Uint8Array[] = [];
        for await (const chunk of body) {
          chunks.push(chunk);
          yield chunk;
        }
        isRead = true;
        await store(context, inquiry.key, received, stored, Buffer.concat(chunks), clearance);
      } finally {
        over.resolve();
      }
    },
  };
  return { body: passing, kept: { tags: stored.tags, done: over.promise } };
}

/** Stores a fragment if it matches its digest. Never rejects: a failure to store is logged. */
async function store(
  { store: into, clock, emit, logThrottle, notStoredReasons }: ExchangeContext,
  key: string,
  received: Received,
  stored: StoredResponse,
  bytes: Uint8Array,
  clearance: Clearance,
): Promise<void> {
  if (!isAsStated(received.response.fields, bytes)) return;
  const place = { key, variant: variantName(stored) };
  const isRevoked = () => clearance.isRevoked;
  try {
    await using writer = await into.openWriter({ ...place, metadata: stored, sizeBytes: bytes.length });
    await writer.writeBlock(0, bytes);
    const expiredAt = () => clearance.expiredAt;
    const written = { writer, place, stored, previous: undefined, pinSeconds: 0, isRevoked, expiredAt };
    await clearance.storing(() => commit(into, written, { sizeBytes: bytes.length, digest: undefined }, clock.now()));
    notStoredReasons.forget(key);
  } catch (thrown) {
    const fault = toStoreFault(thrown);
    notStoredReasons.note(key, { reason: 'store-unavailable', status: 206, at: clock.now() });
    const message = `A part is relayed without being stored: ${fault.message}`;
    emit({ kind: 'store', level: logThrottle.levelOf(fault.reason, clock.now()), message, detail: key });
  }
}

/** Whether the bytes match the Content-Digest that the origin states, if any (RFC 9530 §2). */
function isAsStated(fields: Fields, bytes: Uint8Array): boolean {
  const stated = selectContentDigest(fields);
  return stated === undefined || hash(stated.algorithm, bytes, 'hex') === stated.hex;
}
