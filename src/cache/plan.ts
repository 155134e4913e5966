/** Which stored entry serves a request, and what has to be asked of the origin: decided from metadata alone. */

import { type Fields, hasField } from '../http/fields.ts';
import { meetsBypass } from '../semantics/bypass.ts';
import { hasDirectives, readRequestDirectives } from '../semantics/cache-control.ts';
import { evaluatePreconditions } from '../semantics/precondition.ts';
import { decideReuse, type ReuseInput } from '../semantics/reuse.ts';
import { strongValidator } from '../semantics/validator.ts';
import { comparePreference } from '../semantics/variant.ts';
import type { StoredEntry } from '../store/store.ts';
import { hasRange, isOnlyIfCached } from './asked.ts';
import { Asker } from './asker.ts';
import { type FoundFragment, findFragment, isFragment } from './fragments.ts';
import type { Inquiry } from './inquiry.ts';

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
  const asker = new Asker(inquiry);
  const matching = entries.filter(({ metadata }) => !isFragment(metadata) && asker.isFor(metadata));
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
    const fragment = findFragment(entries, inquiry, now, asker);
    if (fragment !== undefined) return { kind: 'fragment', ...fragment };
    const isKnown = entries.some(({ pinnedUntil, metadata }) => pinnedUntil === undefined && !isFragment(metadata));
    return { kind: 'fill', reason: isKnown ? 'vary-miss' : 'uri-miss', apartBy: findApart(entries, asker) };
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
function findApart(entries: readonly StoredEntry[], asker: Asker): readonly string[] | undefined {
  const kept = entries.find(
    ({ metadata, pinnedUntil }) =>
      pinnedUntil === undefined && asker.isVariant(metadata) && !asker.isSharedWith(metadata),
  );
  return kept && asker.apartBy(kept.metadata);
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
