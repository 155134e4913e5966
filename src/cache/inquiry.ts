/**
 * An inquiry: a request as the cache sees it, with its keys, its origin, and the policy of its route. The policy decides what may
 * be stored, which fills go on without readers, and which responses get an entity tag made by Rangeway. Also reads the ranges and
 * preconditions of an inquiry (RFC 9110 §13, §14).
 */

import { memoizeByObject } from '../http/collections.ts';
import { type Fields, fieldLines, fieldValue, hasField, withoutFields } from '../http/fields.ts';
import type { InterimResponse, ProxyRequest } from '../http/message.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { ChargedClients, Origin } from '../origin/origin.ts';
import type { RangeSupport } from '../origin/range-ability.ts';
import type { BypassConditions } from '../semantics/bypass.ts';
import { readRequestDirectives } from '../semantics/cache-control.ts';
import type { StalePolicy } from '../semantics/freshness.ts';
import type { IdentityRules } from '../semantics/identity.ts';
import { looksSigned, type QuerySelection } from '../semantics/query.ts';
import { hasOtherUnit, parseRange, passedRange, type RangeSpec } from '../semantics/range.ts';
import { decideStoring, type StoringDecision, type StoringInput, type StoringPolicy } from '../semantics/storing.ts';
import { parseEntityTag, strongValidator } from '../semantics/validator.ts';
import { hasLongSelection, type VariantPolicy } from '../semantics/vary.ts';

/** The parts of a request that distinguish stored responses, besides the fields that Vary nominates. */
interface KeyPolicy extends VariantPolicy {
  /** The query parameters that are part of the key. The origin gets all parameters. */
  readonly query: QuerySelection;
}

/** The operator's settings for caching on a route. The modules of `semantics/` define the parts that they need. */
export interface CachePolicy extends StoringPolicy, StalePolicy {
  /** Whether the route stores and reuses responses at all. */
  readonly isEnabled: boolean;
  readonly key: KeyPolicy;
  /** Which parts of a request identify its client, for responses that do not state that they are for all. */
  readonly identityFields: IdentityRules;
  /** Which requests bypass the cache: they get no stored response, and their responses are not stored. */
  readonly bypass: BypassConditions;
  /** How many recent uses of a key are required before its response is stored; 1 stores it at once. */
  readonly storeAfterUses: number;
  /** How long a replaced generation is pinned for clients that resume with its validator; 0 for not at all. */
  readonly pinSeconds: number;
  /** Which responses get a strong entity tag made by Rangeway. */
  readonly ownEntityTags: OwnTagPolicy;
  /** More ranges than this in one request are ignored (RFC 9110 §14.2, §17.15). */
  readonly maxRanges: number;
  /** Whether the SHA-256 of stored bodies is computed. */
  readonly wantsDigest: boolean;
  /** Which fills are started, and which go on without readers. */
  readonly fill: FillPolicy;
  /** Whether a body that ends with its connection counts as complete (`store`), or may be truncated and is not stored (`relay`). */
  readonly closeDelimited: 'relay' | 'store';
}

/** A request, its keys and origin, and the policy of its route. */
export interface Inquiry {
  readonly request: ProxyRequest;
  /** The key of the target as it was sent. */
  readonly key: string;
  /** The key of the normalised target: the same for all spellings. */
  readonly normalKey: string;
  /** Normalised scheme and authority of the target URI: `https://example.com`. */
  readonly uriOrigin: string;
  /** Returns both keys of a target of the same scheme and authority, on any route; undefined when no route serves it. */
  readonly keysOf: (target: string) => Pick<Inquiry, 'key' | 'normalKey'> | undefined;
  readonly policy: CachePolicy;
  readonly origin: Origin;
  /** The name of the client that is charged for the request, for limits per client. */
  readonly client: string;
  /** What is known of the origin's support for ranges of this URL. */
  readonly rangeSupport: RangeSupport;
  /** Target and fields of the request to the origin. The fields include the client's Range and preconditions. */
  readonly originTarget: string;
  readonly originFields: Fields;
  /** Set for a background revalidation: no client reads the response. */
  readonly isBackground?: true;
  /** For a background revalidation: the trace fields of the request that caused it. */
  readonly causedBy?: Fields;
  /** Receives the interim responses of an exchange that this request started. */
  readonly onInterim: (interim: InterimResponse) => void;
}

