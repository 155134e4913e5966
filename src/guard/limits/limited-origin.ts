/**
 * Wraps an origin to enforce the limits of a route: concurrent exchanges, and bytes from the origin in proportion to delivered ones.
 *
 * A small request can make an origin send a large body: the whole for one byte, again and again under other keys (RangeAmp, DSN
 * 2020). Bytes from the origin are charged to the client that began the transfer. Bytes that this client receives pay them back,
 * many times over, and so does time. A transfer that no client reads ends when its client owes too much.
 */

import { ShortLivedSet } from '../../http/collections.ts';
import type { BodyStream, NextChunk } from '../../http/message.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import { createFollowingSignal, type FollowingSignal } from '../../http/tether.ts';
import type { ChargedClients, Origin, OriginRequest, OriginResponse } from '../../origin/origin.ts';
import { retryAfter } from '../../semantics/rate-limit-fields.ts';
import { ConcurrencyCounts, LeakyBuckets } from './rate-limit.ts';

/** The limits; 0 sets no limit. */
interface OriginLimits {
  /** Concurrent exchanges. */
  readonly fills: number;
  /** Concurrent exchanges that one client has caused. */
  readonly fillsPerClient: number;
  /** Undefined where bytes are not counted. */
  readonly share: OriginShare | undefined;
}

/** Exchanges end all the time, and the next end cannot be predicted. */
const retrySoon = { fields: [retryAfter(1000)] };

/**
 * So many exchanges of a client are not given up while they wait, even when the client's share is spent: each would need an
 * AbortSignal.
 */
const UNWATCHED_EXCHANGES = 4;

/**
 * Wraps the origin of a route. An exchange holds a place from its request to the end of its body. Where no place is free it fails at
 * once, without waiting, so that exchanges cannot block each other. A resumed transfer is never refused: other exchanges may have
 * taken its place, and its readers are in the middle of the body.
 *
 * `fetch` throws `ProxyError` as the origin does, and `origin_busy`, `too_many_requests` and `origin_share_spent`. The body may end
 * with `origin_share_spent` too. A HEAD brings no bytes, so it is sent whatever its client owes.
 */
export function createLimitedOrigin(origin: Origin, limits: OriginLimits): Origin {
  return new LimitedOrigin(origin, limits);
}

/** A request that waits for a connection or for the head of its response. */
interface Asking {
  readonly client: string;
  readonly giveUp: () => void;
}

class LimitedOrigin implements Origin {
  readonly #origin: Origin;
  readonly #limits: OriginLimits;
  readonly #places = new ConcurrencyCounts();
  readonly #begun = new WeakSet<ChargedClients>();
  /** The waiting requests. Those of a client are given up when its share is spent. */
  readonly #asking = new ShortLivedSet<Asking>();

