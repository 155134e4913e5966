/**
 * Decides which stored response serves a request, and what follows where none does. It reads metadata only, and changes
 * nothing: a request that is answered and one that is explained take the same decisions (RFC 9111 §4).
 *
 * `planAnswer` chooses among the entries of a key; `decideNextStep` says whether the request is answered, refused, passed
 * or fetched. A response matches by Vary (RFC 9111 §4.1) and, where it does not state that it is for all, by what
 * identifies the client. A fragment is a stored part that cannot be combined with others, for want of a strong validator or
 * of a whole block: it answers requests for bytes inside of it (RFC 9111 §3.3).
 */

import { hash } from 'node:crypto';
import type { Span } from '../../bytes/span.ts';
import { type Fields, hasField, withField, withoutFields } from '../../http/fields.ts';
import type { StoredIdentity, StoredResponse } from '../../http/stored-response.ts';
import { meetsBypass } from '../../semantics/bypass.ts';
import { hasDirectives, readRequestDirectives } from '../../semantics/cache-control.ts';
import { contentDigestFields } from '../../semantics/digest.ts';
import { identityParts, isAnonymous } from '../../semantics/identity.ts';
import { evaluatePreconditions } from '../../semantics/precondition.ts';
import { formatContentRange, formatRange, type RangeSpec, selectRanges } from '../../semantics/range.ts';
import { decideReuse, isForAll, type ReuseInput } from '../../semantics/reuse.ts';
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

/** What is to be done for a request. */
export type Plan =
  /** The entry may be used as it is, and is to be validated meanwhile where `isValidated` says so (RFC 5861 §3). */
  | { readonly kind: 'hit'; readonly entry: StoredEntry; readonly ttlMs: number; readonly isValidated: boolean }
  /** No representation matches, but a part that lies around what is wanted. */
  | ({ readonly kind: 'fragment' } & FoundFragment)
  /** The entry has to be validated, or fetched anew where it has no validator. */
  | {
      readonly kind: 'revalidate';
      readonly entry: StoredEntry;
      readonly reason: 'stale' | 'request';
      /** Until when it may be served all the same if the origin fails, in epoch milliseconds; 0 for never. */
      readonly serveStaleUntil: number;
    }
  /** Nothing stored matches. `apartBy` names what kept a response from it that is for equal requests only, if one was. */
  | {
      readonly kind: 'fill';
      readonly reason: 'uri-miss' | 'vary-miss';
      readonly apartBy?: readonly string[] | undefined;
    };

/** Why a request is not for the cache; undefined where it is. */
export function decideBypass({
  request,
  policy,
}: Pick<Inquiry, 'request' | 'policy'>): 'method' | 'bypass' | 'request' | undefined {
  if (!policy.isEnabled || meetsBypass(request, policy.bypass)) return 'bypass';
  if (request.method !== 'GET' && request.method !== 'HEAD') return 'method';
  if (request.body !== undefined) return 'bypass';
  const { noStore, onlyIfCached } = readRequestDirectives(request.fields, policy);
  // Who wants a stored response or none gets no other, and so nothing to store (RFC 9111 §5.2.1.7).
  return noStore && !onlyIfCached ? 'request' : undefined;
}