/** Returns a copy of an inquiry with some members changed. Copies each by name: a spread would miss the getters. */
export function changedInquiry(inquiry: Inquiry, changes: Partial<Inquiry>): Inquiry {
  const { request, key, normalKey, uriOrigin, keysOf, policy, origin, client, originTarget, onInterim } = inquiry;
  const { isBackground, causedBy } = inquiry;
  return {
    request,
    key,
    normalKey,
    uriOrigin,
    keysOf,
    policy,
    origin,
    client,
    rangeSupport: changes.rangeSupport ?? inquiry.rangeSupport,
    originTarget,
    originFields: changes.originFields ?? inquiry.originFields,
    onInterim,
    ...(isBackground && { isBackground }),
    ...(causedBy && { causedBy }),
    ...changes,
  };
}

/** The operator's settings for fills. */
export interface FillPolicy {
  /** Whether a fill goes on when its last reader has left; see `decideUnread`. */
  readonly onAbort: 'finish' | 'stop';
  /** An unread fill stops where it has more than this left, or its representation is larger than this; Infinity for no limit. */
  readonly finishMaxLeftBytes: number;
  readonly finishMaxSizeBytes: number;
  /** An unread fill also stops where this many others of its client go on unread already; Infinity for no limit. */
  readonly finishMaxPerClient: number;
  /** Whether the absent bytes of a generation are fetched without a reader, where the origin supports ranges. */
  readonly complete: 'always' | 'never' | { readonly smallerThanBytes: number };
  /** See `Outlook`. A fill brings at most this many present bytes once more, rather than end before them. */
  readonly seekAheadBytes: number;
  readonly seekAheadMs: number;
  /** How long a fill that is to end because its readers have left waits for one that returns, in milliseconds. */
  readonly returnMs: number;
  /**
   * How an open-ended range is fetched where the origin supports ranges: as the client reads, by spans that grow or by one request
   * that is ended when the client leaves (see `RangeSupport.mayJoinParts`); or as a whole.
   */
  readonly openRanges: 'grow' | 'whole';
  /** Whether the body is fetched for a HEAD whose response has no length. */
  readonly headLength: 'origin' | 'fetch';
  /** How often a broken transfer is resumed in a row without progress. */
  readonly resumeAttempts: number;
  /** How a large representation is fetched by several transfers at a time; undefined where it is not. */
  readonly parallel: ParallelPolicy | undefined;
}

/** The operator's settings for the parallel parts of a representation. */
export interface ParallelPolicy {
  /** Running transfers of one generation, with the one that the parts are taken from. */
  readonly requests: number;
  /** Shorter representations are not fetched in parts. */
  readonly minBytes: number;
  readonly partBytes: number;
}

/** The policy for exchanges that always go on without readers, however many the client has. */
export const finishAlways = { onAbort: 'finish', finishMaxPerClient: Number.POSITIVE_INFINITY } as const;

/** A transfer without readers. */
export interface Unwanted {
  /** Whether the rest can be fetched later by itself. */
  readonly givesParts: boolean;
  /** Length of the whole, and the bytes that the transfer has yet to bring; undefined while unknown. */
  readonly sizeBytes: number | undefined;
  readonly leftBytes: number | undefined;
}

/** Decides whether an unread transfer goes on. Where the rest can be fetched later, it goes on only if `complete` allows it. */
export function decideUnread(
  policy: FillPolicy,
  { givesParts, sizeBytes = 0, leftBytes = 0 }: Unwanted,
): 'finish' | 'stop' {
  if (policy.onAbort === 'stop') return 'stop';
  if (givesParts && !mayComplete(policy, sizeBytes)) return 'stop';
  return leftBytes > policy.finishMaxLeftBytes || sizeBytes > policy.finishMaxSizeBytes ? 'stop' : 'finish';
}

/**
 * A transfer of unknown length that is slower than this may be an endless stream, in bytes per millisecond: 8 Mbit/s, more than
 * nearly all live audio and video.
 */
