/** Writes a response to an HTTP/1 client. */

import type { ServerResponse } from 'node:http';
import { errorResponse } from '../delivery/problem.ts';
import type { Body, Delivery, ProxyResponse } from '../http/message.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Exchange } from './exchange.ts';
import { headLines, reasonPhrase } from './response-head.ts';

interface Progress {
  bytesSent: number;
  error: ProxyError | undefined;
}

type StreamedBody = Extract<Body, { kind: 'stream' }>;

/**
 * Writes a response and sees to its end: the stream is closed and `onDelivered` called exactly once, whatever happens. A
 * response that cannot be written as it is becomes a 500. Never throws.
 */
export function respond(exchange: Exchange, response: ProxyResponse, now: () => number): void {
  const progress: Progress = { bytesSent: 0, error: undefined };
  const { body } = response;
  exchange.whenSettled((isWhole) => {
    if (body.kind === 'stream') body.stream.close();
    response.onDelivered?.(deliveryOf(progress, isWhole));
  });
  if (exchange.isSettled) return;
  progress.error = writeHead(exchange, response, now());
  if (progress.error === undefined) writeBody(exchange, response, progress);
  else writeFailure(exchange, progress.error, now());
}

/** Returns why the head could not be written. */
function writeHead(exchange: Exchange, response: ProxyResponse, now: number): ProxyError | undefined {
  const fault = responseFault(response);
  if (fault !== undefined) return new ProxyError('internal', { detail: fault });
  if (response.closeConnection === true) exchange.finishConnection();
  const contentLength = lengthField(exchange.method, response);
  const isLast = response.closeConnection === true || exchange.isLast;
  try {
    const lines = headLines(response.fields, { contentLength, isLast, now });
    exchange.response.writeHead(response.status, reasonPhrase(response.status), lines);
    return undefined;
  } catch (thrown) {
    // Node refuses field values with characters that would split the response.
    return toProxyError(thrown);
  }
}

function responseFault({ status, body }: ProxyResponse): string | undefined {
  if (!Number.isInteger(status) || status < 200 || status > 999) return `a final response with status ${status}`;
  if (body.kind !== 'bytes') return undefined;
  const sizeBytes = body.chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return sizeBytes === body.sizeBytes ? undefined : `${sizeBytes} bytes of body where ${body.sizeBytes} were promised`;
}

/** RFC 9110 §8.6, RFC 9112 §6.3. HEAD says what GET would have, which a response without a body does not know. */
function lengthField(method: string, { status, body }: ProxyResponse): number | undefined {
  if (status === 204 || status === 304) return undefined;
  if (status === 205) return 0;
  if (body.kind === 'none') return method === 'HEAD' ? undefined : 0;
  return body.sizeBytes;
}

/** HEAD, 204 and 304 end with their head (RFC 9112 §6.3); 205 has nothing to say either (RFC 9110 §15.3.6). */
function hasContent(method: string, status: number): boolean {
  return method !== 'HEAD' && status !== 204 && status !== 205 && status !== 304;
}

function writeBody(exchange: Exchange, { status, body }: ProxyResponse, progress: Progress): void {
  if (!hasContent(exchange.method, status)) {
    exchange.response.end();
    return;
  }
  switch (body.kind) {
    case 'none':
      exchange.response.end();
      return;
    case 'bytes':
      progress.bytesSent = body.sizeBytes;
      writeChunks(exchange.response, body.chunks);
      return;
    case 'stream':
      if (body.sizeBytes === undefined && !exchange.response.chunkedEncoding) exchange.delimitByClose();
      void pump(exchange, body, progress);
      return;
  }
}

/** Node gathers the head and what is written in the same tick into one write, without a copy. */
function writeChunks(response: ServerResponse, chunks: readonly Uint8Array[]): void {
  const last = chunks.at(-1);
  for (const chunk of chunks.slice(0, -1)) response.write(chunk);
  if (last === undefined) response.end();
  else response.end(last);
}

async function pump(exchange: Exchange, body: StreamedBody, progress: Progress): Promise<void> {
  const { response } = exchange;
  // A head does not wait long for bytes to travel with.
  const flush = setImmediate(() => response.flushHeaders());
  try {
    for await (const chunk of body.stream) {
      clearImmediate(flush);
      if (exchange.isSettled) return;
      checkLength(progress.bytesSent + chunk.length, body, 'more');
      progress.bytesSent += chunk.length;
      if (chunk.length > 0 && !response.write(chunk)) await exchange.room();
      if (exchange.isSettled) return;
    }
    checkLength(progress.bytesSent, body, 'fewer');
    response.end();
  } catch (thrown) {
    progress.error = toProxyError(thrown);
    exchange.breakOff();
  } finally {
    clearImmediate(flush);
    body.stream.close();
  }
}

/** The client was promised a length: a body that gives another one must not look whole (RFC 9112 §8). */
function checkLength(bytes: number, { sizeBytes = bytes }: StreamedBody, which: 'more' | 'fewer'): void {
  if (which === 'more' ? bytes <= sizeBytes : bytes >= sizeBytes) return;
  throw new ProxyError('internal', { detail: `the body has ${which} bytes than the ${sizeBytes} that were promised` });
}

function writeFailure(exchange: Exchange, error: ProxyError, now: number): void {
  const { status, fields, body } = errorResponse(error);
  exchange.finishConnection();
  const contentLength = body.kind === 'none' ? 0 : body.sizeBytes;
  exchange.response.writeHead(status, reasonPhrase(status), headLines(fields, { contentLength, isLast: true, now }));
  writeChunks(exchange.response, body.kind === 'bytes' ? body.chunks : []);
}

function deliveryOf({ bytesSent, error }: Progress, isWhole: boolean): Delivery {
  if (error === undefined && isWhole) return { bytesSent, complete: true };
  return { bytesSent, complete: false, error: error ?? new ProxyError('client_gone') };
}
