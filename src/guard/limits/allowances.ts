/**
 * What one client may take of a route: requests at a time and per time, bytes of a request's body, and bytes of the origin. Read
 * this file first. `createCountedDelivery` reports how much of a response was delivered while it is.
 */

import type { Clock } from '../../http/clock.ts';
import type { Fields } from '../../http/fields.ts';
import {
  type BodyStream,
  changedRequest,
  type Delivery,
  type ProxyRequest,
  type ProxyResponse,
  type Taken,
} from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Origin } from '../../origin/origin.ts';
import type { Routed } from '../../routing/inquiry.ts';
import { retryAfter } from '../../semantics/rate-limit-fields.ts';
import { type Client, clientName } from '../client.ts';
import { createLimitedOrigin, OriginShare, type ShareRules } from './limited-origin.ts';
import { ConcurrencyCounts, RateLimit, type RateRules } from './rate-limit.ts';

/** What one request may take. */
export interface Allowance {
  /** The request as it goes on: no more is read of its body than it may have. */
  readonly request: ProxyRequest;
  /** The origin as this route may use it; exchanges that are beyond a limit fail. */
  readonly origin: Origin;
  /** The name of its client in the limits. */
  readonly client: string;
  /** Counts the request as a tunnel until it is over. Throws `ProxyError` `too_many_requests`. Called once. */
  openTunnel(): TunnelTerms;
  /** The response with what the client is told of its limits. What is delivered of it is counted. */
  present(response: ProxyResponse): ProxyResponse;
  /** The response is over. A second call does nothing. */
  leave(delivery: Delivery): void;
}

/** What a tunnel has to keep to. */
export interface TunnelTerms {
  /** How long nothing may come through it, either way, in milliseconds; 0 is no limit. */
  readonly idleTimeoutMs: number;
}

/** What the request of another process may take of this one, where it is counted as a request and delivered. */
export interface Loan {
  /** The origin as this route may use it. */
  readonly origin: Origin;
  /** Takes note of bytes that the client is given: what came for them came here. */
  repay(bytes: number): void;
}

/** The limits of one route. */
export interface Allowances {
  /** What a request that is over in one tick is counted for. Undefined where it is to hold a place. */
  readonly hits: HitAllowances | undefined;
  /** Throws `ProxyError`: `rate_limited`, `too_many_requests`, `body_too_large`. */
  enter(request: ProxyRequest, client: Client, routed: Routed): Allowance;
  /** For a request that another process has let in, of a client by its name in the limits. */
  lend(routed: Routed, client: string): Loan;
}

/** The limits of requests that are over in one tick and have no content. */
export interface HitAllowances {
  /** Counts a request; undefined where it is too many, which `enter` has to tell. Absent where there is no rate. */
  readonly count: ((client: string) => Fields | undefined) | undefined;
  /** What was delivered pays for what came from the origin. */
  readonly share: OriginShare | undefined;
}

/** The limits of a route; 0 stands for none. */
export interface AllowanceRules {
  readonly bodyBytes: number | undefined;
  readonly requestsPerClient: number;
  readonly tunnelsPerClient: number;
  readonly tunnelIdleTimeoutMs: number;
  readonly rate: RateRules | undefined;
  readonly fills: number;
  readonly fillsPerClient: number;
  readonly amplification: ShareRules | undefined;
}

const noFields: Fields = [];

/** How many clients a rate is remembered of. */
const MAX_CLIENTS = 100_000;

