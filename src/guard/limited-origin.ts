/** An origin within the limits of a route: how many exchanges at a time, and how many bytes for those that are delivered. */

import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { ShortLivedSet } from '../http/short-lived.ts';
import { createTether, type Tether } from '../http/tether.ts';
import type { Errand, Origin, OriginRequest, OriginResponse } from '../origin/origin.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import { MeteredBody } from './metered-body.ts';
import type { OriginShare } from './origin-share.ts';
import { Places } from './places.ts';

/** The limits; 0 stands for none. */
export interface OriginLimits {
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
  readonly #places = new Places();
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
