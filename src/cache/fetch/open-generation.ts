/**
 * Opens generations: a new one for a response, or a stored one for its absent bytes. Determines the metadata of a stored response:
 * its fields, its variant, an entity tag of our own, and the tags and groups (RFC 9875) by which it is removed.
 */

import { hash } from 'node:crypto';
import { ownText } from '../../bytes/own-memory.ts';
import { type Fields, hasField, withoutFields } from '../../http/fields.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { NominatedField, StoredResponse } from '../../http/stored-response.ts';
import type { ChargedClients, OriginResponse } from '../../origin/origin.ts';
import { selectReprDigest } from '../../semantics/digest.ts';
import { freshened } from '../../semantics/freshen.ts';
import { groupTag, parseCacheGroups, parseTags, spellingTag, storedTag } from '../../semantics/invalidation.ts';
import { withoutByteRange } from '../../semantics/range.ts';
import { storableFields } from '../../semantics/storing.ts';
import { impliedVary, nominatedFields, selectedValues, variantName, withoutOriginEcho } from '../../semantics/vary.ts';
import { type EntryWriter, type Store, type StoredEntry, type StoreFault, toStoreFault } from '../../store/store.ts';
import type { StartEvent } from '../../telemetry/events.ts';
import type { Clearance } from '../collapse/flight.ts';
import type { ExchangeContext } from '../context.ts';
import { ArrivedGeneration } from '../fill/arrived-generation.ts';
import { BodyCheck } from '../fill/blocks.ts';
import { commit, expiredLate, expireLate, publish } from '../fill/commit.ts';
import type { FillResult } from '../fill/fill-scheduler.ts';
import { Generation, type GenerationOptions } from '../fill/generation.ts';
import { createPartSource, type FirstPart, type PartHead } from '../fill/part-source.ts';
import { changedInquiry, decideStoringFor, fillFields, hasStrongTag, type Inquiry, mayHaveOwnTag } from '../inquiry.ts';
import { withIdentity } from '../lookup/lookup.ts';

/** Pauses between attempts to resume a fill, in milliseconds. */
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 5_000;

/**
 * A response, and when its request was sent and its head arrived, in epoch milliseconds. The `sizeBytes` of the response is the
 * length of the whole.
 */
export interface Received {
  readonly response: OriginResponse;
  readonly requestAt: number;
  readonly responseAt: number;
  readonly charged: ChargedClients;
}

/**
 * Opens a generation for a response whose bytes are about to arrive. `validated` is the entry that the request was to validate;
 * the bytes may turn out to be the same. Throws `StoreFault`; the body is then untouched.
 */
export async function openGeneration(
  context: ExchangeContext,
  inquiry: Inquiry,
  validated: StoredEntry | undefined,
  received: Received,
  first: FirstPart,
  clearance: Clearance,
): Promise<Generation> {
  const { store, clock, notStoredReasons, hitForPass } = context;
  const { key, policy } = inquiry;
  const { sizeBytes, status } = received.response;
  const described = describe(inquiry, received);
  const place = { key, variant: variantName(described) };
  const previous = validated?.variant === place.variant && validated.isComplete ? validated : undefined;
  const writer = await store.openWriter({ ...place, metadata: described, sizeBytes });
  notStoredReasons.forget(key);
  hitForPass.noteBound(key, described.identity !== undefined, clock.now());
  warnOfSetCookie(context, key, received.response.fields, described.fields);

  const isOurs = mayHaveOwnTag(described, policy.ownEntityTags, clock.now());
  const ownTag = isOurs ? { ownEntityTag: `"rw-${writer.generation}"` } : {};
  const stored = { ...described, ...ownTag };
  // Until its last byte has arrived, a refetch may turn out to have the stored bytes. It gets no tag of its own before that.
  const isUndecided = previous?.metadata.ownEntityTag !== undefined && !hasStrongTag(described);
  const check = new BodyCheck(selectReprDigest(described), isOurs || isUndecided || policy.wantsDigest);
  const isRevoked = () => clearance.isRevoked;
  const expiredAt = () => clearance.expiredAt;
  const written = { writer, place, previous, pinSeconds: policy.pinSeconds, isRevoked, expiredAt };
  return new Generation({
    ...commonOptions(context, inquiry, stored, sizeBytes, writer, clearance, false),
    response: isUndecided ? described : stored,
    isPublished: !clearance.mayPublish,
    check,
    first,
    isRevoked,
    publish: (response) => clearance.storing(() => publish(store, { ...written, stored: response }, clock.now())),
    commit: async (response, body) => {
      const whole = { ...written, stored: { ...response, ...ownTag } };
      const result = await clearance.storing(() => commit(store, whole, body, clock.now()));
      if (result === 'relayed') notStoredReasons.note(key, { reason: 'outdated', status, at: clock.now() });
      return result;
    },
  });
}

