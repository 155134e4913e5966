/** How a row of the conformance tables is written: a kind, the clause it is read from, a sentence, and exchanges in order. */

import { formatHttpDate } from '../../src/semantics/http-date.ts';
import type { TestKind } from './verdicts.ts';

/** When the clock stands at the beginning of each row. */
const startAt = Date.UTC(2026, 0, 1);

/** A date for a field: so many seconds after the row's beginning, or before it. */
export function date(seconds: number): string {
  return formatHttpDate(startAt + seconds * 1000);
}

/** What the origin answers if it is asked. */
export interface Reply {
  /** 200 without it. */
  readonly status?: number;
  /** Such as `Cache-Control: max-age=60`. Date and Content-Length are added where there are none. */
  readonly fields?: readonly string[];
  /** Another text for each exchange without it. */
  readonly body?: string;
  /** `false` for an origin without a clock, which adds no Date. */
  readonly hasDate?: boolean;
  /** Whether a single Range of the request is obeyed, under its If-Range. */
  readonly hasRanges?: boolean;
  /** Heads that come before: the rest of a status line, and fields, such as `103 Early Hints` and `Link: </a>`. */
  readonly interim?: readonly (readonly string[])[];
  /**
   * `before`: the connection is cut instead of a response; `midway`: after half of the body; `refuse`: there is no origin
   * any more; `silence`: nothing comes.
   */
  readonly fault?: 'before' | 'midway' | 'refuse' | 'silence';
  /** What a second request of the same exchange is answered with. */
  readonly again?: Reply;
}

/**
 * Where a response comes from. `cached`: from the store, and the origin hears nothing. `fetched`: what the origin answered
 * in this exchange. `validated`: from the store, after a 304 to a conditional request. `stale`: from the store, after the
 * origin was asked in vain. `refreshing`: from the store, and the origin is asked meanwhile. `made`: by the proxy, after
 * the origin was asked in vain. `refused`: by the proxy, and the origin hears nothing.
 */
export type Source = 'cached' | 'fetched' | 'validated' | 'stale' | 'refreshing' | 'made' | 'refused';

/** What a client asks, what the origin answers, and what the client is to see. */
export interface Exchange {
  readonly source: Source;
  /** Seconds that pass before it. */
  readonly wait?: number;
  readonly method?: string;
  readonly host?: string;
  readonly target?: string;
  readonly fields?: readonly string[];
  readonly body?: string;
  readonly reply?: Reply;
  /** That of the reply, or of what is stored, without it. */
  readonly status?: number;
  /** The body. That of the reply, or of what is stored, without it. */
  readonly text?: string;
  /** Fields of the response: a name; a name and its value; or a name and `~` with a part of its value. */
  readonly has?: readonly string[];
  /** Names of fields that the response must not have. */
  readonly lacks?: readonly string[];
  /** The heads that come before the response: statuses with their fields. */
  readonly interim?: readonly (readonly string[])[];
  /** Fields of the request that reaches the origin last, written as in `has`. */
  readonly asks?: readonly string[];
  /** Names of fields that it must not have. */
  readonly asksNo?: readonly string[];
  /** How often the origin may be asked, where it may be asked for parts. */
  readonly atMost?: number;
  /** Repeats the exchange until it is as it is to be: for what happens in the background. */
  readonly soon?: boolean;
}

/** All but where the response comes from. */
export type Details = Omit<Exchange, 'source'>;

/** The first exchange of most rows: the origin answers with these fields. */
export function gives(...fields: readonly string[]): Exchange {
  return { source: 'fetched', reply: { fields } };
}

export const cached = (details: Details = {}): Exchange => ({ source: 'cached', ...details });
export const fetched = (details: Details = {}): Exchange => ({ source: 'fetched', ...details });
export const stale = (details: Details = {}): Exchange => ({ source: 'stale', ...details });
export const refreshing = (details: Details = {}): Exchange => ({ source: 'refreshing', ...details });
export const made = (status: number, details: Details = {}): Exchange => ({ source: 'made', status, ...details });
export const refused = (status: number, details: Details = {}): Exchange => ({ source: 'refused', status, ...details });

/** The origin answers 304, with these fields. */
export function validated(details: Details = {}, ...fields: readonly string[]): Exchange {
  return { source: 'validated', reply: { status: 304, fields }, ...details };
}

/** One row. */
export interface Row {
  readonly kind: TestKind;
  readonly clause: string;
  readonly name: string;
  readonly exchanges: readonly Exchange[];
}

/** A row about what a cache may not do, or must. `clause` such as `RFC 9111 §4.2`. */
export function required(clause: string, name: string, ...exchanges: readonly Exchange[]): Row {
  return { kind: 'required', clause, name, exchanges };
}

/** A row about what a good cache does and a poor one may leave. */
export function optimal(clause: string, name: string, ...exchanges: readonly Exchange[]): Row {
  return { kind: 'optimal', clause, name, exchanges };
}
