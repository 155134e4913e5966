/** Node's own reader of requests, llhttp at its strictest, without a socket and in one tick. */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import type { Field, Fields } from '../../../src/http/fields.ts';

/** What a reader has made of some bytes. */
export interface StreamReading {
  readonly requests: readonly RequestReading[];
  /** What ended the reading, where something did. */
  readonly fault: string | undefined;
}

/** A request whose head has come; text is latin1, so that a character is a byte. */
export interface RequestReading {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  /** Names in lower case. */
  readonly fields: Fields;
  /** As much of it as came before the end of the bytes, or a fault. */
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

/** Nothing that is fuzzed here is longer. */
const maxHeaderSize = 1024 * 1024;

/** Reads all that is there, in the pieces in which it is given. */
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

/** Alternating names and values as field lines. */
function fieldsOf(raw: readonly string[]): Fields {
  const fields: Field[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) fields.push([(raw[at] ?? '').toLowerCase(), raw[at + 1] ?? '']);
  return fields;
}
