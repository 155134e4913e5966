/**
 * The format of an explanation, plain data that can be written as JSON: the decision and its reason, stored responses, freshness,
 * validators, running flights, and where the bytes of a span would come from.
 */

import type { Span } from '../../bytes/span.ts';
import type { Fields } from '../../http/fields.ts';
import type { NominatedField, StoredResponse } from '../../http/stored-response.ts';
import type { ForwardReason } from '../../semantics/cache-status.ts';
import type { AgeTerms, FreshnessSource } from '../../semantics/freshness.ts';
import type { ReuseTerms } from '../../semantics/reuse.ts';
import { decideFetch, type FillProgress, nearestFill, type Outlook } from '../fill/fetch-decision.ts';
import type { NotStoredReason } from '../lookup/hit-for-pass.ts';

/**
 * What the cache would do:
 * - `hit`, `stale`: answer with a stored response; `stale-while-revalidate`: also validate it in the background;
 * - `complete`: answer with a partly stored response, and fetch its absent bytes;
 * - `join`: wait for the flight of another request;
 * - `revalidate`, `fill`: ask the origin, and store the response where that is allowed;
 * - `pass`: pass the request on as it is; the response is not stored;
 * - `refuse`: answer with an error, because no stored response may be used (`only-if-cached`).
 */
export interface Decision {
  readonly kind:
    | 'hit'
    | 'stale'
    | 'stale-while-revalidate'
    | 'complete'
    | 'join'
    | 'revalidate'
    | 'fill'
    | 'pass'
    | 'refuse';
  /** One word for the cause. */
  readonly reason: string;
  /** The directive that is the cause, if one is. */
  readonly directive?: string | undefined;
  /** Why the request goes to the origin, if it does (RFC 9211 §2.2). */
  readonly forwardReason?: ForwardReason | undefined;
  /** The Cache-Status member, as far as it is known before the origin has answered; undefined for `refuse`. */
  readonly cacheStatus?: string | undefined;
  /** Until when the stored response is served if the origin fails, in epoch milliseconds; undefined for never. */
  readonly serveStaleUntil?: number | undefined;
}

/** The first request that the origin would get; `fields` leaves out those that every request has. */
export interface OriginQuestion {
  readonly method: string;
  /** Origin-form. */
  readonly target: string;
  /** Range and preconditions. */
  readonly fields: Fields;
}

/** Summary of one stored response of the key. */
export interface EntryExplanation {
  readonly generation: string;
  readonly status: number;
  readonly sizeBytes: number;
  readonly isComplete: boolean;
  /** Whether the response is a stored part that cannot be combined with others. */
  readonly isFragment: boolean;
  readonly pinnedUntil?: number | undefined;
  /** Fields and cookies whose values differ between this request and the one that the response was stored for; empty for a match. */
  readonly differs: readonly string[];
  /** Whether the response could be used if it matched. A partly stored one cannot be completed without a strong validator. */
  readonly isUsable: boolean;
  /** Whether the decision is about this response. */
  readonly isChosen: boolean;
}

/** The response that the decision is about: stored, or being filled. */
export interface ChosenExplanation {
  readonly generation: string;
  readonly status: number;
  /** Length of the whole; undefined while it is unknown. */
  readonly sizeBytes?: number | undefined;
  /** The present bytes: their number, the number of their runs, and the first runs. */
  readonly present: { readonly bytes: number; readonly runs: number; readonly spans: readonly Span[] };
  readonly isComplete: boolean;
  /** Place in the whole; set for a fragment only. */
  readonly fragment?: StoredResponse['fragment'] | undefined;
  readonly pinnedUntil?: number | undefined;
  /** Whether the origin has shown that the resource changed. */
  readonly isInvalid: boolean;
  /** When an operator expired the response (soft purge), in epoch milliseconds. */
  readonly expiredAt?: number | undefined;
  readonly tags: readonly string[];
  /**
   * Set where the response does not state that it is for all: the fields and cookies that a request must send with the same
   * values. The request must send no other fields or cookies that identify a client. Undefined for a response for all.
   */
  readonly boundTo?: readonly string[] | undefined;
  /** When the response was received or last validated, in epoch milliseconds. */
  readonly receivedAt: number;
  readonly freshness: FreshnessExplanation;
  readonly validators: ValidatorsExplanation;
}

/** The freshness calculation (RFC 9111 §4.2): lifetime, age, and remaining lifetime, in milliseconds. */
export interface FreshnessExplanation {
  readonly lifetimeMs: number;
  /** `range-reuse`: the response has no lifetime and the request has a range, so `rangeReuseSeconds` counts. */
  readonly source: FreshnessSource | 'range-reuse';
  /** The response field that the lifetime was read from, in lower case. */
  readonly field?: string | undefined;
  readonly age: AgeTerms;
  /** Negative once the lifetime is over. */
  readonly ttlMs: number;
  readonly stale: {
    /** How long after its lifetime the response is served: while it is validated, and when the origin fails. */
    readonly whileRevalidateMs: number;
    readonly ifErrorMs: number;
    readonly forbiddenBy?: ReuseTerms['staleBan'];
  };
}

/** Strength of a validator (RFC 9110 §8.8.1). */
type Strength = 'strong' | 'weak' | 'malformed';

