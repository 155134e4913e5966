/**
 * The limits of a route: concurrent requests and requests per time of one client, bytes of a request body, and bytes from the
 * origin. `createCountedDelivery` reports the bytes of a response while they are delivered. Read this file first, then
 * `rate-limit.ts` and `limited-origin.ts`.
 */

import type { Clock } from '../../http/clock.ts';
import type { Fields } from '../../http/fields.ts';
import {
  type BodyStream,
  changedRequest,
  type Delivery,
  type ProxyRequest,
  type ProxyResponse,
} from '../../http/message.ts';
import { type BodyObserver, ObservedBody } from '../../http/observed-body.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Origin } from '../../origin/origin.ts';
import type { Routed } from '../../routing/inquiry.ts';
import { retryAfter } from '../../semantics/rate-limit-fields.ts';
import { type Client, clientName } from '../client.ts';
import { createLimitedOrigin, OriginShare, type ShareRules } from './limited-origin.ts';
import { ConcurrencyCounts, RateLimit, type RateRules } from './rate-limit.ts';

/** The limits of one request. */
export interface Allowance {
  /** The request as it goes on. Its body throws where it exceeds the limit. */
  readonly request: ProxyRequest;
  /** The origin within the limits of the route: an exchange beyond a limit fails. */
  readonly origin: Origin;
  /** The name of the client in the limits. */
  readonly client: string;
  /** Counts the request as a tunnel until `leave`. Throws `ProxyError` `too_many_requests`. Called once. */
  openTunnel(): TunnelTerms;
  /** Returns the response with the fields that tell the client its limits, and with its delivered bytes counted. */
  present(response: ProxyResponse): ProxyResponse;
  /** Called when the response is over. A second call does nothing. */
  leave(delivery: Delivery): void;
}

/** The limits of a tunnel. */
export interface TunnelTerms {
  /** How long the tunnel may be silent in both directions, in milliseconds; 0 is no limit. */
  readonly idleTimeoutMs: number;
}

/** The means of this worker for a request that another worker has admitted, counts and delivers. */
export interface Loan {
  /** The origin within the limits of the route. */
  readonly origin: Origin;
  /** Credits bytes that were delivered to the client: this worker was charged for fetching them. */
  repay(bytes: number): void;
  /** Charges the client for bytes of the origin that were fetched for it under another name. */
  charge(bytes: number): void;
  /** Returns whether the client owes so much that no transfer goes on for it unread. */
  owesMuch(): boolean;
}

/** The limits of one route. */
export interface Allowances {
  /** The limits of requests that are over in one tick. Undefined where each request must hold a place. */
  readonly hits: HitAllowances | undefined;
  /** Counts a request. Throws `ProxyError`: `rate_limited`, `too_many_requests`, `body_too_large`. */
  enter(request: ProxyRequest, client: Client, routed: Routed): Allowance;
  /** Returns the loan for a request that another worker has admitted; `client` is its client's name in the limits. */
  lend(routed: Routed, client: string): Loan;
}

/** The limits of requests that are over in one tick and have no content. */
export interface HitAllowances {
  /** Counts a request; returns its fields, or undefined where it exceeds the rate and `enter` must refuse it. Absent without a rate. */
  readonly count: ((client: string) => Fields | undefined) | undefined;
  /** Delivered bytes pay for bytes from the origin. Undefined where bytes are not counted. */
  readonly share: OriginShare | undefined;
}

/** The limits of a route. Undefined sets no limit; nor does 0, except for `bodyBytes`. */
export interface AllowanceRules {
  readonly bodyBytes: number | undefined;
  readonly requestsPerClient: number;
  /** Whether `requestsPerClient` is not for requests that are over in one tick. They, and tunnels, have no place then. */
  readonly areHitsFree?: boolean;
  readonly tunnelsPerClient: number;
  readonly tunnelIdleTimeoutMs: number;
  readonly rate: RateRules | undefined;
  readonly fills: number;
  readonly fillsPerClient: number;
  readonly amplification: ShareRules | undefined;
}

const noFields: Fields = [];

/** The number of clients whose rate is remembered. */
const MAX_CLIENTS = 100_000;

/** Creates the limits of one route. The clock is monotonic, in milliseconds. */
export function createAllowances(rules: AllowanceRules, clock: Clock): Allowances {
  return new RouteAllowances(rules, clock);
}

class RouteAllowances implements Allowances {
  readonly hits: HitAllowances | undefined;
  readonly #rules: AllowanceRules;
  readonly #rate: RateLimit | undefined;
  readonly #share: OriginShare | undefined;
  readonly #running = new ConcurrencyCounts();
  readonly #tunnels = new ConcurrencyCounts();
  readonly #origins = new WeakMap<Origin, Origin>();

