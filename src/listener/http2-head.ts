/** Heads of responses as HTTP/2 writes them. */

import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { OutgoingHttpHeaders } from 'node:http2';
import type { Fields } from '../http/fields.ts';
import { formatHttpDate } from '../semantics/http-date.ts';
import { isFramingField } from './response-head.ts';

/** Names and values in turn, which Node writes with less work than an object of them. */
export type Http2Lines = readonly string[];

/** What a head is made of. */
export interface Http2HeadParts {
  readonly status: number;
  readonly lines: Http2Lines;
  /** The value of Content-Range, where `lines` does not have it. */
  readonly contentRange?: string | undefined;
  /** What Content-Length says; undefined when it is not there. */
  readonly contentLength: number | undefined;
  /** Epoch milliseconds, for a response without Date (RFC 9110 §6.6.1). */
  readonly now: number;
}

/** Lines of one name may be written as one (RFC 9110 §5.3); of these, clients are known to misread the list. */
const keptApart: ReadonlySet<string> = new Set(['set-cookie', 'www-authenticate', 'proxy-authenticate']);

/** Since Node 24.7. */
const mayRespondWithLines = isNodeSince(24, 7);

/** The head of a final response, with Date and Content-Length, as `respond` takes it. */
export function http2Head({
  status,
  lines,
  contentRange,
  contentLength,
  now,
}: Http2HeadParts): Http2Lines | OutgoingHttpHeaders {
  const head = [':status', String(status), ...lines];
  if (contentRange !== undefined) head.push('content-range', contentRange);
  if (indexOfName(lines, 'date') === -1) head.push('date', formatHttpDate(now));
  if (contentLength !== undefined) head.push('content-length', String(contentLength));
  return mayRespondWithLines ? head : headersOf(head);
}

/**
 * Fields without those of the connection (RFC 9113 §8.2.2). Throws where a name or a value has characters that it must not
 * have: Node itself would take NUL for the end of a line.
 */
export function http2Lines(fields: Fields): Http2Lines {
  const lines: string[] = [];
  for (const [name, value] of fields) {
    if (isFramingField(name) || name === 'http2-settings') continue;
    validateHeaderName(name);
    validateHeaderValue(name, value);
    const earlier = keptApart.has(name) ? -1 : indexOfName(lines, name);
    if (earlier === -1) lines.push(name, value);
    else lines[earlier + 1] += `, ${value}`;
  }
  return lines;
}

/** Lines as those functions of Node take them that know no lists. */
export function headersOf(lines: Http2Lines): OutgoingHttpHeaders {
  // Without a prototype, so that no name means anything to the object.
  const headers: OutgoingHttpHeaders = Object.create(null);
  for (let at = 0; at + 1 < lines.length; at += 2) {
    const name = lines[at] as string;
    const value = lines[at + 1] as string;
    const earlier = headers[name];
    headers[name] = earlier === undefined ? value : [earlier, value].flat().map(String);
  }
  return headers;
}

function indexOfName(lines: Http2Lines, name: string): number {
  for (let at = 0; at < lines.length; at += 2) if (lines[at] === name) return at;
  return -1;
}

function isNodeSince(major: number, minor: number): boolean {
  const [ownMajor = 0, ownMinor = 0] = process.versions.node.split('.').map(Number);
  return ownMajor > major || (ownMajor === major && ownMinor >= minor);
}
