/** The steps of a request, in order: from the request that a listener has received to the response that it sends. */

import type { Answer } from './cache/answer.ts';
import { boundByResponse } from './cache/answers/pass.ts';
import type { Cache } from './cache/cache.ts';
import { deliver, withRetries } from './delivery/deliver.ts';
import { Journey } from './delivery/journey.ts';
import { createDeliveryContexts } from './delivery/selection.ts';
import { type AdmissionContext, type Admitted, admit } from './guard/admit.ts';
import { forwardedResponseFields } from './guard/fields/forwarding.ts';
import { answerPurge } from './guard/purge.ts';
import { createHitRoad } from './hit.ts';
import type { Clock } from './http/clock.ts';
import { memoizeByObject } from './http/collections.ts';
import type { Fields } from './http/fields.ts';
import type { Handler, ProxyRequest, ProxyResponse } from './http/message.ts';
import type { RoutePrefetch } from './prefetch/prefetch.ts';
import type { Route } from './routing/router.ts';
import type { Emit } from './telemetry/events.ts';

/** The parts that the steps use. */
export interface ProxyContext extends AdmissionContext {
  readonly cache: Cache;
  readonly clock: Clock;
  readonly emit: Emit;
  /** Returns `size` random bytes. */
  readonly random: (size: number) => Uint8Array;
  /** The prefetches of the routes that have any. */
  readonly prefetchOf: ReadonlyMap<Route, RoutePrefetch>;
}

/** Creates the handler that listeners call. It answers in the same tick when the response is in memory. */
export function createProxy(context: ProxyContext): Handler {
  const { clock, random, pseudonym } = context;
  const forward = memoizeByObject((fields: Fields) => forwardedResponseFields(fields, '1.1', pseudonym));
  const deliveryOf = createDeliveryContexts({ forward, clock, random });
  const answer = (request: ProxyRequest): ProxyResponse | Promise<ProxyResponse> => {
    const journey = new Journey(request, clock, context.emit);
    const go = (admitted: Admitted) => travel(context, admitted, journey, deliveryOf);
    try {
      const response = whenReady(admit(request, context, journey), go);
      if (!(response instanceof Promise)) return journey.respond(response);
      return response.then((later) => journey.respond(later)).catch((thrown) => journey.respondWithError(thrown));
    } catch (thrown) {
      return journey.respondWithError(thrown);
    }
  };
  return Object.assign(answer, { hit: createHitRoad({ ...context, forward }) });
}

function travel(
  context: ProxyContext,
  admitted: Admitted,
  journey: Journey,
  deliveryOf: ReturnType<typeof createDeliveryContexts>,
): ProxyResponse | Promise<ProxyResponse> {
  if (admitted.kind === 'answered') return admitted.response;
  if (admitted.kind === 'purge') return answerPurge(admitted.purge, context);
  const { cache, pseudonym } = context;
  const { route, inquiry } = admitted;
  const delivery = deliveryOf(route);
  const receive = (answer: Answer): ProxyResponse | Promise<ProxyResponse> => {
    journey.answer = answer;
    if (route.prefetch !== undefined) context.prefetchOf.get(route)?.noteAnswer(inquiry, answer);
    const response = deliver(inquiry.request, answer, delivery);
    if (answer.kind === 'representation') return response;
    const { version } = boundByResponse(inquiry, answer.relay.response);
    const forward = ({ fields, status }: ProxyResponse) => forwardedResponseFields(fields, version, pseudonym, status);
    return whenReady(response, (relayed) => ({ ...relayed, fields: forward(relayed) }));
  };
  const attempt = () => whenReady(cache.answer(inquiry), receive);
  const passBy = () => cache.passUnreadable(inquiry).then(receive);
  // In the second attempt damaged or outdated bytes count as absent. Bytes that only cannot be read now need `passUnreadable`.
  return withRetries(attempt(), inquiry.request.body === undefined ? [attempt, passBy] : []);
}

/** Calls `next` with the value: in the same tick unless the value is a promise. */
function whenReady<T, R>(value: T | Promise<T>, next: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(next) : next(value);
}
