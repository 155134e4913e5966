/** What happens to one request, noted down on its way and told when it is over. */

import type { Answer } from '../cache/answer.ts';
import type { Clock } from '../cache/clock.ts';
import { fieldValue } from '../http/fields.ts';
import type { Delivery, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { type ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Emit, RequestEvent } from '../telemetry/events.ts';
import { errorResponse } from './problem.ts';

/** One request on its road. */
export class Journey {
  /** The name of the route, once there is one. */
  route: string | undefined;
  /** What the cache said, once it did. */
  answer: Answer | undefined;
  readonly #request: ProxyRequest;
  readonly #clock: Clock;
  readonly #emit: Emit;

  constructor(request: ProxyRequest, clock: Clock, emit: Emit) {
    this.#request = request;
    this.#clock = clock;
    this.#emit = emit;
  }

  /** The response for the listener, which tells the end of the journey. */
  arrive(response: ProxyResponse, error?: ProxyError): ProxyResponse {
    const headAt = this.#clock.now();
    return { ...response, onDelivered: (end) => this.#emit(this.#event(response.status, headAt, end, error)) };
  }

  /** The response for a request that failed. */
  fail(thrown: unknown): ProxyResponse {
    const error = toProxyError(thrown);
    return this.arrive(errorResponse(error), error);
  }

  #event(status: number, headAt: number, end: Delivery, failure: ProxyError | undefined): RequestEvent {
    const { method, scheme, authority, target, version, peer, fields, receivedAt } = this.#request;
    const error = failure ?? end.error;
    return {
      kind: 'request',
      method,
      scheme,
      authority,
      target,
      version,
      peer: peer.address,
      route: this.route,
      status,
      range: fieldValue(fields, 'range'),
      bytesSent: end.bytesSent,
      complete: end.complete,
      outcome: this.answer?.outcome ?? 'none',
      reason: this.answer?.reason,
      collapsed: this.answer?.collapsed ?? false,
      originBytes: this.answer?.originBytes() ?? 0,
      headMs: headAt - receivedAt,
      durationMs: this.#clock.now() - receivedAt,
      error: error?.code,
      errorDetail: error?.detail,
    };
  }
}
