/**
 * A request as the cache sees it: its keys, its origin, and the policy of its route, which says what may be stored, whether a
 * transfer goes on when its readers have left, and which responses get an entity tag of our own. Also what the request asks
 * for: a part or the whole, and on which conditions (RFC 9110 §13, §14).
 */

import { type Fields, fieldLines, fieldValue, hasField, withoutFields } from '../http/fields.ts';
import type { InterimResponse, ProxyRequest } from '../http/message.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { Errand, Origin } from '../origin/origin.ts';
import type { RangeAbility } from '../origin/range-ability.ts';
import type { BypassConditions } from '../semantics/bypass.ts';
import { readRequestDirectives } from '../semantics/cache-control.ts';
import type { StalePolicy } from '../semantics/freshness.ts';
import type { IdentityRules } from '../semantics/identity.ts';
import type { QuerySelection } from '../semantics/query.ts';
import { parseRange, passedRange, type RangeSpec } from '../semantics/range.ts';
import type { StoringPolicy } from '../semantics/storing.ts';
import { parseEntityTag, strongValidator } from '../semantics/validator.ts';
import type { VariantPolicy } from '../semantics/vary.ts';

/** What of a request tells stored responses apart, besides what Vary nominates. */
interface KeyPolicy extends VariantPolicy {
  /** Which query parameters are in the key. The origin is sent all of them. */
  readonly query: QuerySelection;
}

/** What the operator decided about caching for a route. The rules of the RFCs say what they need of it. */
export interface CachePolicy extends StoringPolicy, StalePolicy {
  /** Whether anything may be stored or reused at all. */
  readonly isEnabled: boolean;
  readonly key: KeyPolicy;
  /** Which parts of a request tell who asks, for responses that do not state that they are for all. */
  readonly identityFields: IdentityRules;
  /** Which requests go past the cache: nothing stored is used for them, and nothing of theirs is stored. */
  readonly bypass: BypassConditions;
  /** How often a key must have been asked for lately before its response is stored; 1 stores it at once. */
  readonly storeAfterUses: number;
  /** How long a generation that was replaced is kept for clients that resume with its validator; 0 for not at all. */
  readonly pinSeconds: number;
  /** Which responses get a strong entity tag of our own. */
  readonly ownEntityTags: OwnTagPolicy;
  /** Whether the SHA-256 of what is stored is wanted. */
  readonly wantsDigest: boolean;
  /** What becomes of transfers, and which are started. */
  readonly fill: FillPolicy;
  /** Whether a body that ends with its connection is taken for whole. */
  readonly closeDelimited: 'relay' | 'store';
}

/** A request, where its answer may come from, and under which rules. */
export interface Inquiry {
  readonly request: ProxyRequest;
  /** Names the target as it was sent. */
  readonly key: string;
  /** Names the target in its normal form: the same for all its spellings. */
  readonly normalKey: string;
  /** Scheme and authority of the target URI, in normal form: `https://example.com`. */
  readonly uriOrigin: string;
  /** Both keys of a target of the same scheme and authority, whatever its route; undefined when it has none. */
  readonly keysOf: (target: string) => Pick<Inquiry, 'key' | 'normalKey'> | undefined;
  readonly policy: CachePolicy;
  readonly origin: Origin;
  /** On whose account it is asked: a name of the client, for those who limit what one may cost. */
  readonly client: string;
  /** What is known of the origin's ranges. */
  readonly rangeAbility: RangeAbility;
  /** What the origin is asked for: target and fields, the client's Range and preconditions among them. */
  readonly originTarget: string;
  readonly originFields: Fields;
  /** Whether it is asked on nobody's behalf: no client reads what comes. */
  readonly isUnattended?: true;
  /** What told the trace of the request that is behind it, where it is asked on nobody's behalf. */
  readonly causedBy?: Fields;
  /** Takes the interim responses of an exchange that this request has started. */
  readonly onInterim: (interim: InterimResponse) => void;
}