/** The validators of the response. */
export interface ValidatorsExplanation {
  /** As clients get it; `owner` is the maker of the tag. */
  readonly entityTag?:
    | { readonly value: string; readonly strength: Strength; readonly owner: 'origin' | 'rangeway' }
    | undefined;
  readonly lastModified?: { readonly value: string; readonly strength: Strength } | undefined;
  /** The strong validator by which parts are combined and requested with If-Range; undefined where parts may not be combined. */
  readonly combinedBy?: string | undefined;
  /** The conditional fields of a validation; empty where the response cannot be validated. */
  readonly conditions: Fields;
}

/** A running flight of the key. */
export interface FlightExplanation {
  /** Whether the origin has answered. */
  readonly hasLanded: boolean;
  readonly generation?: string | undefined;
  readonly sizeBytes?: number | undefined;
  /** Bytes that the origin has sent for the generation. */
  readonly receivedBytes: number;
  readonly readers: number;
  /** Frontier and end (exclusive) of each fill; `end` is undefined where it is unknown. */
  readonly transfers: readonly { readonly at: number; readonly end?: number | undefined }[];
}

/** What is known of the origin's support for ranges. */
interface RangeAbilityExplanation {
  /** Whether the origin is known to support ranges. */
  readonly isKnown: boolean;
  /** Whether the origin would be asked for a part: `mayAsk` where nothing is stored, `mayAskMore` where a part is. */
  readonly mayAsk: boolean;
  readonly mayAskMore: boolean;
  /** Why this URL, or the whole origin, is not asked for parts for a while: a sentence about the origin ("it ..."). */
  readonly refusal: string | undefined;
  /**
   * `once`: one request brings all of an open-ended range, because the URL may refuse another one. `parts-only`: the URL has given
   * parts but not the whole, so ranges are passed on as they are.
   */
  readonly manner?: 'once' | 'parts-only' | undefined;
}

/** The explanation by the cache. */
export interface CacheExplanation {
  readonly key: string;
  readonly decision: Decision;
  readonly originQuestion?: OriginQuestion | undefined;
  /** The request fields that select a variant of the key, with the values of this request; null for an absent field. */
  readonly variant: readonly NominatedField[];
  /** The number of responses stored under the key; `entries` has the first ones. */
  readonly entryCount: number;
  readonly entries: readonly EntryExplanation[];
  readonly chosen?: ChosenExplanation | undefined;
  readonly flights: readonly FlightExplanation[];
  readonly origin: RangeAbilityExplanation;
  /** Why the last response for the key was not stored; undefined where it was stored, or the reason is unknown. */
  readonly notStored?: (NotStoredReason & { readonly agoMs: number }) | undefined;
}

/** The representation that ranges would be selected from, where it is known. */
export interface Subject {
  readonly response: StoredResponse;
  readonly outlook: Outlook;
  /** For a fragment: the bytes that would be sent, as offsets in the whole. */
  readonly fragmentSpan: Span | undefined;
}

/** The explanation by the cache; delivery adds the range plan, which it makes from `subject`. */
export interface Explained {
  readonly explanation: CacheExplanation;
  readonly subject: Subject | undefined;
}

/** A run of bytes, and their source: stored here, a running fill, or another request to the origin. */
export interface BytePiece extends Span {
  readonly from: 'here' | 'in-flight' | 'origin';
}

/** The pieces of a span in order, and the spans that would be requested from the origin. */
export interface BytePlan {
  readonly pieces: readonly BytePiece[];
  /** `end` is Infinity for a request for the whole. */
  readonly asked: readonly Span[];
  /** Whether `maxPieces` cut off the list of pieces. */
  readonly isCut: boolean;
}

/**
 * Plans where the bytes of a span with a finite end come from, as its reader would decide (see `decideFetch`). Plans at most
 * `maxPieces` pieces. `openFrom` is the first offset of an open-ended range; undefined for other ranges.
 */
export function planBytes(span: Span, outlook: Outlook, maxPieces: number, openFrom?: number): BytePlan {
  const { present, blockSizeBytes, fills } = outlook;
  const pieces: BytePiece[] = [];
  const asked: Span[] = [];
  let started: FillProgress | undefined;
  let offset = span.start;
  while (offset < span.end && pieces.length < maxPieces) {
    const index = Math.floor(offset / blockSizeBytes);
    if (present.has(index)) {
      add({ start: offset, end: present.endOfRun(index) * blockSizeBytes, from: 'here' });
      continue;
    }
    const running = started === undefined ? fills : [...fills, started];
    const decision = decideFetch({ ...outlook, fills: running, offset, end: span.end, openFrom });
    if (decision.kind === 'fetch') {
      asked.push(decision.span);
      const { start, end } = decision.span;
      started = { frontier: start, keptTo: start, limit: end, speed: 0 };
    }
    const bringer = decision.kind === 'fetch' ? started : nearestFill(running, offset);
    const presentAt = (present.firstAfter(index) ?? Number.POSITIVE_INFINITY) * blockSizeBytes;
    const end = Math.min(bringer?.limit ?? span.end, presentAt);
    add({ start: offset, end, from: bringer === started ? 'origin' : 'in-flight' });
  }
  return { pieces, asked, isCut: offset < span.end };

  function add({ start, end, from }: BytePiece): void {
    offset = Math.min(end, span.end);
    const last = pieces.at(-1);
    if (last?.from === from) pieces[pieces.length - 1] = { start: last.start, end: offset, from };
    else pieces.push({ start, end: offset, from });
  }
}