  constructor(origin: Origin, limits: OriginLimits) {
    this.#origin = origin;
    this.#limits = limits;
    limits.share?.watch((client) => {
      for (const asking of this.#asking.all) if (asking.client === client) asking.giveUp();
    });
  }

  async fetch(request: OriginRequest): Promise<OriginResponse> {
    const { charged } = request;
    if (charged === undefined) return await this.#origin.fetch(request);
    const { share } = this.#limits;
    const isFirst = !this.#begun.has(charged);
    const isOneOfMany = this.#places.of(charged.client) >= UNWATCHED_EXCHANGES;
    const leave = this.#enter(charged, request, isFirst);
    // With another method the origin may already have acted on the request.
    const mayGiveUp = share !== undefined && isFirst && isOneOfMany && request.method === 'GET';
    const tether = mayGiveUp ? createFollowingSignal(request.signal) : undefined;
    const onOver = () => {
      leave();
      tether?.release();
    };
    try {
      const isWatched = tether !== undefined && share !== undefined;
      const response = await (isWatched ? this.#ask(request, tether, charged, share) : this.#origin.fetch(request));
      if (response.framing === 'none') onOver();
      else return { ...response, body: new MeteredBody(response, { charged, share, onOver }) };
      return response;
    } catch (thrown) {
      onOver();
      throw thrown;
    }
  }

  close(): Promise<void> {
    return this.#origin.close();
  }

  #enter(charged: ChargedClients, { method, body }: OriginRequest, isFirst: boolean): () => void {
    try {
      if (isFirst) this.#refuse(charged, method);
    } catch (thrown) {
      body?.close();
      throw thrown;
    }
    this.#begun.add(charged);
    return this.#places.take(charged.client);
  }

  #refuse({ client }: ChargedClients, method: string): void {
    const { fills, fillsPerClient, share } = this.#limits;
    if (method !== 'HEAD') share?.begin(client);
    if (fills > 0 && this.#places.total >= fills) throw new ProxyError('origin_busy', retrySoon);
    const hasEnough = fillsPerClient > 0 && this.#places.of(client) >= fillsPerClient;
    if (hasEnough) throw new ProxyError('too_many_requests', retrySoon);
  }

  /** Sends a request; gives it up if the share is spent before the response. Many requests may have entered the queue before that. */
  async #ask(
    request: OriginRequest,
    tether: FollowingSignal,
    { client }: ChargedClients,
    share: OriginShare,
  ): Promise<OriginResponse> {
    let refusal: ProxyError | undefined;
    const giveUp = () => {
      try {
        share.begin(client);
      } catch (thrown) {
        refusal ??= toProxyError(thrown);
        tether.abort(refusal);
      }
    };
    const asking = this.#asking.add({ client, giveUp });
    try {
      return await this.#origin.fetch({ ...request, signal: tether.signal });
    } catch (thrown) {
      throw refusal ?? thrown;
    } finally {
      this.#asking.delete(asking);
    }
  }
}

/** The options of a metered body. */
interface MeteredBodyOptions {
  readonly charged: ChargedClients;
  /** Undefined where bytes are not counted. */
  readonly share: OriginShare | undefined;
  /** Called when the body has ended for any reason; may be called more than once. */
  readonly onOver: () => void;
}

/**
 * Bytes charged for a body that is closed before its end: buffers and connections hold about as many, and they arrive unread.
 * Otherwise a client that requests large bodies and closes them at once would not pay for these bytes.
 */
const UNREAD_BYTES = 256 * 1024;

/** A body whose bytes are charged to a client. Read once. Iterating throws `ProxyError` `origin_share_spent`, or as the body does. */
export class MeteredBody implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly trailers: BodyStream['trailers'];
  readonly #body: BodyStream;
  readonly #options: MeteredBodyOptions;
  #chunks: AsyncIterator<Uint8Array> | undefined;
  #isBegun = false;
  /** Bytes that have not arrived yet; infinite where the size is unknown. */
  #missingBytes: number;
  #isOver = false;

  constructor({ body, sizeBytes }: Pick<OriginResponse, 'body' | 'sizeBytes'>, options: MeteredBodyOptions) {
    this.#body = body;
    this.#options = options;
    this.#missingBytes = sizeBytes ?? Number.POSITIVE_INFINITY;
    this.trailers = body.trailers;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return this;
  }

  take(): NextChunk {
    // `take` must not throw: the next step of the iteration throws the reason.
    if (this.#refusal() !== undefined) return 'later';
    const taken = this.#body.take?.() ?? 'later';
    if (taken === 'end') this.#end();
    else if (taken !== 'later') this.#count(taken);
    return taken;
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const refusal = this.#refusal();
    if (refusal !== undefined) {
      this.close();
      throw refusal;
    }
    try {
      this.#chunks ??= this.#body[Symbol.asyncIterator]();
      const { done, value } = await this.#chunks.next();
      if (done === true) {
        this.#end();
        return { done: true, value: undefined };
      }
      this.#count(value);
      return { done: false, value };
    } catch (thrown) {
      this.#end();
      throw thrown;
    }
  }

  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.close();
    return { done: true, value: undefined };
  }

  close(): void {
    const { charged, share } = this.#options;
    if (!this.#isOver) share?.charge(charged.client, Math.min(UNREAD_BYTES, this.#missingBytes));
    this.#body.close();
    this.#end();
  }

  /** Why the body must end now. Never before the first chunk: readers may still arrive. Nor after the last byte: only the end follows. */
  #refusal(): ProxyError | undefined {
    const { charged, share } = this.#options;
    if (!this.#isBegun || share === undefined || this.#isOver || this.#missingBytes <= 0) return undefined;
    const refusal = share.whyNotUnread(charged.client);
    return refusal !== undefined && charged.bodyClients?.().length === 0 ? refusal : undefined;
  }

  #count({ length }: Uint8Array): void {
    const { charged, share } = this.#options;
    this.#isBegun = true;
    this.#missingBytes -= length;
    share?.charge(charged.client, length);
  }

  #end(): void {
    this.#isOver = true;
    this.#options.onOver();
  }
}