/** An inquiry with other values in some places; not by a spread, which would leave out what is made when it is asked for. */
export function changedInquiry(inquiry: Inquiry, changes: Partial<Inquiry>): Inquiry {
  const { request, key, normalKey, uriOrigin, keysOf, policy, origin, client, rangeAbility, originTarget, onInterim } =
    inquiry;
  const { isUnattended, causedBy } = inquiry;
  return {
    request,
    key,
    normalKey,
    uriOrigin,
    keysOf,
    policy,
    origin,
    client,
    rangeAbility,
    originTarget,
    originFields: changes.originFields ?? inquiry.originFields,
    onInterim,
    ...(isUnattended && { isUnattended }),
    ...(causedBy && { causedBy }),
    ...changes,
  };
}

/** What the operator decided about fills. */
export interface FillPolicy {
  /** Whether a transfer goes on when its last reader has left; see `decideUnwanted`. */
  readonly onAbort: 'finish' | 'stop';
  /** It does not when more than this is left of it, or its representation is larger than this; Infinity for no limit. */
  readonly finishMaxLeftBytes: number;
  readonly finishMaxSizeBytes: number;
  /** Nor when so many of its client go on unread already; Infinity for no limit. */
  readonly finishMaxPerClient: number;
  /** Whether what is absent of a generation is fetched although nobody asks for it, where the origin gives parts. */
  readonly complete: 'always' | 'never' | { readonly smallerThanBytes: number };
  /** A reader this far ahead of a transfer gets one of its own, in bytes, unless the transfer is there in `seekAheadMs`. */
  readonly seekAheadBytes: number;
  readonly seekAheadMs: number;
  /** How an open-ended range is fetched where the origin gives parts: in spans that grow as its client reads on, or all at once. */
  readonly openRanges: 'grow' | 'whole';
  /** Whether the body is fetched for a HEAD whose length the origin does not tell. */
  readonly headLength: 'origin' | 'fetch';
  /** How often a broken transfer is taken up again without progress in between. */
  readonly resumeAttempts: number;
}

/** What becomes of an exchange without readers, whatever else is under way. */
export const finishAlways = { onAbort: 'finish', finishMaxPerClient: Number.POSITIVE_INFINITY } as const;

/** A transfer that nobody reads. */
export interface Unwanted {
  /** Whether the rest can be asked for later by itself. */
  readonly givesParts: boolean;
  /** The length of the whole, and what the transfer still has to bring; undefined while they are not known. */
  readonly sizeBytes: number | undefined;
  readonly leftBytes: number | undefined;
}

/** Whether an unread transfer goes on. Where the rest can be had later, only what is fetched for its own sake does. */
export function decideUnwanted(
  policy: FillPolicy,
  { givesParts, sizeBytes = 0, leftBytes = 0 }: Unwanted,
): 'finish' | 'stop' {
  if (policy.onAbort === 'stop') return 'stop';
  if (givesParts && !mayComplete(policy, sizeBytes)) return 'stop';
  return leftBytes > policy.finishMaxLeftBytes || sizeBytes > policy.finishMaxSizeBytes ? 'stop' : 'finish';
}

/** Whether the bytes of an open-ended range are fetched in growing spans: not where all of the representation is fetched anyway. */
export function growsOpenRanges(policy: FillPolicy, sizeBytes: number): boolean {
  return policy.openRanges === 'grow' && !mayComplete(policy, sizeBytes);
}

/** Whether the absent bytes of a generation are fetched for their own sake. */
export function mayComplete({ complete }: FillPolicy, sizeBytes: number): boolean {
  if (complete === 'always' || complete === 'never') return complete === 'always';
  return sizeBytes < complete.smallerThanBytes;
}

/** Where the origin sends no validator at all, or also where it sends none but weak ones. */
export type OwnTagPolicy = 'whenNone' | 'whenWeak';

