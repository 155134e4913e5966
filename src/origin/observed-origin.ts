/**
 * Observes an origin: its exchanges are traced, and emit an event when they begin and when they are over. An exchange is over when
 * its body has ended or was closed.
 */

import type { Fields } from '../http/fields.ts';
import type { BodyObserver } from '../http/observed-body.ts';
import { type ProxyError, toProxyError } from '../http/proxy-error.ts';
import { type Emit, progressStepBytes, type StartEvent } from '../telemetry/events.ts';
import { type Origin, type OriginRequest, type OriginResponse, observedResponse } from './origin.ts';

/** The outcome of an exchange. */
export interface ExchangeEnd {
  /** Undefined where no response came. */
  readonly status: number | undefined;
  readonly receivedBytes: number;
  readonly error: ProxyError | undefined;
}

/** The trace of one exchange. Does not throw. */
export interface ExchangeTrace {
  /** The fields to send the request with: they carry the trace. */
  readonly fields: Fields;
  /** Runs an action as a part of the trace. */
  run<Result>(action: () => Result): Result;
  end(end: ExchangeEnd): void;
}

/** Traces exchanges. */
export interface ExchangeTracer {
  /** Undefined where an exchange cannot be traced. */
  begin(request: OriginRequest, origin: URL): ExchangeTrace | undefined;
}

/** The options of an observed origin. */
export interface ObservedOriginOptions {
  readonly route: string;
  readonly url: URL;
  readonly emit: Emit;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  /** Undefined where nothing is traced. */
  readonly tracer?: ExchangeTracer | undefined;
}

const begun: StartEvent = { kind: 'begun', what: 'exchange' };

/** Wraps an origin to observe its exchanges. */
export function createObservedOrigin(origin: Origin, options: ObservedOriginOptions): Origin {
  const { url, emit, tracer } = options;
  const name = url.protocol === 'unix:' ? `unix:${url.pathname}` : url.origin;
  return {
    async fetch(request) {
      const trace = tracer?.begin(request, url);
      const sent = trace === undefined ? request : { ...request, fields: trace.fields };
      emit(begun);
      const exchange = new ObservedExchange(name, sent, options, trace);
      try {
        const sending = trace === undefined ? origin.fetch(sent) : trace.run(() => origin.fetch(sent));
        return exchange.receive(await sending);
      } catch (thrown) {
        exchange.end(toProxyError(thrown));
        throw thrown;
      }
    },
    close: () => origin.close(),
  };
}

class ObservedExchange implements BodyObserver {
  readonly #origin: string;
  readonly #request: OriginRequest;
  readonly #options: ObservedOriginOptions;
  readonly #trace: ExchangeTrace | undefined;
  readonly #startedAt: number;
  #headMs: number | undefined;
  #status: number | undefined;
  #receivedBytes = 0;
  #reportedBytes = 0;
  #isOver = false;

  constructor(
    origin: string,
    request: OriginRequest,
    options: ObservedOriginOptions,
    trace: ExchangeTrace | undefined,
  ) {
    this.#origin = origin;
    this.#request = request;
    this.#options = options;
    this.#trace = trace;
    this.#startedAt = options.now();
  }

  receive(response: OriginResponse): OriginResponse {
    this.#headMs = this.#options.now() - this.#startedAt;
    this.#status = response.status;
    if (response.framing === 'none') {
      this.end(undefined);
      return response;
    }
    return observedResponse(response, this);
  }

  onChunk({ length }: Uint8Array): undefined {
    this.#receivedBytes += length;
    const bytes = this.#receivedBytes - this.#reportedBytes;
    if (bytes <= progressStepBytes) return;
    this.#reportedBytes = this.#receivedBytes;
    const { route, emit } = this.#options;
    emit({ kind: 'progress', what: 'received', route, bytes });
  }

  onEnd(_isWhole: boolean, thrown: unknown): void {
    this.end(thrown === undefined ? undefined : toProxyError(thrown));
  }

  end(error: ProxyError | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { route, emit, now } = this.#options;
    const end = { status: this.#status, receivedBytes: this.#receivedBytes, error };
    this.#trace?.end(end);
    emit({
      kind: 'exchange',
      route,
      origin: this.#origin,
      method: this.#request.method,
      status: end.status,
      isResent: this.#request.isResent === true,
      receivedBytes: end.receivedBytes,
      reportedBytes: this.#reportedBytes,
      headMs: this.#headMs,
      durationMs: now() - this.#startedAt,
      isFailed: error?.source === 'origin',
      error: error?.code,
      errorDetail: error?.detail,
    });
  }
}
