/** Node's request reader (llhttp, strict mode), without a socket and in one tick. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import type { Field, Fields } from '../../../src/http/fields.ts';

/** The result of reading some bytes. */
export interface StreamReading {
  readonly requests: readonly RequestReading[];
  /** The error that ended the reading, if any. */
  readonly fault: string | undefined;
}

/** A request whose head is complete. Text is latin1, so that a character is a byte. */
export interface RequestReading {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  /** Names in lower case. */
  readonly fields: Fields;
  /** The part of the body before the end of the bytes or a fault. */
  readonly body: string;
  readonly isComplete: boolean;
  readonly trailers: Fields;
}

class Wire extends Duplex {
  override _read(): void {}

  override _write(_chunk: unknown, _encoding: unknown, callback: () => void): void {
    callback();
  }
}

/** Larger than any fuzzed input. */
const maxHeaderSize = 1024 * 1024;

/** Reads bytes in these pieces. */
export function readWithLlhttp(pieces: readonly Buffer[]): StreamReading {
  const messages: IncomingMessage[] = [];
  let fault: string | undefined;
  const server = createServer({ insecureHTTPParser: false, requireHostHeader: false, maxHeaderSize });
  server.maxHeadersCount = 0;
  const take = (message: IncomingMessage, response: ServerResponse): void => {
    messages.push(message);
    response.on('error', () => {});
  };
  server.on('request', take);
  server.on('checkContinue', take);
  server.on('checkExpectation', take);
  server.on('clientError', (error: Error & { code?: string }) => {
    fault ??= error.code ?? error.message;
  });
  const wire = new Wire();
  wire.on('error', () => {});
  server.emit('connection', wire);
  for (const piece of pieces) if (fault === undefined) wire.emit('data', piece);
  const requests = messages.map(readMessage);
  wire.destroy();
  return { requests, fault };
}

function readMessage(message: IncomingMessage): RequestReading {
  return {
    method: message.method ?? '',
    target: message.url ?? '',
    version: message.httpVersion,
    fields: fieldsOf(message.rawHeaders),
    body: bodyOf(message),
    isComplete: message.complete,
    trailers: fieldsOf(message.rawTrailers),
  };
}

function bodyOf(message: IncomingMessage): string {
  let body = '';
  for (;;) {
    const piece = message.read() as Buffer | null;
    if (piece === null) return body;
    body += piece.toString('latin1');
  }
}

/** Converts alternating names and values to field lines. */
function fieldsOf(raw: readonly string[]): Fields {
  const fields: Field[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) fields.push([(raw[at] ?? '').toLowerCase(), raw[at + 1] ?? '']);
  return fields;
}