/** The rules of one route. */
export interface ShareRules {
  /** Bytes from the origin that one delivered byte pays for: at least 1. */
  readonly factor: number;
  /** Bytes that a client may owe. */
  readonly freeBytes: number;
  /** The time in which a debt of `freeBytes` is forgotten. */
  readonly windowMs: number;
}

/** The number of clients that are remembered. */
const MAX_CLIENTS = 100_000;

/** Transfers that no client reads end when their client owes more than this part of its limit. */
const UNREAD_SHARE = 1 / 2;

/** The time debts of the clients of one route. */
export class OriginShare {
  /** Whether any client may have a debt. */
  isOwed = false;
  readonly #rules: ShareRules;
  readonly #clients: LeakyBuckets;
  #onSpent: (client: string) => void = () => {};

  /** `now` is monotonic, in milliseconds. */
  constructor(rules: ShareRules, now: () => number) {
    this.#rules = rules;
    this.#clients = new LeakyBuckets({ maxNames: MAX_CLIENTS, now });
  }

  /** Sets the function that is called with a client that may begin no more transfers, each time its debt grows. */
  watch(onSpent: (client: string) => void): void {
    this.#onSpent = onSpent;
  }

  /** Charges a client for bytes from the origin. */
  charge(client: string, bytes: number): void {
    this.isOwed = true;
    this.#clients.add(client, this.#timeOf(bytes));
    if (this.#clients.of(client) > this.#rules.windowMs) this.#onSpent(client);
  }

  /** Credits a client with delivered bytes. Costs nothing while no client has a debt. */
  repay(client: string, bytes: number): void {
    if (!this.isOwed) return;
    this.#clients.repay(client, this.#timeOf(bytes * this.#rules.factor));
    this.isOwed = this.#clients.size > 0;
  }

  /** Throws `ProxyError` `origin_share_spent` where a client may begin no transfer. */
  begin(client: string): void {
    const { windowMs } = this.#rules;
    const owedMs = this.#clients.of(client);
    if (owedMs > windowMs) throw spent(owedMs - windowMs, 'the client has used up its share');
  }

  /** Returns why a transfer of a client must not go on unread; undefined where it may. */
  whyNotUnread(client: string): ProxyError | undefined {
    const mostMs = this.#rules.windowMs * UNREAD_SHARE;
    const owedMs = this.#clients.of(client);
    return owedMs > mostMs ? spent(owedMs - mostMs, 'no client reads the transfer') : undefined;
  }

  /** The time in which a debt of so many bytes is forgotten, in milliseconds. */
  #timeOf(bytes: number): number {
    const { freeBytes, windowMs } = this.#rules;
    return (bytes / freeBytes) * windowMs;
  }
}

function spent(waitMs: number, detail: string): ProxyError {
  return new ProxyError('origin_share_spent', { detail, fields: [retryAfter(waitMs)] });
}
