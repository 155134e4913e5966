/**
 * Decides which stored response serves a request, and what to do where none does (RFC 9111 §4). Reads metadata only, and changes
 * nothing, so that answering and explaining a request use the same decisions.
 *
 * `planAnswer` chooses among the entries of a key; `decideNextStep` decides whether the request is answered, refused, passed or
 * fetched. A response matches by Vary (RFC 9111 §4.1) and, where it does not state that it is for all, by the identity of the
 * client. A fragment is a stored part that cannot be combined with others, because it has no strong validator or holds no whole
 * block: it answers requests for bytes inside it (RFC 9111 §3.3).
 */

import { hash } from 'node:crypto';
import type { Span } from '../../bytes/span.ts';
import { type Fields, hasField, withField, withoutFields } from '../../http/fields.ts';
import type { StoredIdentity, StoredResponse } from '../../http/stored-response.ts';
import { refusesWhole } from '../../origin/range-ability.ts';
import { meetsBypass } from '../../semantics/bypass.ts';
import { hasDirectives, readRequestDirectives } from '../../semantics/cache-control.ts';
import { hasConnectionCredentials } from '../../semantics/connection-auth.ts';
import { withoutDigestsOfContent } from '../../semantics/digest.ts';
import { freshnessLifetime } from '../../semantics/freshness.ts';
import { identityParts, isAnonymous } from '../../semantics/identity.ts';
import { evaluatePreconditions } from '../../semantics/precondition.ts';
import {
  formatContentRange,
  formatRange,
  hasOtherUnit,
  hasOwnRangeField,
  type RangeSpec,
  selectRanges,
} from '../../semantics/range.ts';
import { decideReuse, isForAll, type ReuseDecision, type ReuseInput } from '../../semantics/reuse.ts';
import { strongValidator } from '../../semantics/validator.ts';
import { comparePreference, matchesVariant, variantDifferences } from '../../semantics/vary.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { ByteReader, Representation } from '../answer.ts';
import {
  fillFields,
  hasPrecondition,
  hasRange,
  type Inquiry,
  isOnlyIfCached,
  isPlain,
  rangeSpecs,
} from '../inquiry.ts';
import type { PassReason } from './hit-for-pass.ts';

/** The result of looking among the stored entries of a key. */
export type Plan =
  /** The entry may be used as it is; it is validated in the background where `isValidated` is true (RFC 5861 §3). */
  | { readonly kind: 'hit'; readonly entry: StoredEntry; readonly ttlMs: number; readonly isValidated: boolean }
  /** No entry matches but a fragment that holds the first requested byte. */
  | ({ readonly kind: 'fragment' } & FoundFragment)
  /** The entry must be validated, or fetched anew where it has no validator. */
  | {
      readonly kind: 'revalidate';
      readonly entry: StoredEntry;
      readonly reason: 'stale' | 'request';
      /** Until when the entry may be served if the origin fails, in epoch milliseconds; 0 for never. */
      readonly serveStaleUntil: number;
    }
  /** No entry matches. `apartBy` is set where one would, were it not for equal requests only: the names that differ. */
  | {
      readonly kind: 'fill';
      readonly reason: 'uri-miss' | 'vary-miss' | 'partial';
      readonly apartBy?: readonly string[] | undefined;
    };

/**
 * Returns why a request bypasses the cache; undefined where it does not. A client that an origin knows by its connection (NTLM,
 * Negotiate) may get other responses than the same request over another connection.
 */
export function decideBypass({
  request,
  policy,
  client,
}: Pick<Inquiry, 'request' | 'policy' | 'client'>):
  | 'connection-auth'
  | 'method'
  | 'bypass'
  | 'request'
  | 'range-unit'
  | 'range-field'
  | undefined {
  const isBound = request.connection?.owners?.has(client) === true;
  if (isBound || hasConnectionCredentials(request.fields)) return 'connection-auth';
  if (!policy.isEnabled || meetsBypass(request, policy.bypass)) return 'bypass';
  if (request.method !== 'GET' && request.method !== 'HEAD') return 'method';
  if (request.body !== undefined) return 'bypass';
  const { noStore, onlyIfCached } = readRequestDirectives(request.fields, policy);
  // A request with only-if-cached brings no response that no-store could keep from being stored (RFC 9111 §5.2.1.7), or that a range
  // in another unit could select: such a range may be ignored (RFC 9110 §14.2).
  if (onlyIfCached) return undefined;
  if (hasOtherUnit(request.fields)) return 'range-unit';
  if (hasOwnRangeField(request.fields)) return 'range-field';
  return noStore ? 'request' : undefined;
}

