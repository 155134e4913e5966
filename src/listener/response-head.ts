/** Heads of responses as HTTP/1.1 writes them. */

import { STATUS_CODES } from 'node:http';
import { errorResponse } from '../delivery/problem.ts';
import { wireFieldName } from '../http/field-name.ts';
import type { Fields } from '../http/fields.ts';
import type { ProxyError } from '../http/proxy-error.ts';
import { formatHttpDate } from '../semantics/http-date.ts';

/** Fields that only a listener may write. A response that has them nevertheless must not frame itself twice. */
const framingFields: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Whether only a listener may write a field, on any protocol (RFC 9112 §6, RFC 9113 §8.2.2). */
export function isFramingField(name: string): boolean {
  return framingFields.has(name);
}

/** What a listener adds to the fields of a response. */
export interface HeadAdditions {
  /** What Content-Length says; undefined when it is not there. */
  readonly contentLength: number | undefined;
  /** Whether the connection ends after the response. */
  readonly isLast: boolean;
  /** Epoch milliseconds, for a response without Date (RFC 9110 §6.6.1). */
  readonly now: number;
}

/** The reason phrase of a status, empty for one without. */
export function reasonPhrase(status: number): string {
  return STATUS_CODES[status] ?? '';
}

/** Names and values in turn, in the order and with the repetitions of the fields, as `writeHead` takes them. */
export function headLines(fields: Fields, additions: HeadAdditions): string[] {
  const lines: string[] = [];
  let hasDate = false;
  for (const [name, value] of fields) {
    if (framingFields.has(name)) continue;
    if (name === 'date') hasDate = true;
    lines.push(wireFieldName(name), value);
  }
  if (!hasDate) lines.push('Date', formatHttpDate(additions.now));
  if (additions.contentLength !== undefined) lines.push('Content-Length', String(additions.contentLength));
  if (additions.isLast) lines.push('Connection', 'close');
  return lines;
}

/** Names and values in turn for an interim response, which has no Date and no framing. */
export function interimLines(fields: Fields): string[] {
  return fields.flatMap(([name, value]) => (framingFields.has(name) ? [] : [wireFieldName(name), value]));
}

/** Trailer fields as `addTrailers` takes them. */
export function trailerLines(fields: Fields): [string, string][] {
  return fields.map(([name, value]) => [wireFieldName(name), value]);
}

/** Fields as Node's client and its proxies take them: by wire name, with the lines of one name in a list. */
export function wireFields(fields: Fields): NodeJS.Dict<string | string[]> {
  // Without a prototype, so that no name means anything to the object.
  const headers: NodeJS.Dict<string | string[]> = Object.create(null);
  for (const [name, value] of fields) {
    const wireName = wireFieldName(name);
    const earlier = headers[wireName];
    headers[wireName] = earlier === undefined ? value : [earlier, value].flat();
  }
  return headers;
}

/** A whole error response for a connection on which no request could be read. It is the last one there. */
export function formatLastProblem(error: ProxyError, now: number): string {
  const { status, fields, body } = errorResponse(error);
  const content = body.kind === 'bytes' ? Buffer.concat(body.chunks).toString('latin1') : '';
  const lines = headLines(fields, { contentLength: content.length, isLast: true, now });
  let text = `HTTP/1.1 ${status} ${reasonPhrase(status)}\r\n`;
  for (let at = 0; at < lines.length; at += 2) text += `${lines[at]}: ${lines[at + 1]}\r\n`;
  return `${text}\r\n${content}`;
}