/** Decides from the stored entries of a key (the newest first) and the request that the origin would be sent. */
export function planAnswer(
  entries: readonly StoredEntry[],
  inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>,
  now: number,
): Plan {
  const matcher = new RequestMatcher(inquiry);
  const matching = entries.filter(({ metadata }) => !isFragment(metadata) && matcher.isFor(metadata));
  const reuseOf = ({ metadata }: StoredEntry) => decideReuse(new ReuseQuestion(inquiry, metadata, now));
  for (const pinned of matching.filter((candidate) => isResumed(candidate, inquiry, now))) {
    // It is stale by nature: of no use where the response or the client forbids that.
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

/** What keeps the newest of the responses from this request that would be for it if they were for all. */
function findApart(entries: readonly StoredEntry[], matcher: RequestMatcher): readonly string[] | undefined {
  const kept = entries.find(
    ({ metadata, pinnedUntil }) =>
      pinnedUntil === undefined && matcher.isVariant(metadata) && !matcher.isSharedWith(metadata),
  );
  return kept && matcher.apartBy(kept.metadata);
}

/** What is asked of the reuse of a response. The fields for the origin are made where the client has directives only. */
class ReuseQuestion implements ReuseInput {
  readonly stored: ReuseInput['stored'];
  readonly now: number;
  readonly policy: ReuseInput['policy'];
  readonly #inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>;

  constructor(
    inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>,
    stored: ReuseInput['stored'],
    now: number,
  ) {
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

/** Whether the request goes on with a pinned generation: by If-Range (RFC 9110 §13.1.5) or If-Match (§13.1.1). */
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

/** Whether an entry is of use: without a strong validator nothing can be added to what is there in part (RFC 9110 §15.3.7.3). */
export function isUsable({ isComplete, metadata }: Pick<StoredEntry, 'isComplete' | 'metadata'>, now: number): boolean {
  return isComplete || (!isFragment(metadata) && strongValidator(metadata, now) !== undefined);
}

/** A plan that needs the origin. */
export type FetchPlan = Extract<Plan, { kind: 'revalidate' | 'fill' }>;

/** A plan that the store answers. */
export type StoredPlan = Exclude<Plan, FetchPlan>;

/** The way of a request. */
type NextStep =
  | { readonly kind: 'stored'; readonly plan: StoredPlan }
  /** Nothing stored may be used, and the client wants nothing else (RFC 9111 §5.2.1.7). */
  | { readonly kind: 'refuse' }
  /** To the origin, and back without being stored. */
  | { readonly kind: 'pass'; readonly plan: FetchPlan; readonly reason: 'unshared' | 'few-uses' }
  /** Where `isAlone`, nobody is waited for: the last response was for its client alone, and others may be for all. */
  | { readonly kind: 'fetch'; readonly plan: FetchPlan; readonly isAlone: boolean };

/** What is known of a key besides what is stored; asked for where it counts only. */
export interface KeyFacts {
  /** Why the last response turned out not to be for sharing, if it did. */
  unshared(): PassReason | undefined;
  /** How often it was asked for lately, this request included. */
  uses(): number;
}

/** Decides. */
export function decideNextStep(plan: Plan, inquiry: Inquiry, facts: KeyFacts): NextStep {
  if (plan.kind === 'hit' || plan.kind === 'fragment') return { kind: 'stored', plan };
  if (isOnlyIfCached(inquiry)) return { kind: 'refuse' };
  const unshared = plan.kind === 'fill' ? facts.unshared() : undefined;
  const isAlone = unshared === 'personal' && isPlain(inquiry);
  if (unshared !== undefined && !isAlone) return { kind: 'pass', plan, reason: 'unshared' };
  if (plan.kind === 'fill' && !isAdmitted(inquiry, facts)) return { kind: 'pass', plan, reason: 'few-uses' };
  return { kind: 'fetch', plan, isAlone };
}

/** Whether a key was asked for often enough to be stored. */
function isAdmitted({ request, policy }: Inquiry, facts: KeyFacts): boolean {
  return policy.storeAfterUses <= 1 || request.method !== 'GET' || facts.uses() >= policy.storeAfterUses;
}

/** What of an inquiry tells who asks, and for which variant. */
type MatchedRequest = Pick<Inquiry, 'request' | 'originFields' | 'policy'>;

/** So many names are kept with a digest, and this many characters of each: clients choose them. */
const MAX_NAMES = 16;
const MAX_NAME_LENGTH = 64;

/** 144 bits: nobody finds other values with the same digest. */
const DIGEST_LENGTH = 24;

const anonymous: StoredIdentity = { digest: '', names: [] };

/**
 * A request as stored responses are chosen for it. What that takes is made when it is first needed: most stored responses
 * have a lifetime of their own and no Vary, and need none of it.
 */
export class RequestMatcher {
  readonly #asking: MatchedRequest;
  #fields: Fields | undefined;
  #identity: StoredIdentity | undefined;

  constructor(asking: MatchedRequest) {
    this.#asking = asking;
  }

  /**
   * Who asks. Fields that do not reach the origin cannot have decided its response, and do not count; the fields for the origin
   * are made only where the client's own may tell something.
   */
  get identity(): StoredIdentity {
    this.#identity ??= this.#identify();
    return this.#identity;
  }

  /**
   * Whether a stored response may be given to this request: it was selected by the values that the request presents (RFC 9111
   * §4.1), and is for all, or for those who ask as this one does.
   */
  isFor(stored: StoredResponse): boolean {
    return this.isVariant(stored) && this.isSharedWith(stored);
  }

  /** Whether a stored response was selected by the values that the request presents, whoever it is for. */
  isVariant(stored: StoredResponse): boolean {
    const { key } = this.#asking.policy;
    const isSelected =
      stored.nominated.length > 0 || stored.selected !== undefined || key.fields.length > 0 || key.cookies.length > 0;
    return !isSelected || matchesVariant(stored, this.#forOrigin, key);
  }

  /** Whether a stored response is for all, or was asked for by an equal request. */
  isSharedWith(stored: StoredResponse): boolean {
    return isForAll(stored, this.#asking.policy) || stored.identity?.digest === this.identity.digest;
  }

  /** Whether another request asks as this one does. */
  isEqualTo(other: RequestMatcher): boolean {
    return this.identity.digest === other.identity.digest;
  }

  /**
   * The names of what tells this request from the one that a stored response was the answer to, where the response is not for
   * all: `cookie:name` for a cookie. Empty where they are equal. Names that both have are told where no other ones are, because
   * their values are not known any more.
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
    // Stored by an earlier version, or under other options, without a note of who asked.
    return ours.length > 0 ? ours : ['identity'];
  }

  /** All that tells the request from the one that a stored response was the answer to. Empty where it may be given. */
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
    // All that is added on the way to the origin is about the way.
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

/** Whether a stored response may be given to the request of an inquiry: see `RequestMatcher.isFor`. */
export function isFor(response: StoredResponse, asking: MatchedRequest): boolean {
  return new RequestMatcher(asking).isFor(response);
}

/**
 * A response with a note of who has asked for it, where it does not say that it is for all, and has none yet. Only for the
 * response to this very request, or what a 304 to this request has validated.
 */
export function withIdentity(response: StoredResponse, asking: MatchedRequest): StoredResponse {
  if (response.identity !== undefined || isForAll(response, asking.policy)) return response;
  return { ...response, identity: new RequestMatcher(asking).identity };
}

/** A fragment that answers a request. */
interface FoundFragment {
  readonly entry: StoredEntry;
  /** The bytes to send, as offsets in the whole; undefined for the response as it came. */
  readonly span: Span | undefined;
  readonly ttlMs: number;
}

/** Whether a stored response is a part that stands by itself. */
export function isFragment({ fragment }: StoredResponse): boolean {
  return fragment !== undefined;
}

/**
 * The fragment that answers a request: one that the same Range has led to, or one that holds the first byte of the range.
 * Where that one ends earlier, so does the answer: a 206 tells what it holds (RFC 9110 §15.3.7). Only while it is fresh,
 * and without conditions: there is nothing to evaluate them against.
 */
function findFragment(
  entries: readonly StoredEntry[],
  inquiry: Pick<Inquiry, 'request' | 'originFields' | 'policy'>,
  now: number,
  matcher: RequestMatcher,
): FoundFragment | undefined {
  if (!entries.some(({ metadata }) => isFragment(metadata)) || hasPrecondition(inquiry)) return undefined;
  const { originFields, policy } = inquiry;
  const specs = rangeSpecs(inquiry);
  if (specs.length !== 1) return undefined;
  for (const entry of entries) {
    const { metadata } = entry;
    if (!entry.isComplete || !matcher.isFor(metadata)) continue;
    const span = spanWithin(entry, specs);
    if (span === undefined) continue;
    const reuse = decideReuse({ requestFields: originFields, hasRange: true, stored: metadata, now, policy });
    if (reuse.kind === 'fresh') return { entry, span: span === 'all' ? undefined : span, ttlMs: reuse.ttlMs };
  }
  return undefined;
}

/** What of a fragment answers the request; undefined where nothing does, or it is no fragment. */
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

/** Fields of the part that are not those of a part of it. */
const fieldsOfFragment = new Set(['content-length', 'content-range', ...contentDigestFields]);

/** Presents a part of a fragment as a 206 of its own, or the fragment as it came; `stored` is the fragment. */
export function presentWithin(stored: Representation, span: Span | undefined): Representation {
  const { response } = stored;
  const { fragment } = response;
  if (fragment === undefined || span === undefined) return stored;
  const shift = span.start - fragment.start;
  const sizeBytes = span.end - span.start;
  const contentRange = formatContentRange(span, fragment.wholeBytes);
  return {
    response: {
      ...response,
      fields: withField(withoutFields(response.fields, fieldsOfFragment), 'content-range', contentRange),
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