/**
 * Opens a generation for a response whose bytes have all arrived and are at most one block. Undefined where they do not have the
 * digest that the origin states, or the store does not take them at once; `openGeneration` handles these cases.
 */
export function openArrived(
  context: ExchangeContext,
  inquiry: Inquiry,
  received: Received,
  bytes: Uint8Array,
  clearance: Clearance,
): ArrivedGeneration | undefined {
  const { store, clock, emit, notStoredReasons, hitForPass } = context;
  const { key, policy } = inquiry;
  const { status, fields } = received.response;
  const described = describe(inquiry, received);
  const stated = selectReprDigest(described);
  if (stated !== undefined && hash(stated.algorithm, bytes) !== stated.hex) return undefined;
  const place = { key, variant: variantName(described) };
  const sizeBytes = bytes.length;
  const writer = store.openWhole?.({ ...place, metadata: described, sizeBytes }, bytes);
  if (writer === undefined) return undefined;
  notStoredReasons.forget(key);
  hitForPass.noteBound(key, described.identity !== undefined, clock.now());
  warnOfSetCookie(context, key, fields, described.fields);
  const { generation } = writer;
  const isOurs = mayHaveOwnTag(described, policy.ownEntityTags, clock.now());
  const ownTag = isOurs ? { ownEntityTag: `"rw-${generation}"` } : undefined;
  const isRevoked = () => clearance.isRevoked;
  const write = async (response: StoredResponse) => {
    const startedAt = clock.now();
    emit(begunFill);
    const digest = isOurs || policy.wantsDigest ? hash('sha256', bytes) : undefined;
    const expiredAt = () => clearance.expiredAt;
    const written = { writer, place, previous: undefined, pinSeconds: policy.pinSeconds, isRevoked, expiredAt };
    const whole = { ...written, stored: isOurs ? { ...response, ...ownTag } : response };
    const end: { result: FillResult; error: undefined } = { result: 'relayed', error: undefined };
    try {
      end.result = await clearance.storing(() => commit(store, whole, { sizeBytes, digest }, startedAt));
      if (end.result === 'relayed') notStoredReasons.note(key, { reason: 'outdated', status, at: startedAt });
    } catch (thrown) {
      noteStoreFault(context, key, status, toStoreFault(thrown));
    }
    await writer[Symbol.asyncDispose]();
    const durationMs = clock.now() - startedAt;
    const figures = { bytes: sizeBytes, resumptions: 0, isPart: false, durationMs, errorDetail: undefined };
    emit({ kind: 'fill', key, generation, ...end, ...figures });
  };
  return new ArrivedGeneration({
    name: generation,
    response: isOurs ? { ...described, ...ownTag } : described,
    bytes,
    isRevoked,
    write,
  });
}

const begunFill: StartEvent = { kind: 'begun', what: 'fill' };

/** Records why the store took no more. */
function noteStoreFault(context: ExchangeContext, key: string, status: number, fault: StoreFault): void {
  if (fault.reason === 'removed') return;
  const reason = fault.reason === 'too_large' ? 'too-large' : 'store-unavailable';
  context.notStoredReasons.note(key, { reason, status, at: context.clock.now() });
  logFault(context, key, fault);
}

