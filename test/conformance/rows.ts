/** The rows of the conformance tables: a kind, the RFC clause, a sentence, and exchanges in order. */

import { formatHttpDate } from '../../src/semantics/http-date.ts';
import type { TestKind } from './verdicts.ts';

/** The clock's time at the beginning of each row, in epoch milliseconds. */
const startAt = Date.UTC(2026, 0, 1);

/** Returns the HTTP date so many seconds after the row's beginning, or before it where negative. */
export function date(seconds: number): string {
  return formatHttpDate(startAt + seconds * 1000);
}

/** The origin's reply to a request. */
export interface Reply {
  /** Default: 200. */
  readonly status?: number;
  /** Such as `Cache-Control: max-age=60`. Date and Content-Length are added where there are none. */
  readonly fields?: readonly string[];
  /** Default: a different text in each exchange. */
  readonly body?: string;
  /** `false` for an origin without a clock, which adds no Date. */
  readonly hasDate?: boolean;
  /** Whether a single Range of the request is obeyed, under its If-Range. */
  readonly hasRanges?: boolean;
  /** Heads of interim responses: the rest of a status line, and fields, such as `103 Early Hints` and `Link: </a>`. */
  readonly interim?: readonly (readonly string[])[];
  /**
   * `before`: the origin cuts the connection before the response; `midway`: after half of the body; `refuse`: it accepts no
   * connection; `silence`: it sends nothing.
   */
  readonly fault?: 'before' | 'midway' | 'refuse' | 'silence';
  /** The reply to a second request of the same exchange. */
  readonly again?: Reply;
}

/**
 * Where a response comes from. `cached`: from the store, without a request to the origin. `fetched`: from the origin, in this
 * exchange. `validated`: from the store, after a 304 to a conditional request. `stale`: from the store, after the origin
 * failed. `refreshing`: from the store, while the origin is asked. `made`: by the proxy, after the origin failed. `refused`:
 * by the proxy, without a request to the origin.
 */
export type Source = 'cached' | 'fetched' | 'validated' | 'stale' | 'refreshing' | 'made' | 'refused';

/** A client's request, the origin's reply, and the response that the client expects. */
export interface Exchange {
  readonly source: Source;
  /** Seconds that pass before the exchange. */
  readonly wait?: number;
  readonly method?: string;
  readonly host?: string;
  readonly target?: string;
  readonly fields?: readonly string[];
  readonly body?: string;
  readonly reply?: Reply;
  /** Default: the status of the reply, or of the stored response. */
  readonly status?: number;
  /** The body. Default: that of the reply, or of the stored response. */
  readonly text?: string;
  /** Fields of the response: a name; a name and its value; or a name and `~` with a part of its value. */
  readonly has?: readonly string[];
  /** Names of fields that the response must not have. */
  readonly lacks?: readonly string[];
  /** The interim responses that the client gets: statuses with their fields. */
  readonly interim?: readonly (readonly string[])[];
  /** Fields of the last request that reaches the origin, written as in `has`. */
  readonly asks?: readonly string[];
  /** Names of fields that this request must not have. */
  readonly asksNo?: readonly string[];
  /** Maximum number of requests to the origin, where the proxy may fetch parts. */
  readonly atMost?: number;
  /** Whether to repeat the exchange until it succeeds: for changes in the background. */
  readonly soon?: boolean;
}

/** An exchange without its source. */
export type Details = Omit<Exchange, 'source'>;

/** Returns the first exchange of most rows: the origin answers with these fields. */
export function gives(...fields: readonly string[]): Exchange {
  return { source: 'fetched', reply: { fields } };
}

export const cached = (details: Details = {}): Exchange => ({ source: 'cached', ...details });
export const fetched = (details: Details = {}): Exchange => ({ source: 'fetched', ...details });
export const stale = (details: Details = {}): Exchange => ({ source: 'stale', ...details });
export const refreshing = (details: Details = {}): Exchange => ({ source: 'refreshing', ...details });
export const made = (status: number, details: Details = {}): Exchange => ({ source: 'made', status, ...details });
export const refused = (status: number, details: Details = {}): Exchange => ({ source: 'refused', status, ...details });

/** Returns an exchange in which the origin answers 304 with these fields. */
export function validated(details: Details = {}, ...fields: readonly string[]): Exchange {
  return { source: 'validated', reply: { status: 304, fields }, ...details };
}

/** One row of a table. */
export interface Row {
  readonly kind: TestKind;
  readonly clause: string;
  readonly name: string;
  readonly exchanges: readonly Exchange[];
}

/** Returns a row about what a cache must do, or must not do. `clause` such as `RFC 9111 §4.2`. */
export function required(clause: string, name: string, ...exchanges: readonly Exchange[]): Row {
  return { kind: 'required', clause, name, exchanges };
}

/** Returns a row about what a good cache does, and a cache may leave out. */
export function optimal(clause: string, name: string, ...exchanges: readonly Exchange[]): Row {
  return { kind: 'optimal', clause, name, exchanges };
}