/** Returns why a request that bypasses the cache is forwarded (RFC 9211 §2.2). */
export function forwardReasonOf(bypass: NonNullable<ReturnType<typeof decideBypass>>): 'method' | 'bypass' | 'request' {
  if (bypass === 'range-unit' || bypass === 'range-field') return 'request';
  return bypass === 'connection-auth' ? 'bypass' : bypass;
}

/** Chooses among the stored entries of a key (newest first) for a request. `now` is in epoch milliseconds. */
export function planAnswer(
  entries: readonly StoredEntry[],
  inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>,
  now: number,
): Plan {
  const matcher = new RequestMatcher(inquiry);
  const matching = entries.filter(({ metadata }) => !isFragment(metadata) && matcher.isFor(metadata));
  const reuseOf = ({ metadata }: StoredEntry) => decideReuseFor(inquiry, metadata, now);
  for (const pinned of matching.filter((candidate) => isResumed(candidate, inquiry, now))) {
    // A pinned entry is always stale: useless where the response or the client forbids stale responses.
    const reuse = reuseOf(pinned);
    const mayUse = reuse.kind !== 'validate' || (reuse.reason === 'stale' && reuse.serveStaleUntil > 0);
    if (mayUse) return { kind: 'hit', entry: pinned, ttlMs: reuse.ttlMs, isValidated: false };
  }
  const usable = matching.filter((candidate) => candidate.pinnedUntil === undefined && isUsable(candidate, now));
  const entry = usable.length < 2 ? usable[0] : usable.sort((a, b) => comparePreference(a.metadata, b.metadata))[0];
  if (entry === undefined) {
    const fragment = findFragment(entries, inquiry, now, matcher);
    if (fragment !== undefined) return { kind: 'fragment', ...fragment };
    const isKnown = entries.some(({ pinnedUntil, metadata }) => pinnedUntil === undefined && !isFragment(metadata));
    return { kind: 'fill', reason: isKnown ? 'vary-miss' : 'uri-miss', apartBy: findApart(entries, matcher) };
  }
  const reuse = reuseOf(entry);
  if (reuse.kind !== 'validate') {
    const isValidated = reuse.kind === 'stale' && reuse.isValidated && !isOnlyIfCached(inquiry);
    return { kind: 'hit', entry, ttlMs: reuse.ttlMs, isValidated };
  }
  const reason = reuse.reason === 'request' ? 'request' : 'stale';
  return { kind: 'revalidate', entry, reason, serveStaleUntil: reuse.serveStaleUntil };
}

const noFields: Fields = [];

/** Returns the differing names for the newest entry that matches in all but the client's identity. */
function findApart(entries: readonly StoredEntry[], matcher: RequestMatcher): readonly string[] | undefined {
  const kept = entries.find(
    ({ metadata, pinnedUntil }) =>
      pinnedUntil === undefined && matcher.isVariant(metadata) && !matcher.isSharedWith(metadata),
  );
  return kept && matcher.apartBy(kept.metadata);
}

/** Decides whether a stored response whose variant matches may be reused for a request. `now` is in epoch milliseconds. */
export function decideReuseFor(inquiry: MatchedRequest, stored: StoredResponse, now: number): ReuseDecision {
  return decideReuse(new ReuseQuestion(inquiry, stored, now));
}

/** The input for a reuse decision. Makes the fields for the origin only where the request has directives. */
class ReuseQuestion implements ReuseInput {
  readonly stored: ReuseInput['stored'];
  readonly now: number;
  readonly policy: ReuseInput['policy'];
  readonly #inquiry: MatchedRequest;

  constructor(inquiry: MatchedRequest, stored: ReuseInput['stored'], now: number) {
    this.stored = stored;
    this.now = now;
    this.policy = inquiry.policy;
    this.#inquiry = inquiry;
  }

