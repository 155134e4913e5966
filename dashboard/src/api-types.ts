/** The values of the admin API that the dashboard reads. They are the server's own types. */

import type { EntryDetails, EntryStatus, FillStatus, OriginStatus } from '../../src/admin/operations.ts';

export type {
  EntryStatus,
  ExplainReply,
  FillStatus,
  OriginStatus,
  PurgeReport,
  WarmReport,
} from '../../src/admin/operations.ts';

/** Bytes `[start, end)`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The outcomes that requests are counted by. */
export type OutcomeName = 'hit' | 'stale' | 'revalidated' | 'miss' | 'uncacheable' | 'none' | 'failed';

/** One reading of the server's counters. All totals count since the start of the server. */
export interface Activity {
  readonly at: number;
  readonly startedAt: number;
  readonly isReady: boolean;
  readonly workers: readonly { readonly id: number; readonly pid: number; readonly state: string }[];
  readonly requests: Readonly<Record<OutcomeName | 'inFlight', number>>;
  readonly bytes: { readonly sent: number; readonly fromOrigin: number };
  readonly latency: { readonly boundsMs: readonly number[]; readonly counts: readonly number[] };
  readonly connectionsOpen: number;
  readonly store: {
    readonly entries: number;
    readonly memoryBytes: number;
    readonly memoryLimitBytes: number;
    readonly diskBytes?: number | null;
    readonly diskLimitBytes?: number | null;
  };
  readonly origins: readonly OriginStatus[];
  readonly fills: readonly FillStatus[];
  readonly fillCount: number;
  readonly hottest: readonly {
    readonly uri: string;
    readonly key?: string;
    readonly hits: number;
    readonly bytes: number;
  }[];
}

/** An entry of a page of the list. */
export interface ListedEntry extends EntryStatus {
  readonly presentBytes?: number;
  readonly usedAt?: number;
}

/** A page of entries. */
export interface EntryPage {
  readonly entries: readonly ListedEntry[];
  readonly next?: string;
}

/** One entry, with the spans that memory holds and that are arriving. */
export interface EntryView extends EntryDetails {
  readonly usedAt?: number;
  readonly hot?: readonly Span[];
  readonly arriving?: readonly (Span & { readonly fillId: string })[];
}

/** What happened to one request. */
export interface RequestDecision {
  readonly at: number;
  readonly worker: number;
  readonly method: string;
  readonly uri: string;
  readonly range?: string;
  readonly status: number;
  readonly outcome: string;
  readonly reason?: string;
  readonly originBytes: number;
  readonly sentBytes: number;
  readonly headMs: number;
  readonly durationMs: number;
  readonly error?: string;
  readonly traceId?: string;
}

/** A change of what is stored, which no request made: a purge, the end of a fill, an eviction. */
export interface StoredEvent {
  readonly at: number;
  readonly event: string;
  readonly detail?: string;
  readonly uri?: string;
}

/** A decision or an event. */
export type Decision = RequestDecision | StoredEvent;
