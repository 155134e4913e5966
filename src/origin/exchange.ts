/** One request on its way to an origin, and the response that comes back: callbacks of the connection in, promises out. */

import { type Field, type Fields, trimWhitespace } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { readFraming } from './framing.ts';
import type { Framing, OriginRequest, OriginResponse } from './origin.ts';
import { originError, type Stage } from './origin-error.ts';
import { type Flow, ReceivedBody } from './received-body.ts';
import { TlsTruncation } from './tls-closure.ts';
import { keptTrailers } from './trailers.ts';

/** Steers the connection that an exchange has got. */
export interface Control extends Flow {
  /** The field lines of the head that has arrived, names and values in turn. */
  readonly rawHeaders?: unknown;
  /** Those of the trailer section, once the body has ended. */
  readonly rawTrailers?: unknown;
}

/** What carries an exchange. */
export interface Carrier {
  readonly isTls: boolean;
  /** As Via writes it (RFC 9110 §7.6.3). */
  readonly version: '1.1' | '2';
}

/** An origin that sends more interim responses than this for one request never means to answer it. */
const maxInterims = 32;

/**
 * The callbacks have the names and the order that undici's dispatch gives them: a start, heads (interim ones first), data,
 * and an end or an error. The promise settles with the final head; afterwards the body tells what becomes of the rest.
 */
export class Exchange {
  /** Resolves with the final head, or rejects with a `ProxyError`. */
  readonly response: Promise<OriginResponse>;
  readonly #request: OriginRequest;
  readonly #carrier: Carrier;
  readonly #onOver: () => void;
  readonly #settle: PromiseWithResolvers<OriginResponse>;
  readonly #onAbort = (): void => this.#abort(goneError(this.#request.signal));
  #stage: Stage = 'connecting';
  #interims = 0;
  #framing: Framing | undefined;
  #control: Control | undefined;
  #body: ReceivedBody | undefined;
  /** Why the exchange has failed. */
  #error: ProxyError | undefined;

  /** `onOver` is called when nothing of it is under way any more; perhaps more than once, and at once for an aborted request. */
  constructor(request: OriginRequest, carrier: Carrier, onOver: () => void = () => {}) {
    this.#request = request;
    this.#carrier = carrier;
    this.#onOver = onOver;
    this.#settle = Promise.withResolvers();
    this.response = this.#settle.promise;
    request.signal.addEventListener('abort', this.#onAbort, { once: true });
    if (request.signal.aborted) this.#onAbort();
  }

  /** A connection is there and the request is about to be written to it. */
  onRequestStart(control: Control): void {
    this.#control = control;
    this.#stage = 'waiting';
    if (this.#error !== undefined) control.abort(this.#error);
  }

  /** A head has arrived, interim or final. */
  onResponseStart(control: Control, status: number): void {
    const fields = fieldsOf(control.rawHeaders);
    if (status >= 200) this.#start(status, fields);
    else this.#inform(status, fields);
  }

  onResponseData(_control: Control, chunk: Uint8Array): void {
    this.#body?.push(chunk);
  }

  onResponseEnd(control: Control): void {
    this.#leave();
    this.#body?.end(keptTrailers(fieldsOf(control.rawTrailers)));
  }

  onResponseError(_control: Control | null, error: unknown): void {
    // Any other framing tells by itself what is missing.
    const isEnd = error instanceof TlsTruncation && this.#framing === 'close';
    const detail = 'no close_notify (RFC 9112 §9.8); origin.closeDelimited "relay" passes such responses on';
    if (isEnd) this.#fail(new ProxyError('origin_tls_truncated', { cause: error, detail }));
    else this.#fail(originError(error, this.#stage, this.#carrier.isTls));
  }

  #inform(status: number, fields: Fields): void {
    this.#interims++;
    // No upgrade was asked for, and a status below 100 has no class (RFC 9110 §15).
    if (status < 100 || status === 101) this.#abort(illFramed(`status ${status}`));
    else if (this.#interims > maxInterims) this.#abort(illFramed(`more than ${maxInterims} interim responses`));
    // A 100 says that a body may be sent, which was not asked (RFC 9110 §15.2.1).
    else if (status > 100) this.#request.onInterim?.({ status, fields });
  }

  #start(status: number, fields: Fields): void {
    const { version } = this.#carrier;
    const reading = readFraming(this.#request.method, status, fields, version);
    if (status > 599) this.#abort(illFramed(`status ${status}`));
    else if (reading.kind === 'ill_framed') this.#abort(illFramed(reading.reason));
    else {
      const { framing, sizeBytes } = reading;
      this.#stage = 'reading';
      this.#framing = framing;
      this.#body = new ReceivedBody(sizeBytes, {
        pause: () => this.#control?.pause(),
        resume: () => this.#control?.resume(),
        abort: (reason) => this.#abort(reason),
      });
      // The parser does not tell the minor version: an HTTP/1.0 origin is written down as 1.1 too.
      this.#settle.resolve({ status, fields, version, framing, sizeBytes, body: this.#body });
    }
  }

  /** Fails the exchange at once, and gives up its connection or, without one yet, its place in the queue. */
  #abort(reason: ProxyError): void {
    this.#fail(reason);
    this.#control?.abort(reason);
  }

  #fail(error: ProxyError): void {
    if (this.#error !== undefined) return;
    this.#error = error;
    this.#leave();
    this.#body?.fail(error);
    this.#settle.reject(error);
  }

  #leave(): void {
    this.#request.signal.removeEventListener('abort', this.#onAbort);
    this.#request.body?.close();
    this.#onOver();
  }
}

/** A reason that is already a `ProxyError` is kept: whoever gave up a fill says why. Any other abort is a client that left. */
export function goneError(signal: AbortSignal): ProxyError {
  const reason: unknown = signal.reason;
  return reason instanceof ProxyError ? reason : new ProxyError('client_gone', { cause: reason });
}

function illFramed(detail: string): ProxyError {
  return new ProxyError('origin_ill_framed', { detail });
}

/**
 * Raw names and values in turn, as bytes. Decoding as latin1 keeps each byte (RFC 9110 §5.5, obs-text); the parser leaves the
 * white space behind a value, which is no part of it (RFC 9112 §5.1).
 */
function fieldsOf(rawHeaders: unknown): Fields {
  const fields: Field[] = [];
  if (!Array.isArray(rawHeaders)) return fields;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    fields.push([latin1(rawHeaders[at]).toLowerCase(), trimWhitespace(latin1(rawHeaders[at + 1]))]);
  }
  return fields;
}

function latin1(bytes: unknown): string {
  return Buffer.isBuffer(bytes) ? bytes.toString('latin1') : String(bytes);
}