  constructor(rules: AllowanceRules, clock: Clock) {
    const { rate, amplification } = rules;
    const { now } = clock;
    this.#rules = rules;
    this.#rate = rate && new RateLimit(rate, { maxNames: MAX_CLIENTS, now });
    this.#share = amplification && new OriginShare(amplification, now);
    const count = this.#rate && ((client: string) => this.#rate?.countAtOnce(client));
    this.hits = rules.requestsPerClient === 0 || rules.areHitsFree === true ? { count, share: this.#share } : undefined;
  }

  enter(request: ProxyRequest, { address }: Client, { route }: Routed): Allowance {
    const client = clientName(address);
    const fields = this.#rate?.count(client) ?? noFields;
    const limited = this.#limitBody(request, fields);
    const release = takePlace(this.#running, this.#rules.requestsPerClient, client, fields);
    return new RequestAllowance(limited, this.#limit(route.origin), client, {
      fields,
      release,
      share: this.#share,
      rules: this.#rules,
      tunnels: this.#tunnels,
    });
  }

  lend({ route }: Routed, client: string): Loan {
    const share = this.#share;
    return {
      origin: this.#limit(route.origin),
      repay: (bytes) => share?.repay(client, bytes),
      charge: (bytes) => share?.charge(client, bytes),
      owesMuch: () => share?.whyNotUnread(client) !== undefined,
    };
  }

  #limitBody(request: ProxyRequest, fields: Fields): ProxyRequest {
    const { bodyBytes } = this.#rules;
    const { body, bodySizeBytes } = request;
    if (bodyBytes === undefined || body === undefined) return request;
    if (bodySizeBytes === undefined) return changedRequest(request, { body: createLimitedBody(body, bodyBytes) });
    if (bodySizeBytes <= bodyBytes) return request;
    throw new ProxyError('body_too_large', { detail: `${bodySizeBytes} bytes`, fields });
  }

  #limit(origin: Origin): Origin {
    const { fills, fillsPerClient } = this.#rules;
    if (fills === 0 && fillsPerClient === 0 && this.#share === undefined) return origin;
    const known = this.#origins.get(origin);
    if (known !== undefined) return known;
    const limited = createLimitedOrigin(origin, { fills, fillsPerClient, share: this.#share });
    this.#origins.set(origin, limited);
    return limited;
  }
}

/** Takes one of the `most` places of a client; 0 sets no limit. Throws `ProxyError` `too_many_requests`. */
function takePlace(places: ConcurrencyCounts, most: number, client: string, fields: Fields): (() => void) | undefined {
  if (most === 0) return undefined;
  const release = places.take(client, most);
  if (release !== undefined) return release;
  throw new ProxyError('too_many_requests', {
    detail: `${most} of this client`,
    fields: [retryAfter(1000), ...fields],
  });
}

interface Shared {
  readonly fields: Fields;
  readonly release: (() => void) | undefined;
  readonly share: OriginShare | undefined;
  readonly rules: AllowanceRules;
  readonly tunnels: ConcurrencyCounts;
}

/** A class, because there is one object for every request. */
class RequestAllowance implements Allowance {
  readonly request: ProxyRequest;
  readonly origin: Origin;
  readonly client: string;
  readonly #shared: Shared;
  /** Whether `leave` credits the bytes sent: not where they were counted on their way, and not for our own errors. */
  #paysAtEnd = true;
  #isOver = false;
  #releaseTunnel: (() => void) | undefined;

  constructor(request: ProxyRequest, origin: Origin, client: string, shared: Shared) {
    this.request = request;
    this.origin = origin;
    this.client = client;
    this.#shared = shared;
  }

  openTunnel(): TunnelTerms {
    const { rules, tunnels, fields, release } = this.#shared;
    if (rules.areHitsFree === true) release?.();
    this.#releaseTunnel = takePlace(tunnels, rules.tunnelsPerClient, this.client, fields);
    return { idleTimeoutMs: rules.tunnelIdleTimeoutMs };
  }

  present(response: ProxyResponse): ProxyResponse {
    const { fields, share } = this.#shared;
    const { body } = response;
    const isStream = share !== undefined && body.kind === 'stream';
    this.#paysAtEnd = !isStream && response.problem === undefined;
    if (fields.length === 0 && !isStream) return response;
    const limited = { ...response, fields: [...response.fields, ...fields] };
    if (!isStream) return limited;
    const stream = createCountedDelivery(body.stream, (bytes) => share.repay(this.client, bytes));
    return { ...limited, body: { ...body, stream } };
  }

  leave({ bytesSent }: Delivery): void {
    const { release, share } = this.#shared;
    if (this.#isOver) return;
    this.#isOver = true;
    release?.();
    this.#releaseTunnel?.();
    if (this.#paysAtEnd) share?.repay(this.client, bytesSent);
  }
}

/** Limits a body: it ends with `ProxyError` `body_too_large` in place of the chunk that exceeds the limit. */
function createLimitedBody(body: BodyStream, maxBytes: number): BodyStream {
  let bytes = 0;
  return ObservedBody.of(body, {
    onChunk({ length }) {
      bytes += length;
      return bytes > maxBytes ? new ProxyError('body_too_large', { detail: `more than ${maxBytes} bytes` }) : undefined;
    },
  });
}

/** Counts a body. A chunk counts when the next one is read, because the connection has taken it by then, and moved bytes at once. */
export function createCountedDelivery(body: BodyStream, onDelivered: (bytes: number) => void): BodyStream {
  return ObservedBody.of(body, new DeliveryCount(onDelivered));
}

class DeliveryCount implements BodyObserver {
  readonly onMoved: (bytes: number) => void;
  /** The bytes of the last chunk, until they are counted. */
  #lastBytes = 0;

  constructor(onDelivered: (bytes: number) => void) {
    this.onMoved = onDelivered;
  }

  beforeRead(): undefined {
    if (this.#lastBytes > 0) this.onMoved(this.#lastBytes);
    this.#lastBytes = 0;
  }

  onChunk({ length }: Uint8Array): undefined {
    this.#lastBytes = length;
  }
}
