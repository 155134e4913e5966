/** Heads of responses as HTTP/1.1 writes them (RFC 9112 §4 and §5): text of one character per byte. */

import { errorResponse } from '../../delivery/problem.ts';
import { wireFieldName } from '../../http/field-name.ts';
import type { Fields } from '../../http/fields.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import { formatHttpDate } from '../../semantics/http-date.ts';
import { isFramingField, reasonPhrase, requiredUpgrade } from '../response-head.ts';

const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** RFC 9110 §5.5, with what else a byte can be. A line break would begin another field, or another response. */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

const secondMs = 1000;

/** Fields as lines, without those that frame. */
export interface FieldLines {
  readonly text: string;
  readonly hasDate: boolean;
}

/** Throws a `ProxyError` for a field that would not be read as it is. */
export function formatFieldLines(fields: Fields): FieldLines {
  let text = '';
  let hasDate = false;
  for (const [name, value] of fields) {
    if (isFramingField(name)) continue;
    if (name === 'date') hasDate = true;
    text += formatLine(name, value);
  }
  return { text, hasDate };
}

/** One line. Throws a `ProxyError` for a name that is no token, or a value that no field can have. */
export function formatLine(name: string, value: string): string {
  if (!fieldName.test(name) || !fieldValue.test(value)) {
    throw new ProxyError('internal', { detail: `the field ${JSON.stringify(name)} cannot be written` });
  }
  return `${wireFieldName(name)}: ${value}\r\n`;
}

/** The first line of a response. The version is ours, whatever the client's is (RFC 9110 §6.2). */
export function formatStatusLine(status: number): string {
  return `HTTP/1.1 ${status} ${reasonPhrase(status)}\r\n`;
}

/** An interim response. Throws a `ProxyError` as `formatFieldLines` does. */
export function formatInterim(status: number, fields: Fields): string {
  return `${formatStatusLine(status)}${formatFieldLines(fields).text}\r\n`;
}

/** The line of Connection, with Upgrade before it where the response must have that (RFC 9110 §7.8). Throws as `formatFieldLines`. */
export function formatUpgrade(status: number, fields: Fields, connection: string): string {
  const upgrade = requiredUpgrade(status, fields);
  if (upgrade === undefined) return connection;
  return formatLine('upgrade', upgrade) + connection.replace('Connection: ', 'Connection: upgrade, ');
}

/** The last chunk and the trailer section (RFC 9112 §7.1.2). */
export function formatLastChunk(trailers: Fields): string {
  let text = '0\r\n';
  for (const [name, value] of trailers) text += `${wireFieldName(name)}: ${value}\r\n`;
  return `${text}\r\n`;
}

/** What a connection that goes on says of itself. The time is told in whole seconds; 0 tells none. */
export function formatKeepAlive(keepAliveTimeoutMs: number): string {
  if (keepAliveTimeoutMs === 0) return 'Connection: keep-alive\r\n';
  return `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / secondMs)}\r\n`;
}

/** A whole error response for a connection on which no request could be read. It is the last one there. */
export function formatLastProblem(error: ProxyError, now: number): string {
  const { status, fields, body } = errorResponse(error);
  const content = body.kind === 'bytes' ? Buffer.concat(body.chunks).toString('latin1') : '';
  return (
    `${formatStatusLine(status)}${formatFieldLines(fields).text}Date: ${formatHttpDate(now)}\r\n` +
    `Content-Length: ${content.length}\r\nConnection: close\r\n\r\n${content}`
  );
}

/** The line that dates a response (RFC 9110 §6.6.1), made once per second. */
export class DateLine {
  #second = Number.NaN;
  #text = '';

  /** For a time in epoch milliseconds. */
  at(now: number): string {
    const second = Math.floor(now / secondMs);
    if (second !== this.#second) {
      this.#second = second;
      this.#text = `Date: ${formatHttpDate(now)}\r\n`;
    }
    return this.#text;
  }
}
