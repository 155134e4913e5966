/** The simplest strict reader of HTTP/1.1 requests: every other reader reads its requests alike. */

import type { Field } from '../../../src/http/fields.ts';

/** One request. Text is latin1, so that a character is a byte. */
export interface ReadRequest {
  readonly method: string;
  readonly target: string;
  /** Names in the case of the wire. */
  readonly fields: readonly Field[];
  readonly body: string;
}

/** The result of reading a stream: complete requests and the bytes after them; or the first fault. */
export type Reading =
  | { readonly kind: 'read'; readonly requests: readonly ReadRequest[]; readonly rest: string }
  | { readonly kind: 'fault'; readonly reason: string };

const requestLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP\/1\.1$/;
const fieldLine =
  /^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)$/;

type Part<T> = { readonly value: T; readonly end: number } | 'incomplete' | { readonly fault: string };

/** Reads a stream of requests. */
export function readStrictly(bytes: string): Reading {
  const requests: ReadRequest[] = [];
  let at = 0;
  while (at < bytes.length) {
    const request = readRequest(bytes, at);
    if (request === 'incomplete') break;
    if ('fault' in request) return { kind: 'fault', reason: `${request.fault} in request ${requests.length + 1}` };
    requests.push(request.value);
    at = request.end;
  }
  return { kind: 'read', requests, rest: bytes.slice(at) };
}

function readRequest(bytes: string, start: number): Part<ReadRequest> {
  const headEnd = bytes.indexOf('\r\n\r\n', start);
  if (headEnd < 0) return 'incomplete';
  const [first = '', ...lines] = bytes.slice(start, headEnd).split('\r\n');
  const [, method, target] = requestLine.exec(first) ?? [];
  if (method === undefined || target === undefined) return { fault: `a bad request line: ${JSON.stringify(first)}` };
  const fields: Field[] = [];
  for (const line of lines) {
    const [, name, value] = fieldLine.exec(line) ?? [];
    if (name === undefined || value === undefined) return { fault: `a bad field line: ${JSON.stringify(line)}` };
    fields.push([name, value]);
  }
  const fault = headFault(fields);
  if (fault !== undefined) return { fault };
  const body = readBody(bytes, headEnd + 4, fields);
  if (body === 'incomplete' || 'fault' in body) return body;
  return { value: { method, target, fields, body: body.value }, end: body.end };
}

/** Returns the values of a field. Names match without regard to case, and `_` matches `-`, as in a lenient reader. */
function valuesOf(fields: readonly Field[], name: string): string[] {
  return fields.filter(([other]) => other.toLowerCase().replaceAll('_', '-') === name).map(([, value]) => value);
}

function headFault(fields: readonly Field[]): string | undefined {
  if (valuesOf(fields, 'host').length !== 1) return 'not exactly one Host';
  const lengths = valuesOf(fields, 'content-length');
  const codings = valuesOf(fields, 'transfer-encoding');
  if (lengths.length + codings.length > 1) return 'framed twice';
  if (lengths.some((length) => !/^(?:0|[1-9][0-9]{0,14})$/.test(length))) return 'a bad Content-Length';
  if (codings.some((coding) => coding !== 'chunked')) return 'a bad Transfer-Encoding';
  return undefined;
}

function readBody(bytes: string, start: number, fields: readonly Field[]): Part<string> {
  if (valuesOf(fields, 'transfer-encoding').length > 0) return readChunks(bytes, start);
  const end = start + Number(valuesOf(fields, 'content-length')[0] ?? 0);
  return bytes.length < end ? 'incomplete' : { value: bytes.slice(start, end), end };
}

/** Reads chunks without extensions or trailers: the proxy forwards neither. */
function readChunks(bytes: string, start: number): Part<string> {
  let body = '';
  let at = start;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return 'incomplete';
    const size = bytes.slice(at, lineEnd);
    if (!/^[0-9a-fA-F]{1,12}$/.test(size)) return { fault: `a bad chunk size: ${JSON.stringify(size)}` };
    const dataEnd = lineEnd + 2 + Number.parseInt(size, 16);
    if (bytes.length < dataEnd + 2) return 'incomplete';
    if (bytes.slice(dataEnd, dataEnd + 2) !== '\r\n') return { fault: 'no CRLF after a chunk' };
    body += bytes.slice(lineEnd + 2, dataEnd);
    at = dataEnd + 2;
    if (dataEnd === lineEnd + 2) return { value: body, end: at };
  }
}
