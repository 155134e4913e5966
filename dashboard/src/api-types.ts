/** The values of the admin API that the dashboard reads. They are the server's own types. */

import type { Activity, EntryStatus } from '../../src/admin/operations.ts';

export type {
  Activity,
  EntryDetails,
  EntryStatus,
  ExplainReply,
  FillStatus,
  KeyEvent,
  OriginStatus,
  PurgeReport,
  RecordedDecision,
  RequestDecision,
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
