/** Records what happens to one request, and emits it as one event when the response is over. */

import type { Answer } from '../cache/answer.ts';
import type { Clock } from '../http/clock.ts';
import { fieldValue } from '../http/fields.ts';
import type { Delivery, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { type ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Emit, RequestEvent } from '../telemetry/events.ts';
import { errorResponse, presentProblem } from './problem.ts';

/** The limits of one request. One object: functions made for each request would keep it alive until the next full collection. */
export interface JourneyAllowance {
  /** Adds the fields that tell the client its limits, before the response is presented. */
  present(response: ProxyResponse): ProxyResponse;
  /** Called when the response is over. */
  leave(delivery: Delivery): void;
}

/** Returns responses as their clients get them. */
interface Presenter {
  present(request: ProxyRequest, response: ProxyResponse): ProxyResponse;
}

/** The journey of one request. */
export class Journey {
  /** The answer of the cache; undefined until there is one. */
  answer: Answer | undefined;
  /** The address of the client: as a trusted proxy states it, else the peer's; undefined until it is known. */
  client: string | undefined;
  /** The user that the client's credentials belong to. */
  user: string | undefined;
  /** The key of its responses; undefined until the cache is asked. */
  key: string | undefined;
  /** The limits of the request; undefined until it is admitted. */
  allowance: JourneyAllowance | undefined;
  #route: string | undefined;
  #presenter: Presenter | undefined;
  #reportedBytes = 0;
  /** The request that responses are presented for. */
  #presented: ProxyRequest;
  readonly #request: ProxyRequest;
  readonly #clock: Clock;
  readonly #emit: Emit;

  constructor(request: ProxyRequest, clock: Clock, emit: Emit) {
    this.#request = request;
    this.#presented = request;
    this.#clock = clock;
    this.#emit = emit;
  }

  /** Notes the route, how its responses are presented, errors included, and the request that they are presented for. */
  enter(route: string, presenter: Presenter, request: ProxyRequest): void {
    this.#route = route;
    this.#presenter = presenter;
    this.#presented = request;
  }

  /** Returns the response for the listener. Its `onDelivered` ends the journey. */
  respond(response: ProxyResponse, error?: ProxyError): ProxyResponse {
    const headAt = this.#clock.now();
    const limited = this.allowance?.present(response) ?? response;
    const presented = this.#presenter?.present(this.#presented, limited) ?? presentProblem(this.#request, limited);
    const onDelivered = (end: Delivery): void => {
      this.allowance?.leave(end);
      this.#emit(this.#event(presented, headAt, end, error));
    };
    return { ...presented, onProgress: (bytes) => this.#report(bytes), onDelivered };
  }

  /** Returns the response for a request that failed. */
  respondWithError(thrown: unknown): ProxyResponse {
    const error = toProxyError(thrown);
    return this.respond(errorResponse(error), error);
  }

  #report(bytes: number): void {
    this.#reportedBytes += bytes;
    this.#emit({ kind: 'progress', what: 'sent', route: this.#route, bytes });
  }

  #event(sent: ProxyResponse, headAt: number, end: Delivery, error = end.error): RequestEvent {
    const { method, scheme, authority, target, version, peer, fields, receivedAt } = this.#request;
    const { answer, client } = this;
    return {
      kind: 'request',
      method,
      scheme,
      authority,
      target,
      version,
      peer: peer.address,
      client: client === peer.address ? undefined : client,
      user: this.user,
      route: this.#route,
      key: this.key,
      status: sent.status,
      range: fieldValue(fields, 'range'),
      bytesSent: end.bytesSent,
      reportedBytes: this.#reportedBytes,
      complete: end.complete,
      isMultipart: isMultipart(sent),
      outcome: answer?.outcome ?? 'none',
      reason: answer?.reason,
      apartBy: answer?.apartBy,
      collapsed: answer?.collapsed ?? false,
      originBytes: answer?.originBytes() ?? 0,
      headMs: headAt - receivedAt,
      durationMs: this.#clock.now() - receivedAt,
      error: error?.code,
      errorDetail: error?.detail,
    };
  }
}

/** Whether a response carries several parts of a representation. */
function isMultipart({ status, fields }: Pick<ProxyResponse, 'status' | 'fields'>): boolean {
  return (
    status === 206 && fieldValue(fields, 'content-type')?.toLowerCase().startsWith('multipart/byteranges') === true
  );
}
