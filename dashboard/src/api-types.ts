/** The values of the admin API that the dashboard reads. They are the server's own types. */

import type { Activity, EntryStatus } from '../../src/admin/operations.ts';

export type {
  Activity,
  EntryDetails,
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
export type OutcomeName = Exclude<keyof Activity['requests'], 'inFlight'>;

/** A page of entries. */
export interface EntryPage {
  readonly entries: readonly EntryStatus[];
  readonly next?: string;
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