  get requestFields(): Fields {
    return hasDirectives(this.#inquiry.request.fields) ? this.#inquiry.originFields : noFields;
  }

  get hasRange(): boolean {
    return hasRange(this.#inquiry);
  }
}

/** Whether the request resumes a pinned generation: by If-Range (RFC 9110 §13.1.5) or If-Match (§13.1.1). */
function isResumed(
  { pinnedUntil, isComplete, metadata }: StoredEntry,
  inquiry: Pick<Inquiry, 'request' | 'originFields'>,
  now: number,
): boolean {
  if (pinnedUntil === undefined || !isComplete) return false;
  const { request, originFields } = inquiry;
  const hasIfRange = hasField(originFields, 'if-range');
  if (!hasIfRange && !hasField(originFields, 'if-match')) return false;
  const outcome = evaluatePreconditions({ method: request.method, fields: originFields }, metadata, now);
  return outcome.kind === 'proceed' && (outcome.range === 'apply' || !hasIfRange);
}

/** Checks whether an entry is complete, or can be completed: that takes a strong validator (RFC 9110 §15.3.7.3). */
export function isUsable({ isComplete, metadata }: Pick<StoredEntry, 'isComplete' | 'metadata'>, now: number): boolean {
  return isComplete || (!isFragment(metadata) && strongValidator(metadata, now) !== undefined);
}

/** A plan that needs the origin. */
export type FetchPlan = Extract<Plan, { kind: 'revalidate' | 'fill' }>;

/** A plan that is answered from the store. */
export type StoredPlan = Exclude<Plan, FetchPlan>;

/** The next step for a request. */
type NextStep =
  | { readonly kind: 'stored'; readonly plan: StoredPlan }
  /** No stored response may be used, and the client accepts no other (RFC 9111 §5.2.1.7). */
  | { readonly kind: 'refuse' }
  /** Passed to the origin; the response is not stored. */
  | {
      readonly kind: 'pass';
      readonly plan: FetchPlan;
      readonly reason: 'unshared' | 'few-uses' | 'behind-end' | 'refused-whole';
    }
  /** With `isAlone`, the request joins no flight: the last response was for one client, but the next may be for all. */
  | { readonly kind: 'fetch'; readonly plan: FetchPlan; readonly isAlone: boolean };

/** What is known of a key besides its entries; read only where it decides. */
export interface KeyFacts {
  /** Returns why the last response was not shareable; undefined where it was. */
  unshared(): PassReason | undefined;
  /** Returns the number of recent uses of the key, this request included. */
  uses(): number;
}

/** Decides the next step. `facts` are read only for a `fill` without only-if-cached. */
export function decideNextStep(plan: Plan, inquiry: Inquiry, facts: KeyFacts): NextStep {
  if (plan.kind === 'hit' && isBehindGuessedEnd(plan.entry, inquiry)) {
    return { kind: 'pass', plan: { kind: 'fill', reason: 'partial' }, reason: 'behind-end' };
  }
  if (plan.kind === 'hit' && isRefusedWhole(plan.entry, inquiry)) {
    return { kind: 'pass', plan: { kind: 'fill', reason: 'partial' }, reason: 'refused-whole' };
  }
  if (plan.kind === 'hit' || plan.kind === 'fragment') return { kind: 'stored', plan };
  if (isOnlyIfCached(inquiry)) return { kind: 'refuse' };
  const unshared = plan.kind === 'fill' ? facts.unshared() : undefined;
  const isAlone = unshared === 'personal' && isPlain(inquiry);
  if (unshared !== undefined && !isAlone) return { kind: 'pass', plan, reason: 'unshared' };
  if (plan.kind === 'fill' && !isAdmitted(inquiry, facts)) return { kind: 'pass', plan, reason: 'few-uses' };
  return { kind: 'fetch', plan, isAlone };
}

/**
 * Whether a stored error answers a request with Range: an origin that gives parts only refuses the whole with such statuses, and may
 * have the range.
 */
function isRefusedWhole({ metadata, pinnedUntil }: StoredEntry, inquiry: Inquiry): boolean {
  return pinnedUntil === undefined && refusesWhole(metadata.status) && hasRange(inquiry) && !isOnlyIfCached(inquiry);
}

/**
 * Whether all ranges lie behind the end of a stored response for which nobody has stated a lifetime: the file may have grown, as a log
 * does, and its reader asks for what comes next. The origin answers such a range, because a guess is no ground to say that nothing is
 * there (RFC 9110 §15.5.17).
 */
function isBehindGuessedEnd({ metadata, sizeBytes, pinnedUntil }: StoredEntry, inquiry: Inquiry): boolean {
  const specs = rangeSpecs(inquiry);
  if (specs.length === 0 || pinnedUntil !== undefined || isOnlyIfCached(inquiry) || hasPrecondition(inquiry))
    return false;
  if (selectRanges(specs, sizeBytes, { coalesceGapBytes: 0 }).kind !== 'unsatisfiable') return false;
  const { source } = freshnessLifetime(metadata, inquiry.policy);
  return metadata.status === 200 && (source === 'heuristic' || source === 'none');
}

/** Whether the response may be stored: its key was requested often enough. A HEAD is always admitted. */
function isAdmitted({ request, policy }: Inquiry, facts: KeyFacts): boolean {
  return policy.storeAfterUses <= 1 || request.method !== 'GET' || facts.uses() >= policy.storeAfterUses;
}

/** The parts of an inquiry that identify the client and select the variant. */
type MatchedRequest = Pick<Inquiry, 'request' | 'originFields' | 'policy'>;

/** Limits on the names stored with a digest, and on the length of each in characters: clients choose both. */
const MAX_NAMES = 16;
const MAX_NAME_LENGTH = 64;

/** Characters of base64url, 144 bits: other values with the same digest cannot be found. */
const DIGEST_LENGTH = 24;

const anonymous: StoredIdentity = { digest: '', names: [] };

/**
 * Matches stored responses to one request. The fields and the identity are made when they are first needed: most stored
 * responses state a lifetime and have no Vary, and need neither.
 */
export class RequestMatcher {
  readonly #asking: MatchedRequest;
  #fields: Fields | undefined;
  #identity: StoredIdentity | undefined;

  constructor(asking: MatchedRequest) {
    this.#asking = asking;
  }

  /**
   * The identity of the client. Only fields that reach the origin count, because others cannot affect its response. The fields
   * for the origin are made only where the client's own fields may identify it.
   */
  get identity(): StoredIdentity {
    this.#identity ??= this.#identify();
    return this.#identity;
  }

  /**
   * Checks whether a stored response may be given to this request: its variant matches (RFC 9111 §4.1), and it is for all or for
   * requests with the same identity.
   */
  isFor(stored: StoredResponse): boolean {
    return this.isVariant(stored) && this.isSharedWith(stored);
  }

  /** Checks whether the variant of a stored response matches the request, whatever its identity. */
  isVariant(stored: StoredResponse): boolean {
    const { key } = this.#asking.policy;
    const isSelected =
      stored.nominated.length > 0 || stored.selected !== undefined || key.fields.length > 0 || key.cookies.length > 0;
    return !isSelected || matchesVariant(stored, this.#forOrigin, key);
  }

  /** Checks whether a stored response is for all, or was requested with the same identity. */
  isSharedWith(stored: StoredResponse): boolean {
    return isForAll(stored, this.#asking.policy) || stored.identity?.digest === this.identity.digest;
  }

  /** Checks whether another request has the same identity. */
  isEqualTo(other: RequestMatcher): boolean {
    return this.identity.digest === other.identity.digest;
  }

  /**
   * Returns the names of the fields and cookies (`cookie:name`) in which the identity of this request differs from that of a
   * stored response; empty where the response is for all, or the identities are equal. Names that only one of the two has; where
   * there are none, all names, because the stored values are unknown.
   */
  apartBy(stored: StoredResponse): readonly string[] {
    if (this.isSharedWith(stored)) return [];
    const theirs = stored.identity?.names ?? [];
    const ours = this.identity.names;
    const onlyOne = [
      ...ours.filter((name) => !theirs.includes(name)),
      ...theirs.filter((name) => !ours.includes(name)),
    ];
    if (onlyOne.length > 0) return onlyOne;
    // A response stored without an identity, by an earlier release or under other options.
    return ours.length > 0 ? ours : ['identity'];
  }

  /** Returns all names in which the request differs from that of a stored response. Empty where the response may be given. */
  differences(stored: StoredResponse): readonly string[] {
    const differing = variantDifferences(stored, this.#forOrigin, this.#asking.policy.key);
    return [...new Set([...differing, ...this.apartBy(stored)])];
  }

  get #forOrigin(): Fields {
    this.#fields ??= fillFields(this.#asking.originFields);
    return this.#fields;
  }

  #identify(): StoredIdentity {
    const { request, policy } = this.#asking;
    const { identityFields } = policy;
    // The fields that Rangeway adds for the origin are neutral by default: they count only where the operator includes them.
    const mayIncludeOwn = identityFields.include.length > 0;
    if (!mayIncludeOwn && isAnonymous(request.fields, identityFields)) return anonymous;
    const parts = identityParts(this.#asking.originFields, identityFields);
    if (parts.length === 0) return anonymous;
    const names = [...new Set(parts.map(([name]) => name))].slice(0, MAX_NAMES);
    return {
      digest: hash('sha256', JSON.stringify(parts), 'base64url').slice(0, DIGEST_LENGTH),
      names: names.map((name) => name.slice(0, MAX_NAME_LENGTH)),
    };
  }
}

/** Checks whether a stored response may be given to a request: see `RequestMatcher.isFor`. */
export function mayBeServedTo(response: StoredResponse, asking: MatchedRequest): boolean {
  return new RequestMatcher(asking).isFor(response);
}

/**
 * Returns the response with the identity of its request, where it has none yet and does not state that it is for all. Only for
 * the response to this very request, or for one that a 304 to this request has validated.
 */
export function withIdentity(response: StoredResponse, asking: MatchedRequest): StoredResponse {
  if (response.identity !== undefined || isForAll(response, asking.policy)) return response;
  return { ...response, identity: new RequestMatcher(asking).identity };
}

interface FoundFragment {
  readonly entry: StoredEntry;
  /** The bytes to send, as offsets in the whole; undefined for the whole fragment. */
  readonly span: Span | undefined;
  readonly ttlMs: number;
}

/** Checks whether a stored response is a fragment: a part that cannot be combined with others. */
export function isFragment({ fragment }: StoredResponse): boolean {
  return fragment !== undefined;
}

/**
 * Finds the fragment that answers a request: one that the same Range brought, or one that holds the first byte of the range. The
 * answer may end before the range does: a 206 states which bytes it holds (RFC 9110 §15.3.7). Only a fresh fragment is used, and
 * only for a request without preconditions: they cannot be evaluated against a part.
 */
function findFragment(
  entries: readonly StoredEntry[],
  inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>,
  now: number,
  matcher: RequestMatcher,
): FoundFragment | undefined {
  if (!entries.some(({ metadata }) => isFragment(metadata)) || hasPrecondition(inquiry)) return undefined;
  const specs = rangeSpecs(inquiry);
  if (specs.length !== 1) return undefined;
  for (const entry of entries) {
    const { metadata } = entry;
    if (!entry.isComplete || !matcher.isFor(metadata)) continue;
    const span = spanWithin(entry, specs);
    if (span === undefined) continue;
    const reuse = decideReuseFor(inquiry, metadata, now);
    if (reuse.kind === 'fresh') return { entry, span: span === 'all' ? undefined : span, ttlMs: reuse.ttlMs };
  }
  return undefined;
}

/** Returns the span of a fragment that answers the request; undefined where none does, or the entry is no fragment. */
function spanWithin(
  { metadata: { fragment }, sizeBytes }: StoredEntry,
  specs: readonly RangeSpec[],
): Span | 'all' | undefined {
  if (fragment === undefined) return undefined;
  if (formatRange(specs) === fragment.range) return 'all';
  const selected = selectRanges(specs, fragment.wholeBytes, { coalesceGapBytes: 0 });
  const [wanted] = selected.kind === 'partial' ? selected.spans : [];
  const end = fragment.start + sizeBytes;
  if (wanted === undefined || wanted.start < fragment.start || wanted.start >= end) return undefined;
  return { start: wanted.start, end: Math.min(wanted.end, end) };
}

/** Fields of a fragment that do not hold for a part of it. */
const fieldsOfFragment = new Set(['content-length', 'content-range']);

/** Returns a part of the fragment `stored` as a 206 of its own; the fragment itself where `span` is undefined. */
export function sliceFragment(stored: Representation, span: Span | undefined): Representation {
  const { response } = stored;
  const { fragment } = response;
  if (fragment === undefined || span === undefined) return stored;
  const shift = span.start - fragment.start;
  const sizeBytes = span.end - span.start;
  const contentRange = formatContentRange(span, fragment.wholeBytes);
  return {
    response: {
      ...response,
      fields: withField(
        withoutFields(withoutDigestsOfContent(response.fields), fieldsOfFragment),
        'content-range',
        contentRange,
      ),
    },
    sizeBytes,
    peek: (offset, end) => stored.peek(offset + shift, end + shift),
    open: async (spans, signal) => {
      const moved = spans.map(({ start, end }) => ({ start: start + shift, end: Math.min(end, sizeBytes) + shift }));
      return shifted(await stored.open(moved, signal), shift);
    },
    whenPresent: async () => true,
    close: () => stored.close(),
  };
}

function shifted(reader: ByteReader, shift: number): ByteReader {
  return {
    peek: (offset, end) => reader.peek(offset + shift, end + shift),
    read: (offset, end) => reader.read(offset + shift, end + shift),
    close: () => reader.close(),
  };
}
