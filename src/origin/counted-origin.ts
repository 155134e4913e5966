/** Counts the running exchanges of a route, so that requests which no client waits for can give way to the others. */

import type { BodyObserver } from '../http/observed-body.ts';
import { ProxyError } from '../http/proxy-error.ts';
import {
  type ChargedClients,
  type Origin,
  type OriginRequest,
  type OriginResponse,
  observedResponse,
} from './origin.ts';

/** An origin that counts its exchanges. One counts from its request, also while it waits for a connection, to the end of its body. */
export class CountedOrigin implements Origin {
  readonly #origin: Origin;
  #running = 0;

  constructor(origin: Origin) {
    this.#origin = origin;
  }

  /** The number of running exchanges. */
  get running(): number {
    return this.#running;
  }

  async fetch(request: OriginRequest): Promise<OriginResponse> {
    this.#running += 1;
    try {
      const response = await this.#origin.fetch(request);
      if (response.framing === 'none') this.#running -= 1;
      return response.framing === 'none' ? response : observedResponse(response, this.#observer);
    } catch (thrown) {
      this.#running -= 1;
      throw thrown;
    }
  }

  close(): Promise<void> {
    return this.#origin.close();
  }

  /** One for all bodies: an observer is told of each end once. */
  readonly #observer: BodyObserver = {
    onEnd: () => {
      this.#running -= 1;
    },
  };
}

/**
 * Wraps an origin for requests that give way: a transfer begins only where `mayBegin` allows it. Otherwise `fetch` throws
 * `ProxyError` `too_many_requests`, which stands for a limit of one client: another client that waits for the transfer begins its
 * own. A transfer that has begun may be resumed at any time, as a client may read it by then.
 */
export function createYieldingOrigin(origin: Origin, mayBegin: () => boolean): Origin {
  const begun = new WeakSet<ChargedClients>();
  return {
    async fetch(request) {
      const { charged } = request;
      if (charged === undefined || !begun.has(charged)) {
        if (!mayBegin()) throw new ProxyError('too_many_requests', { detail: 'the origin is busy for clients' });
        if (charged !== undefined) begun.add(charged);
      }
      return await origin.fetch(request);
    },
    close: () => origin.close(),
  };
}
