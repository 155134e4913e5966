/** What is counted of requests. A hit costs a few additions: its numbers are looked up without putting labels together. */

import type { RequestEvent } from './events.ts';
import { metricKinds, secondsBounds } from './metric-kinds.ts';
import { type Count, Counts, type Spread, Spreads, type Tally } from './tally.ts';

/** Any other method is one of clients' own making, of which there may be any number. */
const methods: ReadonlyMap<string, number> = new Map(
  ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE'].map((method, at) => [method, at + 1]),
);
const maxMethods = 16;

/** Reasons come from a fixed set; should there be more than these, they are counted as one. */
const maxReasons = 100;

/** The numbers of one route and outcome. */
interface OutcomeNumbers {
  readonly head: Spread;
  readonly duration: Spread;
  /** By method and status. */
  readonly requests: Map<number, Count>;
}

/** What a request with a Range field got. */
type RangeResult = 'part' | 'multipart' | 'whole' | 'unsatisfiable' | 'other';

/** The numbers of one route. */
interface RouteNumbers {
  readonly sentBytes: Count;
  readonly ranges: Map<RangeResult, Count>;
  readonly outcomes: Map<RequestEvent['outcome'], OutcomeNumbers>;
}

/** Counts requests. */
export class RequestTallies {
  readonly #requests = new Counts(metricKinds.rangeway_requests_total);
  readonly #reasons = new Counts(metricKinds.rangeway_request_reasons_total);
  readonly #heads = new Spreads(metricKinds.rangeway_request_head_seconds, secondsBounds);
  readonly #durations = new Spreads(metricKinds.rangeway_request_duration_seconds, secondsBounds);
  readonly #errors = new Counts(metricKinds.rangeway_request_errors_total);
  readonly #ranges = new Counts(metricKinds.rangeway_range_requests_total);
  readonly #cut = new Counts(metricKinds.rangeway_cut_responses_total);
  readonly #collapsed = new Counts(metricKinds.rangeway_collapsed_requests_total);
  readonly #sent = new Counts(metricKinds.rangeway_sent_bytes_total);
  readonly #inFlightCounts = new Counts(metricKinds.rangeway_requests_in_flight);
  readonly #inFlight = this.#inFlightCounts.of();
  readonly #routes = new Map<string, RouteNumbers>();
  readonly #knownReasons = new Set<string>();

  readonly tallies: readonly Tally[] = [
    this.#requests,
    this.#inFlightCounts,
    this.#reasons,
    this.#heads,
    this.#durations,
    this.#errors,
    this.#ranges,
    this.#cut,
    this.#collapsed,
    this.#sent,
  ];

  begin(): void {
    this.#inFlight.value += 1;
  }

  end(event: RequestEvent): void {
    if (event.isAtOnce !== true) this.#inFlight.value -= 1;
    const { route = '', outcome, method, status } = event;
    const ofRoute = this.#routes.get(route) ?? this.#addRoute(route);
    const numbers = ofRoute.outcomes.get(outcome) ?? this.#addOutcome(ofRoute, route, outcome);
    const id = status * maxMethods + (methods.get(method) ?? 0);
    const requests = numbers.requests.get(id) ?? this.#addRequests(numbers, id, event);
    requests.value += 1;
    ofRoute.sentBytes.value += event.bytesSent;
    numbers.head.observe(event.headMs / 1000);
    numbers.duration.observe(event.durationMs / 1000);
    if (event.range !== undefined && method === 'GET') this.#noteRange(ofRoute, route, rangeResult(event));
    if (outcome !== 'hit' || event.error !== undefined || !event.complete) this.#noteTrouble(event, route);
  }

  #noteRange({ ranges }: RouteNumbers, route: string, result: RangeResult): void {
    const count = ranges.get(result) ?? this.#ranges.of(route, result);
    ranges.set(result, count);
    count.value += 1;
  }

  #noteTrouble({ outcome, reason, collapsed, error, complete }: RequestEvent, route: string): void {
    if (reason !== undefined) this.#reasons.of(route, outcome, this.#known(reason)).value += 1;
    if (collapsed) this.#collapsed.of(route).value += 1;
    if (error !== undefined) this.#errors.of(route, error).value += 1;
    if (!complete) this.#cut.of(route, error ?? 'internal').value += 1;
  }

  #known(reason: string): string {
    if (this.#knownReasons.size < maxReasons) this.#knownReasons.add(reason);
    return this.#knownReasons.has(reason) ? reason : 'other';
  }

  #addRoute(route: string): RouteNumbers {
    // Numbers that are there before something happens show how often it happens.
    this.#collapsed.of(route);
    const added: RouteNumbers = { sentBytes: this.#sent.of(route), ranges: new Map(), outcomes: new Map() };
    this.#routes.set(route, added);
    return added;
  }

  #addOutcome({ outcomes }: RouteNumbers, route: string, outcome: RequestEvent['outcome']): OutcomeNumbers {
    const added: OutcomeNumbers = {
      head: this.#heads.of(route, outcome),
      duration: this.#durations.of(route, outcome),
      requests: new Map(),
    };
    outcomes.set(outcome, added);
    return added;
  }

  #addRequests(numbers: OutcomeNumbers, id: number, event: RequestEvent): Count {
    const { route = '', method, status, outcome } = event;
    const added = this.#requests.of(route, methods.has(method) ? method : 'other', String(status), outcome);
    numbers.requests.set(id, added);
    return added;
  }
}

function rangeResult({ status, isMultipart }: RequestEvent): RangeResult {
  switch (status) {
    case 200:
      return 'whole';
    case 206:
      return isMultipart ? 'multipart' : 'part';
    case 416:
      return 'unsatisfiable';
    default:
      return 'other';
  }
}
