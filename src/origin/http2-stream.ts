/** One stream of an HTTP/2 connection, told to its exchange. */

import { type ClientHttp2Stream, constants, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from 'node:http2';
import { ProxyError } from '../http/proxy-error.ts';
import type { Control, Exchange } from './exchange.ts';

/** What a stream needs of its connection. */
export interface StreamSurroundings {
  readonly headersTimeoutMs: number;
  readonly bodyTimeoutMs: number;
  /** Names what ended a stream before its response was whole. */
  nameError(stream: ClientHttp2Stream, thrown: unknown, isReading: boolean): ProxyError;
  /** Nothing has come for as long as something may take. */
  onSilence(): void;
}

type Head = IncomingHttpHeaders & IncomingHttpStatusHeader;

/** Tells the exchange each thing that happens to the stream, and one end. */
export class OriginStream {
  readonly #stream: ClientHttp2Stream;
  readonly #exchange: Exchange;
  readonly #surroundings: StreamSurroundings;
  readonly #isWhole: () => boolean;
  #thrown: unknown;
  #isReading = false;
  #isOver = false;
  readonly #control: { -readonly [Name in keyof Control]: Control[Name] } = {
    pause: () => this.#pause(),
    resume: () => this.#resume(),
    abort: () => this.#cut(),
  };

  constructor(stream: ClientHttp2Stream, exchange: Exchange, surroundings: StreamSurroundings) {
    this.#stream = stream;
    this.#exchange = exchange;
    this.#surroundings = surroundings;
    this.#isWhole = watchEnd(stream);
    stream.on('error', (error) => {
      this.#thrown ??= error;
    });
    const onHead = (head: Head, _flags: number, lines?: readonly string[]) => this.#receive(head, lines ?? []);
    stream.on('headers', onHead);
    stream.on('response', onHead);
    stream.on('trailers', (_head: IncomingHttpHeaders, _flags: number, lines?: readonly string[]) => {
      this.#control.rawTrailers = lines;
    });
    stream.on('end', () => this.#end());
    stream.on('close', () => this.fail(surroundings.nameError(stream, this.#thrown, this.#isReading)));
    stream.on('timeout', () => this.#onTimeout());
    stream.setTimeout(surroundings.headersTimeoutMs);
    exchange.onRequestStart(this.#control);
  }

  /** Ends it: the response, if there is one, is not whole. */
  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#exchange.onResponseError(this.#control, error);
    this.#cut();
  }

  #receive(head: Head, lines: readonly string[]): void {
    if (this.#isOver) return;
    const status = head[':status'] ?? 0;
    if (this.#isReading) {
      this.fail(new ProxyError('origin_ill_framed', { detail: 'a head behind the final one' }));
      return;
    }
    this.#control.rawHeaders = withoutPseudoFields(lines);
    this.#isReading = status >= 200;
    const { bodyTimeoutMs, headersTimeoutMs } = this.#surroundings;
    this.#stream.setTimeout(this.#isReading ? bodyTimeoutMs : headersTimeoutMs);
    if (this.#isReading) this.#stream.on('data', (chunk: Uint8Array) => this.#push(chunk));
    this.#exchange.onResponseStart(this.#control, status);
  }

  #push(chunk: Uint8Array): void {
    if (!this.#isOver) this.#exchange.onResponseData(this.#control, chunk);
  }

  /** A client that takes its time over the body of its request is no silence of the origin, which has taken all that came. */
  #onTimeout(): void {
    const { headersTimeoutMs } = this.#surroundings;
    const { writableEnded, writableLength } = this.#stream;
    if (!this.#isReading && !writableEnded && writableLength === 0) {
      this.#stream.setTimeout(headersTimeoutMs);
      return;
    }
    this.#surroundings.onSilence();
    this.fail(new ProxyError('origin_timeout', { detail: 'the stream was silent for too long' }));
  }

  /** A stream that was reset ends too; its close tells of that. */
  #end(): void {
    if (this.#isOver || !this.#isReading || !this.#isWhole()) return;
    this.#isOver = true;
    this.#exchange.onResponseEnd(this.#control);
    // An answer that needs no more of the request's body (RFC 9113 §8.1).
    if (!this.#stream.writableEnded) this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  /** What nobody reads is not taken for silence: the origin is held back (RFC 9113 §5.2). */
  #pause(): void {
    this.#stream.pause();
    this.#stream.setTimeout(0);
  }

  #resume(): void {
    if (this.#isOver) return;
    this.#stream.setTimeout(this.#surroundings.bodyTimeoutMs);
    this.#stream.resume();
  }

  /** Resets the stream, not the connection. What is left of it in memory goes at once. */
  #cut(): void {
    this.#isOver = true;
    if (!this.#stream.closed) this.#stream.close(constants.NGHTTP2_CANCEL);
    this.#stream.destroy();
  }
}

/**
 * Node ends a stream that was reset with NO_ERROR as it ends one with END_STREAM, and tells nobody which it was. Only the order
 * does: a reset closes the stream before its end is put behind what was received, END_STREAM does not.
 */
function watchEnd(stream: ClientHttp2Stream): () => boolean {
  let isWhole = false;
  const push = stream.push;
  const watching = (chunk: unknown, encoding?: BufferEncoding) => {
    if (chunk === null && !stream.closed && !stream.destroyed) isWhole = true;
    return push.call(stream, chunk, encoding);
  };
  stream.push = watching;
  return () => isWhole;
}

/** Names and values in turn, those that begin with a colon left out. */
function withoutPseudoFields(lines: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at + 1 < lines.length; at += 2) {
    const name = lines[at] ?? '';
    if (!name.startsWith(':')) kept.push(name, lines[at + 1] ?? '');
  }
  return kept;
}
