/** Notes what happens to one request on its way, and emits it as one event when the response is over. */

import type { Answer, AnswerFacts } from '../cache/answer.ts';
import type { Clock } from '../http/clock.ts';
import { fieldValue } from '../http/fields.ts';
import type { Delivery, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { type ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { Emit, RequestEvent } from '../telemetry/events.ts';
import { errorResponse, presentProblem } from './problem.ts';

/** What limits a request. One object: functions made for each request would keep it alive until the next full collection. */
export interface JourneyAllowance {
  /** Gives the response what the client is told of its limits, before it is presented. */
  present(response: ProxyResponse): ProxyResponse;
  /** The response is over. */
  leave(delivery: Delivery): void;
}

/** One request on its road. */
export class Journey {
  /** What the cache said, once it did. */
  answer: Answer | undefined;
  /** The address of the client, where a proxy has told it; the peer's without that. */
  client: string | undefined;
  /** The name that the client's credentials belong to. */
  user: string | undefined;
  /** What limits the request, once it was let in. */
  allowance: JourneyAllowance | undefined;
  #route: string | undefined;
  #present: ((response: ProxyResponse) => ProxyResponse) | undefined;
  readonly #request: ProxyRequest;
  readonly #clock: Clock;
  readonly #emit: Emit;

  constructor(request: ProxyRequest, clock: Clock, emit: Emit) {
    this.#request = request;
    this.#clock = clock;
    this.#emit = emit;
  }

  /** The route is known, and what its responses are given on their way out, whatever comes. */
  enter(route: string, present: (response: ProxyResponse) => ProxyResponse): void {
    this.#route = route;
    this.#present = present;
  }

  /** The response for the listener, which tells the end of the journey. */
  arrive(response: ProxyResponse, error?: ProxyError): ProxyResponse {
    const headAt = this.#clock.now();
    const limited = this.allowance?.present(response) ?? response;
    const presented = this.#present === undefined ? presentProblem(this.#request, limited) : this.#present(limited);
    const onDelivered = (end: Delivery): void => {
      this.allowance?.leave(end);
      this.#emit(this.#event(presented, headAt, end, error));
    };
    return { ...presented, onDelivered };
  }

  /** The response for a request that failed. */
  fail(thrown: unknown): ProxyResponse {
    const error = toProxyError(thrown);
    return this.arrive(errorResponse(error), error);
  }

  #event(sent: ProxyResponse, headAt: number, end: Delivery, failure: ProxyError | undefined): RequestEvent {
    const { peer, fields, receivedAt } = this.#request;
    const course = {
      peer: peer.address,
      client: this.client,
      user: this.user,
      route: this.#route,
      range: fieldValue(fields, 'range'),
      status: sent.status,
      isMultipart: isMultipart(sent),
      answer: this.answer,
      receivedAt,
      headAt,
      endedAt: this.#clock.now(),
    };
    return requestEvent(this.#request, course, end, failure);
  }
}

/** What a request says before its fields. */
type RequestLine = Pick<ProxyRequest, 'method' | 'scheme' | 'authority' | 'target' | 'version'>;

/** What happened to it besides. Instants are in epoch milliseconds. */
interface RequestCourse {
  /** The address at the other end of the connection. */
  readonly peer: string;
  /** The address of the client; undefined where it is not known apart from the peer. */
  readonly client: string | undefined;
  readonly user: string | undefined;
  readonly route: string | undefined;
  readonly range: string | undefined;
  readonly status: number;
  readonly isMultipart: boolean;
  readonly answer: Pick<AnswerFacts, 'outcome' | 'reason' | 'apartBy' | 'collapsed' | 'originBytes'> | undefined;
  readonly receivedAt: number;
  readonly headAt: number;
  readonly endedAt: number;
}

/** Whether a response says of itself that it is several parts of a representation. */
function isMultipart({ status, fields }: Pick<ProxyResponse, 'status' | 'fields'>): boolean {
  return (
    status === 206 && fieldValue(fields, 'content-type')?.toLowerCase().startsWith('multipart/byteranges') === true
  );
}

/** The event. */
function requestEvent(
  { method, scheme, authority, target, version }: RequestLine,
  { peer, client, user, route, range, status, isMultipart, answer, receivedAt, headAt, endedAt }: RequestCourse,
  { bytesSent, complete, error: broken }: Delivery,
  error: ProxyError | undefined = broken,
): RequestEvent {
  return {
    kind: 'request',
    method,
    scheme,
    authority,
    target,
    version,
    peer,
    client: client === peer ? undefined : client,
    user,
    route,
    status,
    range,
    bytesSent,
    complete,
    isMultipart,
    outcome: answer?.outcome ?? 'none',
    reason: answer?.reason,
    apartBy: answer?.apartBy,
    collapsed: answer?.collapsed ?? false,
    originBytes: answer?.originBytes() ?? 0,
    headMs: headAt - receivedAt,
    durationMs: endedAt - receivedAt,
    error: error?.code,
    errorDetail: error?.detail,
  };
}