/** Creates the limits of one route. The clock gives milliseconds that never go back. */
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
    this.hits = rules.requestsPerClient === 0 ? { count, share: this.#share } : undefined;
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
    return { origin: this.#limit(route.origin), repay: (bytes) => share?.repay(client, bytes) };
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

/** Takes one of as many places as a client may have; 0 sets no limit. Throws `ProxyError` `too_many_requests`. */
function takePlace(places: ConcurrencyCounts, most: number, client: string, fields: Fields): (() => void) | undefined {
  if (most === 0) return undefined;
  if (places.of(client) < most) return places.take(client);
  throw new ProxyError('too_many_requests', { fields: [retryAfter(1000), ...fields] });
}

interface Shared {
  readonly fields: Fields;
  readonly release: (() => void) | undefined;
  readonly share: OriginShare | undefined;
  readonly rules: AllowanceRules;
  readonly tunnels: ConcurrencyCounts;
}

/** A class, because there is one for every request. */
class RequestAllowance implements Allowance {
  readonly request: ProxyRequest;
  readonly origin: Origin;
  readonly client: string;
  readonly #shared: Shared;
  /** Whether the end of the response pays for its bytes: not where they were counted on their way, and not for our errors. */
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
    const { rules, tunnels, fields } = this.#shared;
    this.#releaseTunnel = takePlace(tunnels, rules.tunnelsPerClient, this.client, fields);
    return { idleTimeoutMs: rules.tunnelIdleTimeoutMs };
  }

  present(response: ProxyResponse): ProxyResponse {
    const { fields, share } = this.#shared;
    const { body } = response;
    const isStream = share !== undefined && body.kind === 'stream';
    this.#paysAtEnd = !isStream && response.problem === undefined;
    if (fields.length === 0 && !isStream) return response;
    const told = { ...response, fields: [...response.fields, ...fields] };
    if (!isStream) return told;
    const stream = createCountedDelivery(body.stream, (bytes) => share.repay(this.client, bytes));
    return { ...told, body: { ...body, stream } };
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

/** The body; iterating throws `ProxyError` `body_too_large` in place of the chunk that makes it too long. */
function createLimitedBody(body: BodyStream, maxBytes: number): BodyStream {
  return {
    trailers: body.trailers,
    [Symbol.asyncIterator]: () => chunksOf(body, maxBytes),
    close: () => body.close(),
  };
}

async function* chunksOf(body: BodyStream, maxBytes: number): AsyncGenerator<Uint8Array, void> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new ProxyError('body_too_large', { detail: `more than ${maxBytes} bytes` });
    yield chunk;
  }
}

/** Tells of a chunk when the next one is asked for, and of what was moved at once: the connection has taken it then. */
export function createCountedDelivery(body: BodyStream, onDelivered: (bytes: number) => void): BodyStream {
  return new CountedDelivery(body, onDelivered);
}

type Step = IteratorResult<Uint8Array, unknown>;

class CountedDelivery implements BodyStream, AsyncIterator<Uint8Array, unknown> {
  readonly take: BodyStream['take'];
  readonly moveTo: BodyStream['moveTo'];
  readonly giveBack: BodyStream['giveBack'];
  readonly trailers: BodyStream['trailers'];
  readonly #body: BodyStream;
  readonly #onDelivered: (bytes: number) => void;
  #chunks: AsyncIterator<Uint8Array, unknown> | undefined;
  /** The bytes of the chunk that was given last, and that nobody was told of. */
  #givenBytes = 0;

  constructor(body: BodyStream, onDelivered: (bytes: number) => void) {
    const { take, moveTo, giveBack, trailers } = body;
    this.#body = body;
    this.#onDelivered = onDelivered;
    this.take = take && ((wantedBytes) => this.#note(take.call(body, wantedBytes)));
    this.moveTo = moveTo && ((socket, head) => this.#noteMoved(moveTo.call(body, socket, head), head));
    this.giveBack = giveBack && ((chunk) => giveBack.call(body, chunk));
    this.trailers = trailers && (() => trailers.call(body));
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, unknown> {
    return this;
  }

  next(): Promise<Step> {
    this.#tell();
    this.#chunks ??= this.#body[Symbol.asyncIterator]();
    const step = this.#chunks.next();
    // Beside the road of the chunk, which nothing is to delay.
    step.then(this.#noteStep, ignore);
    return step;
  }

  async return(): Promise<Step> {
    await this.#chunks?.return?.();
    return { done: true, value: undefined };
  }

  close(): void {
    this.#body.close();
  }

  readonly #noteStep = ({ done, value }: Step): void => {
    if (done !== true) this.#givenBytes = value.length;
  };

  #note(taken: Taken): Taken {
    this.#tell();
    if (typeof taken !== 'string') this.#givenBytes = taken.length;
    return taken;
  }

  #noteMoved(takenBytes: number, head: Uint8Array): number {
    this.#tell();
    if (takenBytes > head.length) this.#onDelivered(takenBytes - head.length);
    return takenBytes;
  }

  #tell(): void {
    if (this.#givenBytes > 0) this.#onDelivered(this.#givenBytes);
    this.#givenBytes = 0;
  }
}

function ignore(): void {}
