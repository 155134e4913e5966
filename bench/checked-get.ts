/** GET over HTTP/1.1; compares every byte of the response with the file. */

import { Agent, get, type IncomingMessage } from 'node:http';
import { get as getSecurely, Agent as SecureAgent } from 'node:https';
import type { Span } from '../src/bytes/span.ts';
import { isPeriodic, periodicPiece } from '../test/support/values/periodic-body.ts';
import { testAuthority } from '../test/support/values/tls-certificate.ts';
import { BenchFault } from './fault.ts';
import type { Question } from './load/load.ts';
import { etagOf } from './load/requests.ts';
import type { SampleFile } from './sample-file.ts';

const agent = new Agent({ keepAlive: true });
const secureAgent = new SecureAgent({ keepAlive: true, ca: testAuthority });

/** How a request differs from a GET over plain HTTP without further fields. */
export interface Asking {
  readonly isSecure?: boolean;
  readonly fields?: Readonly<Record<string, string>>;
  readonly method?: string | undefined;
}

/**
 * Requests a file, or one span of it. Throws `BenchFault` for a wrong status, length or byte. Connections stay open
 * until `closeConnections` is called.
 */
export async function checkedGet(port: number, file: SampleFile, span?: Span, asking: Asking = {}): Promise<void> {
  const message = await ask(port, file, span, asking);
  await check(message, message as AsyncIterable<Buffer>, file, span);
}

/** Sends a HEAD, conditional or multi-range request for a file. Throws `BenchFault` for a wrong status, length or byte. */
export async function checkedAnswer(port: number, file: SampleFile, question: Question): Promise<void> {
  const lines = question.fields.replace('{etag}', etagOf(file.path)).trimEnd().split('\r\n');
  const fields = Object.fromEntries(lines.filter((line) => line !== '').map((line) => line.split(': ', 2)));
  const message = await ask(port, file, undefined, { fields, method: question.method });
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const spans = question.status === 206 ? spansOf(fields['Range'] ?? '') : [file.window];
  const base = question.status === 206 ? file.window.start : 0;
  const wanted = question.bodyBytes === 0 ? [] : spans.map((span) => bytesOf(span, base));
  const isRight =
    message.statusCode === question.status &&
    body.length >= question.bodyBytes &&
    (wanted.length > 1 || body.length === question.bodyBytes) &&
    wanted.every((bytes) => body.includes(bytes));
  if (!isRight)
    throw new BenchFault(`${file.path} ${JSON.stringify(lines)}: status ${message.statusCode}, ${body.length} bytes`);
}

function spansOf(range: string): Span[] {
  return [...range.matchAll(/(\d+)-(\d+)/g)].map(([, first, last]) => ({
    start: Number(first),
    end: Number(last) + 1,
  }));
}

function bytesOf({ start, end }: Span, base: number): Buffer {
  return periodicPiece(base + start, base + end);
}

/**
 * Requests one span of a file. Returns the milliseconds from the request to the last byte; the bytes are compared after
 * that. Throws `BenchFault` for a wrong status, length or byte.
 */
export async function timedGet(port: number, file: SampleFile, span: Span): Promise<number> {
  const startedAt = performance.now();
  const message = await ask(port, file, span, {});
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
  const ms = performance.now() - startedAt;
  await check(message, chunks, file, span);
  return ms;
}

async function check(
  message: IncomingMessage,
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>,
  file: SampleFile,
  span: Span | undefined,
): Promise<void> {
  const wanted = span ?? { start: 0, end: file.window.end - file.window.start };
  const what = `${file.path}${span === undefined ? '' : ` bytes ${span.start}-${span.end - 1}`}`;
  const status = span === undefined ? 200 : 206;
  if (message.statusCode !== status) {
    message.destroy();
    throw new BenchFault(`${what}: status ${message.statusCode}, not ${status}`);
  }
  let offset = file.window.start + wanted.start;
  for await (const chunk of chunks) {
    if (!isPeriodic(chunk, offset)) {
      throw new BenchFault(`${what}: wrong bytes after ${offset - file.window.start}`);
    }
    offset += chunk.length;
  }
  const end = offset - file.window.start;
  if (end !== wanted.end) throw new BenchFault(`${what}: ended at ${end}, not at ${wanted.end}`);
}

/** Closes the connections that the functions of this file have kept open. */
export function closeConnections(): void {
  agent.destroy();
  secureAgent.destroy();
}

function ask(
  port: number,
  file: SampleFile,
  span: Span | undefined,
  { isSecure = false, fields, method = 'GET' }: Asking,
): Promise<IncomingMessage> {
  const headers = { ...(span !== undefined && { range: `bytes=${span.start}-${span.end - 1}` }), ...fields };
  const place = { host: '127.0.0.1', port, path: file.path, headers, method };
  return new Promise((resolve, reject) => {
    const request = isSecure
      ? getSecurely({ ...place, agent: secureAgent }, resolve)
      : get({ ...place, agent }, resolve);
    request.on('error', reject);
  });
}
