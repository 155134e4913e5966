/** Compares both sides of an exchange with its row. */

import { expect } from 'vitest';
import { type Fields, fieldLines, hasField } from '../../src/http/fields.ts';
import type { RawResponse } from '../support/clients/raw-client.ts';
import type { ScriptedRequest } from '../support/origins/scripted-origin.ts';
import type { Exchange, Source } from './rows.ts';

/** A body, and the status that it came with. */
export interface Content {
  readonly status: number;
  readonly text: string;
}

/** The responses that the client got, and the requests that reached the origin. */
export interface Seen {
  readonly response: RawResponse;
  readonly interim: readonly (readonly string[])[];
  /** The requests that reached the origin. */
  readonly asked: readonly ScriptedRequest[];
}

/** How often the origin may be asked. A request that gets no response is tried once more. */
const askedTimes: Readonly<Record<Source, readonly [least: number, most: number]>> = {
  cached: [0, 0],
  refused: [0, 0],
  fetched: [1, 1],
  validated: [1, 1],
  refreshing: [1, 1],
  stale: [1, 2],
  made: [1, 2],
};

/** Throws where an exchange differs from its row. `known` is the response's content, where the row determines it. */
export function checkExchange(where: string, exchange: Exchange, seen: Seen, known: Content | undefined): void {
  const { method = 'GET', reply = {}, status, text } = exchange;
  const { response, asked } = seen;
  checkAsked(where, exchange, asked);
  const wantedStatus = status ?? known?.status;
  if (wantedStatus !== undefined) expect(response.status, `${where}: status`).toBe(wantedStatus);
  expect(response.isWhole, `${where}: whole`).toBe(reply.fault !== 'midway');
  const isBare = method === 'HEAD' || wantedStatus === 204 || wantedStatus === 304;
  // A response with another status than the known one has another body.
  const wantedText = isBare ? '' : (text ?? (wantedStatus === known?.status ? known?.text : undefined));
  if (wantedText !== undefined && reply.fault !== 'midway') {
    expect(response.body.toString('latin1'), `${where}: body`).toBe(wantedText);
  }
  checkFields(`${where}: response`, response.lines, exchange.has, exchange.lacks);
  if (exchange.interim !== undefined) expect(seen.interim, `${where}: interim responses`).toEqual(exchange.interim);
}

function checkAsked(where: string, exchange: Exchange, asked: readonly ScriptedRequest[]): void {
  const { source, method = 'GET', atMost, reply = {} } = exchange;
  const more = reply.again === undefined ? 0 : 1;
  const [least, most] = reply.fault === 'refuse' ? [0, 0] : askedTimes[source].map((times) => times + more);
  expect(asked.length, `${where}: requests at the origin`).toBeGreaterThanOrEqual(least ?? 0);
  expect(asked.length, `${where}: requests at the origin`).toBeLessThanOrEqual(atMost ?? most ?? 0);
  const last = asked.at(-1);
  if (last === undefined) return;
  if (source !== 'refreshing') expect(last.method, `${where}: method`).toBe(method);
  if (source === 'validated') expect(isConditional(last.fields), `${where}: the request is conditional`).toBe(true);
  checkFields(`${where}: request`, last.fields, exchange.asks, exchange.asksNo);
}

function isConditional(fields: Fields): boolean {
  return hasField(fields, 'if-none-match') || hasField(fields, 'if-modified-since');
}

function checkFields(where: string, lines: Fields, has: readonly string[] = [], lacks: readonly string[] = []): void {
  const lower = lines.map(([name, value]): [string, string] => [name.toLowerCase(), value]);
  const valuesOf = (name: string) => fieldLines(lower, name.toLowerCase());
  for (const line of has) {
    const [, name = '', value] = /^([^:]+)(?:: (.*))?$/s.exec(line) ?? [];
    const values = valuesOf(name);
    if (value === undefined) expect(values, `${where}: ${name}`).not.toEqual([]);
    else if (value.startsWith('~')) expect(values.join(', '), `${where}: ${name}`).toContain(value.slice(1));
    else expect(values.join(', '), `${where}: ${name}`).toBe(value);
  }
  for (const name of lacks) expect(valuesOf(name), `${where}: ${name}`).toEqual([]);
}