export const streamPace = 1024;

/** After how long it is looked again whether an unread transfer may be endless, in milliseconds. */
export const unreadLookMs = 10_000;

/** How long an unread transfer may go on, or be about to go on, in milliseconds: one of unknown length, and one of known length. */
const longestUnknownMs = 60_000;
const longestKnownMs = 3_600_000;

/** What an unread transfer has brought: `bytes` during the last `unreadLookMs`, and the whole time since it has been unread. */
interface UnreadProgress {
  readonly bytes: number;
  readonly unreadMs: number;
}

/**
 * Checks whether a transfer that nobody reads may be endless. One of unknown length goes on while it is faster than a stream, for a
 * minute. One of known length goes on where its rest takes less than an hour: streams state invented lengths.
 */
export function mayBeEndless({ leftBytes }: Pick<Unwanted, 'leftBytes'>, { bytes, unreadMs }: UnreadProgress): boolean {
  if (leftBytes === undefined) return bytes < unreadLookMs * streamPace || unreadMs >= longestUnknownMs;
  return leftBytes * unreadLookMs > bytes * longestKnownMs;
}

/** Checks whether an open-ended range is fetched as its client reads: not where the whole representation is fetched anyway. */
export function growsOpenRanges(policy: FillPolicy, sizeBytes: number): boolean {
  return policy.openRanges === 'grow' && !mayComplete(policy, sizeBytes);
}

/**
 * Checks whether one request is to bring all of an open-ended range, because a second one might be refused: the URL looks as if it
 * held a token or a signature, or it has refused a further part.
 */
export function isAskedOnce({ originTarget, rangeSupport }: Pick<Inquiry, 'originTarget' | 'rangeSupport'>): boolean {
  const at = originTarget.indexOf('?');
  return rangeSupport.isAskedOnce || (at !== -1 && looksSigned(originTarget.slice(at + 1)));
}

/** Checks whether the absent bytes of a generation are fetched without a reader. */
export function mayComplete({ complete }: FillPolicy, sizeBytes: number): boolean {
  if (complete === 'always' || complete === 'never') return complete === 'always';
  return sizeBytes < complete.smallerThanBytes;
}

/** Which responses get an entity tag made by Rangeway: those without a validator, or also those with weak ones only. */
export type OwnTagPolicy = 'whenNone' | 'whenWeak';

/** Checks whether a response gets an entity tag made by Rangeway: a 200 without a validator, or without a strong one (`whenWeak`). */
export function mayHaveOwnTag(response: StoredResponse, policy: OwnTagPolicy, now: number): boolean {
  if (response.status !== 200) return false;
  if (policy === 'whenWeak') return strongValidator(response, now) === undefined;
  return !hasField(response.fields, 'etag') && !hasField(response.fields, 'last-modified');
}

/** Checks whether the origin sent a strong entity tag, so that a response needs none made by Rangeway. */
export function hasStrongTag({ fields }: StoredResponse): boolean {
  return parseEntityTag(fieldValue(fields, 'etag') ?? '')?.kind === 'strong';
}

/** Decides whether a response may be stored that the origin sent, or could have sent, to a GET with the fields of an inquiry. */
export function decideStoringFor(
  { originFields, policy }: Pick<Inquiry, 'originFields' | 'policy'>,
  response: StoringInput['response'],
): StoringDecision {
  const decision = decideStoring({ request: { method: 'GET', fields: originFields }, response, policy });
  const isLong = decision.kind === 'store' && hasLongSelection(response.fields, originFields, policy.key);
  return isLong ? { kind: 'refuse', reason: 'vary-value' } : decision;
}

/** Fields that put conditions on a request (RFC 9110 §13.1). */
const preconditionFields = new Set([
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
]);

/** The fields of a range request. */
const rangeFields = new Set(['range', 'if-range']);

/** Fields that select a part or put conditions on a request. A fill is without them: it asks for the whole. */
const selectingFields = new Set(['range', ...preconditionFields]);

/** Checks whether the client accepts only a stored response (RFC 9111 §5.2.1.7). */
export function isOnlyIfCached({ request, policy }: Pick<Inquiry, 'request' | 'policy'>): boolean {
  return readRequestDirectives(request.fields, policy).onlyIfCached;
}