/** Whether a response is to be named by us: a 200 that the origin has not named well enough for ranges to be combined. */
export function mayHaveOwnTag(response: StoredResponse, policy: OwnTagPolicy, now: number): boolean {
  if (response.status !== 200) return false;
  if (policy === 'whenWeak') return strongValidator(response, now) === undefined;
  return !hasField(response.fields, 'etag') && !hasField(response.fields, 'last-modified');
}

/** Whether the origin has named a response so well that a tag of ours would only be in the way. */
export function hasStrongTag({ fields }: StoredResponse): boolean {
  return parseEntityTag(fieldValue(fields, 'etag') ?? '')?.kind === 'strong';
}

/** Fields that put conditions on a request (RFC 9110 §13.1). */
const preconditionFields = new Set([
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
]);

/** Fields that ask for a part of a representation, and the condition of that. */
const rangeFields = new Set(['range', 'if-range']);

/** Fields that ask for a part of a representation or put conditions on it: a fill asks for the whole. */
const selectingFields = new Set(['range', ...preconditionFields]);

/** Whether the client wants a stored response or none (RFC 9111 §5.2.1.7). */
export function isOnlyIfCached({ request, policy }: Pick<Inquiry, 'request' | 'policy'>): boolean {
  return readRequestDirectives(request.fields, policy).onlyIfCached;
}

/** Whether a request is for a head alone: nothing of a body is read for it, and none comes that could be stored. */
export function isHead({ request }: Pick<Inquiry, 'request'>): boolean {
  return request.method === 'HEAD';
}

/** The fields that ask the origin for the whole current representation. */
export function fillFields(originFields: Fields): Fields {
  return withoutFields(originFields, selectingFields);
}

/** The fields of a request that is passed on as it is: no byte is asked for twice. */
export function passedFields(originFields: Fields): Fields {
  const lines = fieldLines(originFields, 'range');
  if (lines.length === 0) return originFields;
  const range = passedRange(lines);
  if (range === undefined) return withoutFields(originFields, rangeFields);
  return originFields.map((field) => (field[0] === 'range' ? ['range', range] : field));
}

/** What of a request asks for a part, or puts conditions on it. */
export function selectingLines(fields: Fields): Fields {
  return fields.filter(([name]) => selectingFields.has(name));
}

/** Whether a request asks for the whole, and on no conditions. */
export function isPlain({ request, originFields }: Pick<Inquiry, 'request' | 'originFields'>): boolean {
  return request.method === 'GET' && selectingLines(originFields).length === 0;
}

/** Whether the client has put conditions on its request. */
export function hasPrecondition({ originFields }: Pick<Inquiry, 'originFields'>): boolean {
  return originFields.some(([name]) => preconditionFields.has(name));
}

/** The ranges that can be obeyed; none for a Range that is ignored, which makes a request a plain one (RFC 9110 §14.2). */
export function rangeSpecs({ request, originFields }: RangeRequest): readonly RangeSpec[] {
  if (request.method !== 'GET') return [];
  const [range, ...more] = fieldLines(originFields, 'range');
  if (range === undefined || more.length > 0) return [];
  const parsed = parseRange(range, { maxRanges: Number.POSITIVE_INFINITY });
  return parsed.kind === 'set' ? parsed.specs : [];
}

/** What of a request its ranges are read from. */
interface RangeRequest extends Pick<Inquiry, 'originFields'> {
  readonly request: Pick<Inquiry['request'], 'method'>;
}

/** Whether what is wanted is one range without an end of its own. */
export function isOpenEnded(inquiry: RangeRequest): boolean {
  const [spec, ...more] = rangeSpecs(inquiry);
  return spec?.kind === 'open' && more.length === 0;
}

/** Whether there is a Range that can be obeyed. */
export function hasRange(inquiry: Pick<Inquiry, 'request' | 'originFields'>): boolean {
  return rangeSpecs(inquiry).length > 0;
}

/** The errand of a transfer that a client begins. */
export function errandOf({ client }: Pick<Inquiry, 'client'>): Errand {
  return { client, wanters: undefined };
}
