/**
 * An origin within the limits of a route: how many exchanges at a time, and how many bytes in proportion to those that are
 * delivered.
 *
 * A small request can make an origin send a large body: the whole for a byte, again and again under other names (RangeAmp, DSN
 * 2020). What the origin sends is charged to the client that began the transfer; what that client receives pays it back, many
 * times over, and so does time. A transfer whose client owes too much, and that no other client reads, ends.
 */

import { ShortLivedSet } from '../../http/collections.ts';
import type { BodyStream, Taken } from '../../http/message.ts';
import { ProxyError, toProxyError } from '../../http/proxy-error.ts';
import { createTether, type Tether } from '../../http/tether.ts';
import type { Errand, Origin, OriginRequest, OriginResponse } from '../../origin/origin.ts';
import { retryAfter } from '../../semantics/rate-limit-fields.ts';
import { ConcurrencyCounts, LeakyBuckets } from './rate-limit.ts';

/** The limits; 0 stands for none. */
interface OriginLimits {
  /** Exchanges at a time. */
  readonly fills: number;
  /** Exchanges at a time that one client has caused. */
  readonly fillsPerClient: number;
  /** Undefined where bytes are not counted. */
  readonly share: OriginShare | undefined;
}

/** Exchanges end all the time: nobody can tell when. */
const soon = { fields: [retryAfter(1000)] };

/**
 * A client that has fewer exchanges than this has one more whatever has become of its share when its turn comes: to be able to end
 * one that waits costs an AbortSignal.
 */
const UNWATCHED_EXCHANGES = 4;

/**
 * Wraps the origin of a route. An exchange has its place from its request to the end of its body. One that finds none fails at
 * once and waits for none, so that nothing that holds a place can be held up by what wants another; what broke off is
 * taken up again without asking, for others may have taken the place since, and its readers are in the middle of it.
 *
 * `fetch` throws `ProxyError` as the origin does, and `origin_busy`, `too_many_requests` and `origin_share_spent`; the body
 * may end with the last of them. A HEAD brings no bytes, and is asked whatever is owed.
 */
export function createLimitedOrigin(origin: Origin, limits: OriginLimits): Origin {
  return new LimitedOrigin(origin, limits);
}

/** A request that waits for a connection or an answer. */
interface Asking {
  readonly client: string;
  readonly giveUp: () => void;
}

class LimitedOrigin implements Origin {
  readonly #origin: Origin;
  readonly #limits: OriginLimits;
  readonly #places = new ConcurrencyCounts();
  readonly #begun = new WeakSet<Errand>();
  /** When the share of a client is spent, those of it are given up. */
  readonly #asking = new ShortLivedSet<Asking>();

