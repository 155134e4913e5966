/** What is told of the response that a decision is about: how fresh it is, by what it is known, which bytes of it are there. */

import { type Span, spanOfBlock, spanSize } from '../bytes/span.ts';
import { fieldValue } from '../http/fields.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { isSpellingTag } from '../semantics/cache-tags.ts';
import { lifetimeField } from '../semantics/freshness.ts';
import { parseDateField } from '../semantics/http-date.ts';
import { isForAll, type ReuseTerms, reuseTerms } from '../semantics/reuse.ts';
import { conditionalFields } from '../semantics/revalidation.ts';
import { effectiveEntityTag, parseEntityTag, strongLastModified, strongValidator } from '../semantics/validator.ts';
import { hasRange } from './asked.ts';
import type { ChosenExplanation, FreshnessExplanation, ValidatorsExplanation } from './explanation.ts';
import type { Outlook } from './fetch-decision.ts';
import type { Held } from './held.ts';
import type { Inquiry } from './inquiry.ts';

/** So many runs of bytes are told of. */
const MAX_RUNS = 100;

/** The terms on which a response is reused for a request. */
export function termsOf(stored: StoredResponse, inquiry: Inquiry, now: number): ReuseTerms {
  const { originFields, policy } = inquiry;
  return reuseTerms({ requestFields: originFields, hasRange: hasRange(inquiry), stored, now, policy });
}

/** Tells all of it. */
export function explainChosen(held: Held, inquiry: Inquiry, now: number): ChosenExplanation {
  const { generation, response, isComplete, pinnedUntil, outlook } = held;
  return {
    generation,
    status: response.status,
    sizeBytes: outlook.sizeBytes,
    present: explainPresence(outlook),
    isComplete,
    fragment: response.fragment,
    pinnedUntil,
    isInvalid: response.isInvalid === true,
    expiredAt: response.expiredAt,
    tags: response.tags?.filter((tag) => !isSpellingTag(tag)) ?? [],
    boundTo: isForAll(response, inquiry.policy) ? undefined : (response.identity?.names ?? []),
    receivedAt: response.responseAt,
    freshness: explainFreshness(termsOf(response, inquiry, now)),
    validators: explainValidators(response, now),
  };
}

function explainPresence({ present, blockSizeBytes, sizeBytes }: Outlook): ChosenExplanation['present'] {
  const runs = [...present].map(({ start, end }): Span => {
    const last = spanOfBlock(end - 1, blockSizeBytes, sizeBytes ?? Number.POSITIVE_INFINITY);
    return { start: start * blockSizeBytes, end: last.end };
  });
  const bytes = runs.reduce((sum, run) => sum + spanSize(run), 0);
  return { bytes, runs: runs.length, spans: runs.slice(0, MAX_RUNS) };
}

function explainFreshness(terms: ReuseTerms): FreshnessExplanation {
  const { freshness, lifetimeMs, age, ttlMs, staleness, staleBan, control } = terms;
  return {
    lifetimeMs,
    source: lifetimeMs === freshness.lifetimeMs ? freshness.source : 'range-reuse',
    field: lifetimeField(freshness.source, control),
    age,
    ttlMs,
    stale: { ...staleness, forbiddenBy: staleBan },
  };
}

function explainValidators(response: StoredResponse, now: number): ValidatorsExplanation {
  return {
    entityTag: explainEntityTag(response),
    lastModified: explainLastModified(response, now),
    combinedBy: strongValidator(response, now),
    conditions: conditionalFields(response),
  };
}

function explainEntityTag(response: StoredResponse): ValidatorsExplanation['entityTag'] {
  const value = effectiveEntityTag(response);
  if (value === undefined) return undefined;
  const owner = response.ownEntityTag === undefined ? 'origin' : 'rangeway';
  return { value, strength: parseEntityTag(value)?.kind ?? 'malformed', owner };
}

function explainLastModified(response: StoredResponse, now: number): ValidatorsExplanation['lastModified'] {
  const value = fieldValue(response.fields, 'last-modified');
  if (value === undefined) return undefined;
  if (parseDateField(response.fields, 'last-modified', now) === undefined) return { value, strength: 'malformed' };
  return { value, strength: strongLastModified(response, now) === undefined ? 'weak' : 'strong' };
}
