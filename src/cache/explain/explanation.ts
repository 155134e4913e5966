/**
 * What an explanation says, as plain data that survives JSON: the decision and its reason, the stored responses, freshness,
 * validators, running fetches, and where the bytes of a span would come from.
 */

import type { Span } from '../../bytes/span.ts';
import type { Fields } from '../../http/fields.ts';
import type { NominatedField, StoredResponse } from '../../http/stored-response.ts';
import type { ForwardReason } from '../../semantics/cache-status.ts';
import type { AgeTerms, FreshnessSource } from '../../semantics/freshness.ts';
import type { ReuseTerms } from '../../semantics/reuse.ts';
import { type Coming, decideFetch, nearestFill, type Outlook } from '../fill/fetch-decision.ts';
import type { NotStoredReason } from '../lookup/hit-for-pass.ts';

/**
 * What the cache would do:
 * - `hit`, `stale`: answer from what is stored; `stale-while-revalidate`: and validate it meanwhile;
 * - `complete`: answer from the part that is stored, and fetch what is absent of it;
 * - `join`: wait for what another request has asked of the origin;
 * - `revalidate`, `fill`: ask the origin, and store what it says where that may be;
 * - `pass`: pass the request on as it is; nothing is stored;
 * - `refuse`: say that nothing stored may be used (`only-if-cached`).
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
  /** Why: a word for each cause. */
  readonly reason: string;
  /** The directive that is the cause, where one is. */
  readonly directive?: string | undefined;
  /** Why the origin is asked, where it is (RFC 9211 §2.2). */
  readonly forwardReason?: ForwardReason | undefined;
  /** The member of Cache-Status, as far as it is known before the origin has answered; undefined where there is none. */
  readonly cacheStatus?: string | undefined;
  /** Until when what is stored is served if the origin fails, in epoch milliseconds; undefined for never. */
  readonly serveStaleUntil?: number | undefined;
}

/** What the origin would be asked first, besides the fields that every request gets. */
export interface OriginQuestion {
  readonly method: string;
  /** Origin-form. */
  readonly target: string;
  /** Range and preconditions. */
  readonly fields: Fields;
}

/** One stored response of the key, in short. */
export interface EntryExplanation {
  readonly generation: string;
  readonly status: number;
  readonly sizeBytes: number;
  readonly isComplete: boolean;
  /** Whether it is a part that cannot be combined with others. */
  readonly isFragment: boolean;
  readonly pinnedUntil?: number | undefined;
  /** The request's fields and cookies that have other values than those it was stored for; empty where it matches. */
  readonly differs: readonly string[];
  /** Whether it could be used if it matched: without a strong validator a part cannot be completed. */
  readonly isUsable: boolean;
  /** Whether the decision is about it. */
  readonly isChosen: boolean;
}

/** The response that the decision is about: stored, or on its way into the store. */
export interface ChosenExplanation {
  readonly generation: string;
  readonly status: number;
  /** The length of the whole; undefined while it is not known. */
  readonly sizeBytes?: number | undefined;
  /** Which bytes are there, the first runs of them; `runs` says how many there are. */
  readonly present: { readonly bytes: number; readonly runs: number; readonly spans: readonly Span[] };
  readonly isComplete: boolean;
  /** The part of the whole that it is, where it stands by itself. */
  readonly fragment?: StoredResponse['fragment'] | undefined;
  readonly pinnedUntil?: number | undefined;
  /** Whether the origin has let it be known that it has changed. */
  readonly isInvalid: boolean;
  /** When those who run the server have ended its lifetime, in epoch milliseconds. */
  readonly expiredAt?: number | undefined;
  readonly tags: readonly string[];
  /**
   * Where it does not state that it is for all, the fields and cookies that a request must send with the same values, and no
   * others that tell who asks; undefined where it is for all.
   */
  readonly boundTo?: readonly string[] | undefined;
  /** When it was received or last validated, in epoch milliseconds. */
  readonly receivedAt: number;
  readonly freshness: FreshnessExplanation;
  readonly validators: ValidatorsExplanation;
}