  constructor(origin: Origin, limits: OriginLimits) {
    this.#origin = origin;
    this.#limits = limits;
    limits.share?.watch((client) => {
      for (const asking of this.#asking.all) if (asking.client === client) asking.giveUp();
    });
  }

  async fetch(request: OriginRequest): Promise<OriginResponse> {
    const { errand } = request;
    if (errand === undefined) return await this.#origin.fetch(request);
    const { share } = this.#limits;
    const isFirst = !this.#begun.has(errand);
    const isOneOfMany = this.#places.of(errand.client) >= UNWATCHED_EXCHANGES;
    const leave = this.#enter(errand, request, isFirst);
    // What another method does may be done already, or half.
    const mayGiveUp = share !== undefined && isFirst && isOneOfMany && request.method === 'GET';
    const tether = mayGiveUp ? createTether(request.signal) : undefined;
    const onOver = () => {
      leave();
      tether?.release();
    };
    try {
      const isWatched = tether !== undefined && share !== undefined;
      const response = await (isWatched ? this.#ask(request, tether, errand, share) : this.#origin.fetch(request));
      if (response.framing === 'none') onOver();
      else return { ...response, body: new MeteredBody(response, { errand, share, onOver }) };
      return response;
    } catch (thrown) {
      onOver();
      throw thrown;
    }
  }

  close(): Promise<void> {
    return this.#origin.close();
  }

  #enter(errand: Errand, { method, body }: OriginRequest, isFirst: boolean): () => void {
    try {
      if (isFirst) this.#refuse(errand, method);
    } catch (thrown) {
      body?.close();
      throw thrown;
    }
    this.#begun.add(errand);
    return this.#places.take(errand.client);
  }

  #refuse({ client }: Errand, method: string): void {
    const { fills, fillsPerClient, share } = this.#limits;
    if (method !== 'HEAD') share?.begin(client);
    if (fills > 0 && this.#places.total >= fills) throw new ProxyError('origin_busy', soon);
    const hasEnough = fillsPerClient > 0 && this.#places.of(client) >= fillsPerClient;
    if (hasEnough) throw new ProxyError('too_many_requests', soon);
  }

  /** Asks, and gives it up if the share is spent before the answer: many that wait in a queue have begun all at once. */
  async #ask(request: OriginRequest, tether: Tether, { client }: Errand, share: OriginShare): Promise<OriginResponse> {
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

/** What a body is counted with. */
interface MeteredBodyOptions {
  readonly errand: Errand;
  /** Undefined where bytes are not counted. */
  readonly share: OriginShare | undefined;
  /** Called when the body has ended, in whatever way; more than once. */
  readonly onOver: () => void;
}

/**
 * What is on its way already when a body is closed before its end, and comes though nobody reads it: what buffers and
 * connections hold. A client that asks for large bodies and closes them at once would have that for nothing.
 */
const UNREAD_BYTES = 256 * 1024;

/** Read once; iterating throws `ProxyError` `origin_share_spent` besides what the body throws. */
export class MeteredBody implements BodyStream, AsyncIterator<Uint8Array, undefined> {
  readonly trailers: BodyStream['trailers'];
  readonly #body: BodyStream;
  readonly #options: MeteredBodyOptions;
  #chunks: AsyncIterator<Uint8Array> | undefined;
  #isBegun = false;
  /** Bytes that have yet to come, as far as that is known. */
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

  take(): Taken {
    // The reason is thrown where it can be, by the next step of the iteration.
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
    const { errand, share } = this.#options;
    if (!this.#isOver) share?.charge(errand.client, Math.min(UNREAD_BYTES, this.#missingBytes));
    this.#body.close();
    this.#end();
  }

  /** Before the first chunk, those who want it are just coming; the end alone of a body that has come brings no bytes. */
  #refusal(): ProxyError | undefined {
    const { errand, share } = this.#options;
    if (!this.#isBegun || share === undefined || this.#isOver || this.#missingBytes <= 0) return undefined;
    const refusal = share.whyNotUnread(errand.client);
    return refusal !== undefined && errand.wanters?.().length === 0 ? refusal : undefined;
  }

  #count({ length }: Uint8Array): void {
    const { errand, share } = this.#options;
    this.#isBegun = true;
    this.#missingBytes -= length;
    share?.charge(errand.client, length);
  }

  #end(): void {
    this.#isOver = true;
    this.#options.onOver();
  }
}

/** The rules of one route. */
export interface ShareRules {
  /** How many bytes a delivered one pays for: at least 1. */
  readonly factor: number;
  /** How many bytes a client may owe. */
  readonly freeBytes: number;
  /** How long it takes until so many are forgotten. */
  readonly windowMs: number;
}

/** How many clients are remembered. */
const MAX_CLIENTS = 100_000;

/** Of a client that owes more than this part of what it may owe, nothing goes on that no client reads. */
const UNREAD_SHARE = 1 / 2;

/** What the clients of one route owe. */
export class OriginShare {
  /** Whether any client may owe something. */
  isOwed = false;
  readonly #rules: ShareRules;
  readonly #clients: LeakyBuckets;
  #onSpent: (client: string) => void = () => {};

  /** `now` gives milliseconds that never go back. */
  constructor(rules: ShareRules, now: () => number) {
    this.#rules = rules;
    this.#clients = new LeakyBuckets({ maxNames: MAX_CLIENTS, now });
  }

  /** Sets the function that is called with a client that may begin nothing more, each time that it owes more. */
  watch(onSpent: (client: string) => void): void {
    this.#onSpent = onSpent;
  }

  /** Takes note of bytes that came. */
  charge(client: string, bytes: number): void {
    this.isOwed = true;
    this.#clients.add(client, this.#timeOf(bytes));
    if (this.#clients.of(client) > this.#rules.windowMs) this.#onSpent(client);
  }

  /** Takes note of bytes that were delivered. Costs nothing where nobody owes anything. */
  repay(client: string, bytes: number): void {
    if (!this.isOwed) return;
    this.#clients.repay(client, this.#timeOf(bytes * this.#rules.factor));
    this.isOwed = this.#clients.size > 0;
  }

  /** Throws `ProxyError` `origin_share_spent` where a client may begin no transfer. */
  begin(client: string): void {
    const { windowMs } = this.#rules;
    const owedMs = this.#clients.of(client);
    if (owedMs > windowMs) throw spent(owedMs - windowMs, 'the share of the client');
  }

  /** Why a transfer of a client must not go on unread; undefined where it may. */
  whyNotUnread(client: string): ProxyError | undefined {
    const mostMs = this.#rules.windowMs * UNREAD_SHARE;
    const owedMs = this.#clients.of(client);
    return owedMs > mostMs ? spent(owedMs - mostMs, 'no client reads it') : undefined;
  }

  /** How long it takes until so many bytes are forgotten. */
  #timeOf(bytes: number): number {
    const { freeBytes, windowMs } = this.#rules;
    return (bytes / freeBytes) * windowMs;
  }
}

function spent(waitMs: number, detail: string): ProxyError {
  return new ProxyError('origin_share_spent', { detail, fields: [retryAfter(waitMs)] });
}