/** Opens a stored generation, to fetch its absent bytes. */
export function reopenGeneration(
  context: ExchangeContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  writer: EntryWriter,
  clearance: Clearance,
): Generation {
  const { metadata, sizeBytes } = entry;
  const isRevoked = () => clearance.isRevoked;
  return new Generation({
    ...commonOptions(context, withoutCredentials(inquiry, metadata), metadata, sizeBytes, writer, clearance, true),
    response: metadata,
    isPublished: true,
    check: new BodyCheck(
      selectReprDigest(metadata),
      inquiry.policy.wantsDigest || metadata.bodyDigest !== undefined,
      metadata.bodyDigest,
    ),
    first: undefined,
    isRevoked,
    publish: (response) => writer.publish(response),
    commit: async (response, { sizeBytes: wholeBytes, digest }) => {
      if (isRevoked()) return 'relayed';
      const whole = digest === undefined ? response : { ...response, bodyDigest: digest };
      await clearance.storing(async () => {
        const entry = await writer.commit({ metadata: whole, sizeBytes: wholeBytes });
        await expireLate(context.store, entry, clearance.expiredAt);
      });
      return 'stored';
    },
  });
}

/**
 * Returns the inquiry without Authorization where the stored response does not permit storing with it (RFC 9111 §3.5). Such a
 * response was requested without Authorization, and so is the rest of it.
 */
export function withoutCredentials(inquiry: Inquiry, response: StoredResponse): Inquiry {
  const { originFields } = inquiry;
  const decision = decideStoringFor(inquiry, response);
  if (decision.kind === 'store' || decision.reason !== 'authorization') return inquiry;
  return changedInquiry(inquiry, { originFields: withoutFields(originFields, credentialFields) });
}

const credentialFields = new Set(['authorization']);

function commonOptions(
  context: ExchangeContext,
  inquiry: Inquiry,
  stored: StoredResponse,
  sizeBytes: number | undefined,
  writer: EntryWriter,
  clearance: Clearance,
  isAwaited: boolean,
): Omit<GenerationOptions, 'response' | 'isPublished' | 'check' | 'first' | 'isRevoked' | 'publish' | 'commit'> {
  const { store, clock, emit, windowBytes, readAhead, unread, hitForPass, notStoredReasons } = context;
  const { key, policy } = inquiry;
  const source = createPartSource({ inquiry, response: stored, sizeBytes, clock, isAwaited });
  const noteRefusal = (reason: string) =>
    notStoredReasons.note(key, { reason, status: stored.status, at: clock.now() });
  return {
    sizeBytes,
    writer,
    blockSizeBytes: store.blockSizeBytes,
    windowBytes,
    readAhead,
    policy: policy.fill,
    retry: { maxAttempts: policy.fill.resumeAttempts, firstDelayMs: FIRST_DELAY_MS, maxDelayMs: MAX_DELAY_MS },
    clock,
    source,
    unread,
    learn: (response, head) =>
      clearance.storing(() => learn(context, inquiry, writer.generation, response, head, clearance)),
    onFillStart: (kind) => emit({ kind, what: 'fill' }),
    onFill: ({ result, bytes, resumptions, isPart, durationMs, error }) => {
      // With a strong validator, the bytes that have arrived stay stored. An earlier refusal already has a reason.
      const isLost = error !== undefined && !source.isProvable && notStoredReasons.last(key) === undefined;
      if (isLost) noteRefusal(refusalOf(error));
      const { generation } = writer;
      const fault = { error: error?.code, errorDetail: error?.detail };
      emit({ kind: 'fill', key, generation, bytes, resumptions, isPart, result, durationMs, ...fault });
    },
    onStoreFault: (fault) => noteStoreFault(context, key, stored.status, fault),
    onUnusable: async (error) => {
      noteRefusal(refusalOf(error));
      if (error.code === 'origin_digest_mismatch') hitForPass.note(key, 'digest-mismatch', clock.now());
      const own = await findGeneration(store, key, writer.generation);
      if (own !== undefined) await store.removeEntry(own);
    },
  };
}

/** The reason to report where nothing is stored of a body that broke off. */
function refusalOf({ code }: ProxyError): string {
  return code === 'origin_digest_mismatch' ? 'digest-mismatch' : code === 'client_gone' ? 'stopped' : code;
}

/**
 * Returns the response with the fields of a newer part in place of the older ones (RFC 9110 §15.3.7.3, RFC 9111 §3.4). Where they
 * forbid storing it, removes the entry and returns undefined.
 */
