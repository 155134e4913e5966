/** Formats heads of responses for Node's server. */

import { errorResponse } from '../../src/delivery/problem.ts';
import { type Fields, wireFieldName } from '../../src/http/fields.ts';
import type { ProxyError } from '../../src/http/proxy-error.ts';
import { isFramingField, reasonPhrase, requiredUpgrade } from '../../src/listener/respond.ts';
import { formatHttpDate } from '../../src/semantics/http-date.ts';

/** The values from which a listener adds fields to a response. */
export interface HeadAdditions {
  readonly status: number;
  /** The value of Content-Length; undefined for none. */
  readonly contentLength: number | undefined;
  /** Whether the connection ends after the response. */
  readonly isLast: boolean;
  /** Epoch milliseconds, for a response without Date (RFC 9110 §6.6.1). */
  readonly now: number;
}

/** Returns names and values in turn, in the order and with the repetitions of the fields, as `writeHead` takes them. */
export function headLines(fields: Fields, additions: HeadAdditions): string[] {
  const lines: string[] = interimLines(fields);
  if (!fields.some(([name]) => name === 'date')) lines.push('Date', formatHttpDate(additions.now));
  if (additions.contentLength !== undefined) lines.push('Content-Length', String(additions.contentLength));
  const upgrade = requiredUpgrade(additions.status, fields);
  if (upgrade !== undefined)
    lines.push('Upgrade', upgrade, 'Connection', additions.isLast ? 'upgrade, close' : 'upgrade');
  else if (additions.isLast) lines.push('Connection', 'close');
  return lines;
}

/** Returns names and values in turn for an interim response, which has no Date and no framing. */
export function interimLines(fields: Fields): string[] {
  return fields.flatMap(([name, value]) => (isFramingField(name) ? [] : [wireFieldName(name), value]));
}

/** Returns trailer fields as `addTrailers` takes them. */
export function trailerLines(fields: Fields): [string, string][] {
  return fields.map(([name, value]) => [wireFieldName(name), value]);
}

/** Formats a complete error response for a connection on which no request could be read. It is the last one on the connection. */
export function formatLastProblem(error: ProxyError, now: number): string {
  const { status, fields, body } = errorResponse(error);
  const content = body.kind === 'bytes' ? Buffer.concat(body.chunks).toString('latin1') : '';
  const lines = headLines(fields, { status, contentLength: content.length, isLast: true, now });
  let text = `HTTP/1.1 ${status} ${reasonPhrase(status)}\r\n`;
  for (let at = 0; at < lines.length; at += 2) text += `${lines[at]}: ${lines[at + 1]}\r\n`;
  return `${text}\r\n${content}`;
}