/** The freshness sum (RFC 9111 §4.2): a lifetime, an age, and what is left. In milliseconds. */
export interface FreshnessExplanation {
  readonly lifetimeMs: number;
  /** `range-reuse`: nobody gives a lifetime, and the request has a range. */
  readonly source: FreshnessSource | 'range-reuse';
  /** The response field that the lifetime was read from, in lower case. */
  readonly field?: string | undefined;
  readonly age: AgeTerms;
  /** Negative once the lifetime is over. */
  readonly ttlMs: number;
  readonly stale: {
    /** How long past its lifetime it is served while it is validated, and when the origin fails. */
    readonly whileRevalidateMs: number;
    readonly ifErrorMs: number;
    readonly forbiddenBy?: ReuseTerms['staleBan'];
  };
}

/** How much a validator proves (RFC 9110 §8.8.1). */
type Strength = 'strong' | 'weak' | 'malformed';

/** What the response is known by. */
export interface ValidatorsExplanation {
  /** As clients get it; `owner` says who made it. */
  readonly entityTag?:
    | { readonly value: string; readonly strength: Strength; readonly owner: 'origin' | 'rangeway' }
    | undefined;
  readonly lastModified?: { readonly value: string; readonly strength: Strength } | undefined;
  /** Under what parts are combined, and asked for with If-Range; undefined where none may be. */
  readonly combinedBy?: string | undefined;
  /** With what the origin is asked whether it is current; empty where it cannot be asked. */
  readonly conditions: Fields;
}

/** What is under way for the key. */
export interface FlightExplanation {
  /** Whether the origin has answered. */
  readonly hasLanded: boolean;
  readonly generation?: string | undefined;
  readonly sizeBytes?: number | undefined;
  /** Bytes that the origin has sent for the generation. */
  readonly receivedBytes: number;
  readonly readers: number;
  /** Where each transfer is, and where it ends; undefined for an end that is not known. */
  readonly transfers: readonly { readonly at: number; readonly end?: number | undefined }[];
}

/** What is known of the origin's ranges. */
interface RangeAbilityExplanation {
  /** Whether it is known to give them. */
  readonly isKnown: boolean;
  /** Whether it would be asked for a part of what is not stored, and of what is stored in part. */
  readonly mayAsk: boolean;
  readonly mayAskMore: boolean;
}

/** All that the cache has to say. */
export interface CacheExplanation {
  readonly key: string;
  readonly decision: Decision;
  readonly originQuestion?: OriginQuestion | undefined;
  /** What tells the stored responses of the key apart, as this request presents it; null for what it does not send. */
  readonly variant: readonly NominatedField[];
  /** How many responses are stored under the key, and the first of them. */
  readonly entryCount: number;
  readonly entries: readonly EntryExplanation[];
  readonly chosen?: ChosenExplanation | undefined;
  readonly flights: readonly FlightExplanation[];
  readonly origin: RangeAbilityExplanation;
  /** Why the last response for the key was not stored; undefined where that is not known, or it was. */
  readonly notStored?: (NotStoredReason & { readonly agoMs: number }) | undefined;
}

/** The representation that a request would get, if it is known: what ranges are selected from. */
export interface Subject {
  readonly response: StoredResponse;
  readonly outlook: Outlook;
  /** Its bytes as offsets in the whole, where it is a fragment. */
  readonly fragmentSpan: Span | undefined;
}

/** An explanation, and what the rest of it is made from. */
export interface Explained {
  readonly explanation: CacheExplanation;
  readonly subject: Subject | undefined;
}

/** A run of bytes: they are here, a running fill brings them, or the origin has to be asked. */
export interface BytePiece extends Span {
  readonly from: 'here' | 'in-flight' | 'origin';
}

/** The pieces of a span, in order, and what the origin would be asked for. */
export interface BytePlan {
  readonly pieces: readonly BytePiece[];
  /** Spans; `end` is Infinity for the whole. */
  readonly asked: readonly Span[];
  /** Whether there are more pieces than are told. */
  readonly isCut: boolean;
}

/**
 * Plans for a span with an end, as its reader would decide (see `decideFetch`), at most `maxPieces` of it. `openFrom` is where an
 * open-ended range begins.
 */
export function planBytes(span: Span, outlook: Outlook, maxPieces: number, openFrom?: number): BytePlan {
  const { present, blockSizeBytes, fills } = outlook;
  const pieces: BytePiece[] = [];
  const asked: Span[] = [];
  let started: Coming | undefined;
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
