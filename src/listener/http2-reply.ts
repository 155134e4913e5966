/** The response of a precedent, on its way over HTTP/2. */

import type { OutgoingHttpHeaders } from 'node:http2';
import type { Fields } from '../http/fields.ts';
import type { PrecedentResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { type Http2Lines, http2Head, http2Lines } from './http2-head.ts';
import type { Pace, Pacer } from './pace.ts';

/** The lines of fields that are the same in many responses. */
const keptLines = new WeakMap<Fields, Http2Lines>();

/** Its response is told what became of it exactly once, by `finish`. */
export class Http2Reply {
  readonly #response: PrecedentResponse;
  #error: ProxyError | undefined;
  /** Ends the watching over the client, where it has begun. */
  #release: (() => void) | undefined;

  constructor(response: PrecedentResponse) {
    this.#response = response;
  }

  /** None for HEAD. */
  get chunks(): readonly Uint8Array[] {
    return this.#response.chunks;
  }

  /** Throws where HTTP/2 cannot write the fields. `now` is in epoch milliseconds. */
  head(now: number): Http2Lines | OutgoingHttpHeaders {
    const { status, fields, contentRange, sizeBytes } = this.#response;
    const lines = keptLines.get(fields) ?? keepLines(fields);
    return http2Head({ status, lines, contentRange, contentLength: sizeBytes, now });
  }

  /** Sees to it that the client takes it, from now on. */
  watch(pace: Pace, client: Pacer & { breakOff(): void }): void {
    this.#release ??= pace.watch(client, (error) => {
      this.#error ??= error;
      client.breakOff();
    });
  }

  /** It is over: the client was sent all of it or not, perhaps because of an error of ours. */
  finish(isWhole: boolean, error?: ProxyError): void {
    this.#release?.();
    this.#error ??= error;
    const response = this.#response;
    const bytesSent = this.chunks.length === 0 ? 0 : response.sizeBytes;
    if (isWhole && this.#error === undefined) response.onDelivered({ bytesSent, complete: true });
    else response.onDelivered({ bytesSent, complete: false, error: this.#error ?? new ProxyError('client_gone') });
  }
}

function keepLines(fields: Fields): Http2Lines {
  const lines = http2Lines(fields);
  keptLines.set(fields, lines);
  return lines;
}
