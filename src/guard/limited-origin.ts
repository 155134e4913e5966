/** An origin within the limits of a route: how many exchanges at a time, and how many bytes for those that are delivered. */

import type { Clock } from '../http/clock.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import { ShortLivedSet } from '../http/short-lived.ts';
import { createTether, type Tether } from '../http/tether.ts';
import type { Errand, Origin, OriginRequest, OriginResponse } from '../origin/origin.ts';
import { retryAfter } from '../semantics/rate-limit-fields.ts';
import { MeteredBody } from './metered-body.ts';
import { isOfAccount, type OriginShare } from './origin-share.ts';
import { Places } from './places.ts';

/** The limits; 0 stands for none. */
export interface OriginLimits {
  /** Exchanges at a time. */
  readonly fills: number;
  /** Exchanges at a time that one client has caused. */
  readonly fillsPerClient: number;
  /** Undefined where bytes are not counted. */
  readonly share: OriginShare | undefined;
  readonly clock: Pick<Clock, 'after'>;
}

/** Exchanges end all the time: nobody can tell when. */
const soon = { fields: [retryAfter(1000)] };

/**
 * Wraps the origin of a route. An exchange has its place from its request to the end of its body. Who finds none fails at
 * once and waits for nobody, so that nothing that holds a place can be held up by one who wants another; what broke off is
 * taken up again without asking, for others may have taken the place since, and its readers are in the middle of it.
 *
 * `fetch` throws `ProxyError` as the origin does, and `origin_busy`, `too_many_requests` and `origin_share_spent`; the body
 * may end with the last of them. A HEAD brings no bytes, and is asked whatever is owed.
 */
export function createLimitedOrigin(origin: Origin, limits: OriginLimits): Origin {
  return new LimitedOrigin(origin, limits);
}

/** A request that waits, and how it looks anew whether it may. */
interface Asking {
  readonly errand: Errand;
  readonly reconsider: () => void;
}

class LimitedOrigin implements Origin {
  readonly #origin: Origin;
  readonly #limits: OriginLimits;
  readonly #places = new Places();
  readonly #begun = new WeakSet<Errand>();
  /** Those who wait for a connection or an answer: when an account is short, those of it are let go of. */
  readonly #asking = new ShortLivedSet<Asking>();

  constructor(origin: Origin, limits: OriginLimits) {
    this.#origin = origin;
    this.#limits = limits;
    limits.share?.watch((account) => {
      for (const { errand, reconsider } of this.#asking.all) if (isOfAccount(account, errand)) reconsider();
    });
  }

  async fetch(request: OriginRequest): Promise<OriginResponse> {
    const { errand } = request;
    if (errand === undefined) return await this.#origin.fetch(request);
    const { share, clock } = this.#limits;
    const isFirst = !this.#begun.has(errand);
    const leave = this.#enter(errand, request, isFirst);
    // What another method does may be done already, or half.
    const mayGiveUp = share !== undefined && isFirst && request.method === 'GET';
    const tether = mayGiveUp ? createTether(request.signal) : undefined;
    const onOver = () => {
      leave();
      tether?.release();
    };
    try {
      const isLimited = tether !== undefined && share !== undefined;
      const response = await (isLimited ? this.#ask(request, tether, errand, share) : this.#origin.fetch(request));
      if (response.framing === 'none') onOver();
      else return { ...response, body: new MeteredBody(response, { errand, share, clock, onOver }) };
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
      else this.#limits.share?.goOn(errand);
    } catch (thrown) {
      body?.close();
      throw thrown;
    }
    this.#begun.add(errand);
    return this.#places.take(errand.client);
  }

  #refuse(errand: Errand, method: string): void {
    const { fills, fillsPerClient, share } = this.#limits;
    if (method !== 'HEAD') share?.begin(errand);
    if (fills > 0 && this.#places.total >= fills) throw new ProxyError('origin_busy', soon);
    const hasEnough = fillsPerClient > 0 && this.#places.of(errand.client) >= fillsPerClient;
    if (hasEnough) throw new ProxyError('too_many_requests', soon);
  }

  /** Asks, and gives it up if the share is spent before the answer: many that wait in a queue have begun all at once. */
  async #ask(request: OriginRequest, tether: Tether, errand: Errand, share: OriginShare): Promise<OriginResponse> {
    let refusal: ProxyError | undefined;
    const reconsider = () => {
      try {
        share.begin(errand);
      } catch (thrown) {
        refusal ??= toProxyError(thrown);
        tether.abort(refusal);
      }
    };
    const asking = this.#asking.add({ errand, reconsider });
    try {
      return await this.#origin.fetch({ ...request, signal: tether.signal });
    } catch (thrown) {
      throw refusal ?? thrown;
    } finally {
      this.#asking.delete(asking);
    }
  }
}