/** Checks whether a request is a HEAD: no body is read for it, and its response has none to store. */
export function isHead({ request }: Pick<Inquiry, 'request'>): boolean {
  return request.method === 'HEAD';
}

/** Returns the fields that ask the origin for the whole current representation: the same object for the same fields. */
export const fillFields = memoizeByObject(
  (originFields: Fields): Fields => withoutFields(originFields, selectingFields),
);

/**
 * Returns the fields of a pass. A Range of bytes is rewritten or left out by `passedRange`, so that no byte is requested twice; one in
 * another unit is passed on as it is.
 */
export function passedFields({ originFields, policy }: Pick<Inquiry, 'originFields' | 'policy'>): Fields {
  const lines = fieldLines(originFields, 'range');
  if (lines.length === 0 || hasOtherUnit(originFields)) return originFields;
  const range = passedRange(lines, policy);
  if (range === undefined) return withoutFields(originFields, rangeFields);
  return originFields.map((field) => (field[0] === 'range' ? ['range', range] : field));
}

/** Picks the fields that select a part or put conditions on a request. */
export function rangeAndPreconditionFields(fields: Fields): Fields {
  return fields.filter(([name]) => selectingFields.has(name));
}

/** Checks whether a request is a GET for the whole, without preconditions. */
export function isPlain({ request, originFields }: Pick<Inquiry, 'request' | 'originFields'>): boolean {
  return request.method === 'GET' && rangeAndPreconditionFields(originFields).length === 0;
}

/** Checks whether a request has preconditions. */
export function hasPrecondition({ originFields }: Pick<Inquiry, 'originFields'>): boolean {
  return originFields.some(([name]) => preconditionFields.has(name));
}

/** Returns the ranges that are honoured; none where Range is ignored, so that the request is for the whole (RFC 9110 §14.2). */
export function rangeSpecs(inquiry: RangeRequest): readonly RangeSpec[] {
  const specs = specsOf(inquiry);
  return specs.length > inquiry.policy.maxRanges ? [] : specs;
}

/** The fields for the origin are made only where the request has a Range. */
function specsOf(inquiry: Omit<RangeRequest, 'policy'>): readonly RangeSpec[] {
  const { method, fields } = inquiry.request;
  return method === 'GET' && hasField(fields, 'range') ? parsedSpecs(inquiry.originFields) : noSpecs;
}

const noSpecs: readonly RangeSpec[] = [];

/** Parsed once for each request. */
const parsedSpecs = memoizeByObject((originFields: Fields): readonly RangeSpec[] => {
  const [range, ...more] = fieldLines(originFields, 'range');
  if (range === undefined || more.length > 0) return [];
  const parsed = parseRange(range, { maxRanges: Number.POSITIVE_INFINITY });
  return parsed.kind === 'set' ? parsed.specs : [];
});

/** The parts of an inquiry that its ranges are read from. */
interface RangeRequest extends Pick<Inquiry, 'originFields'> {
  readonly request: Pick<Inquiry['request'], 'method' | 'fields'>;
  readonly policy: Pick<CachePolicy, 'maxRanges'>;
}

/** Checks whether a request has one range, and that range is open-ended. */
export function isOpenEnded(inquiry: Omit<RangeRequest, 'policy'>): boolean {
  const [spec, ...more] = specsOf(inquiry);
  return spec?.kind === 'open' && more.length === 0;
}

/** Checks whether a request is for all bytes: without a Range that is honoured, or with `bytes=0-`. */
export function wantsAll(inquiry: RangeRequest): boolean {
  const [spec, ...more] = rangeSpecs(inquiry);
  return spec === undefined || (spec.kind === 'open' && spec.first === 0 && more.length === 0);
}

/** Checks whether a request has a Range that is honoured. */
export function hasRange(inquiry: RangeRequest): boolean {
  return rangeSpecs(inquiry).length > 0;
}

/** Returns the clients that are charged for a transfer that the client of the inquiry begins. */
export function chargeTo({ client }: Pick<Inquiry, 'client'>): ChargedClients {
  return { client, bodyClients: undefined };
}