async function learn(
  context: ExchangeContext,
  inquiry: Inquiry,
  generation: string,
  response: StoredResponse,
  { fields, requestAt, responseAt }: PartHead,
  clearance: Clearance,
): Promise<StoredResponse | undefined> {
  const { store, notStoredReasons } = context;
  const { key, originFields, policy } = inquiry;
  const newer = { fields: withoutOriginEcho(originFields, fields) };
  const fresh = withTags(freshened(response, newer, requestAt, responseAt, policy), inquiry);
  const decision = decideStoringFor(inquiry, fresh);
  const own = await findGeneration(store, key, generation);
  if (decision.kind === 'refuse' && own !== undefined) await store.removeEntry(own);
  if (decision.kind === 'refuse') {
    notStoredReasons.note(key, { reason: decision.reason, status: response.status, at: responseAt });
    return undefined;
  }
  const replaced = own && (await store.replaceMetadata(own, fresh));
  if (replaced !== undefined) await expireLate(store, replaced, clearance.expiredAt);
  warnOfSetCookie(context, key, fields, fresh.fields);
  return expiredLate(fresh, clearance.expiredAt);
}

function logFault({ emit, logThrottle, clock, hitForPass }: ExchangeContext, key: string, fault: StoreFault): void {
  if (fault.reason === 'too_large') hitForPass.note(key, 'too-large', clock.now());
  const message = `The rest of a fill is relayed without being stored: ${fault.message}`;
  emit({ kind: 'store', level: logThrottle.levelOf(fault.reason, clock.now()), message, detail: key });
}

async function findGeneration(store: Store, key: string, generation: string): Promise<StoredEntry | undefined> {
  return (await store.find(key)).find((entry) => entry.generation === generation);
}

/**
 * Returns the metadata that is stored of a response. A response without a stated lifetime may be meant for its client only, so it
 * is stored for equal requests only.
 */
export function describe(inquiry: Inquiry, { response, requestAt, responseAt }: Received): StoredResponse {
  const { policy, originFields } = inquiry;
  const { status, fields } = response;
  const asked = fillFields(originFields);
  const selected = selectedValues(asked, policy.key);
  const described = {
    status,
    fields: storableFields(status === 206 ? fields : withoutByteRange(fields), responseAt, policy),
    nominated: ownValues(nominatedFields(fields, asked, impliedVary(asked, fields))),
    ...(selected === undefined ? {} : { selected: ownValues(selected) }),
    requestAt,
    responseAt,
  };
  return withIdentity(withTags(described, inquiry), inquiry);
}

/** Copies the values, so that storing them retains no other memory of the request. */
function ownValues(values: readonly NominatedField[]): readonly NominatedField[] {
  return values.map(([name, value]) => [name, value === null ? null : ownText(value)]);
}

/** The parts of an inquiry that determine the tags of its response. */
type TaggedInquiry = Pick<Inquiry, 'key' | 'normalKey' | 'uriOrigin'>;

/**
 * Returns the groups and the tags that the fields of a response name. Groups belong to the URI origin of the response (RFC 9875
 * §2), so responses of other origins cannot name them. Tags are for operators, and are the same for all origins: no response can
 * use them to remove anything. A target that is not in its normal form gets one more tag, by which it is found.
 */
export function responseTags(response: Fields, { key, normalKey, uriOrigin }: TaggedInquiry): readonly string[] {
  const groups = parseCacheGroups(response).map((group) => groupTag(uriOrigin, group));
  const spelling = key === normalKey ? [] : [spellingTag(normalKey)];
  return [...groups, ...parseTags(response).map(storedTag), ...spelling];
}

/** Returns the response with the groups and the tags that its fields name now. */
export function withTags({ tags: _outdated, ...response }: StoredResponse, inquiry: TaggedInquiry): StoredResponse {
  const tags = responseTags(response.fields, inquiry);
  return tags.length === 0 ? response : { ...response, tags };
}

/**
 * Logs that a response is stored with its Set-Cookie. RFC 9111 §7.3 allows that, but an origin that does not intend it gives one
 * user's session to all others.
 */
export function warnOfSetCookie(
  { emit, logThrottle, clock }: ExchangeContext,
  key: string,
  received: Fields,
  stored: Fields,
): void {
  if (!hasField(received, 'set-cookie') || !hasField(stored, 'set-cookie')) return;
  const message =
    'A response with Set-Cookie and a lifetime is stored, and its cookie is given to every client, because cache.setCookie of the route is "store". Where that is not meant, remove the option, or set it to "strip".';
  emit({ kind: 'store', level: logThrottle.levelOf('set-cookie', clock.now()), message, detail: key });
}
