/**
 * Wraps an origin to enforce the limits of a route: concurrent exchanges, and bytes from the origin in proportion to delivered ones.
 *
 * A small request can make an origin send a large body: the whole for one byte, again and again under other keys (RangeAmp, DSN
 * 2020). Bytes from the origin are charged to the client that began the transfer. Bytes that this client receives pay them back,
 * many times over, and so does time. A transfer that no client reads ends when its client owes too much. A client that owes still
 * more begins none: this is checked when it asks, and again where its request has waited for a connection.
 */

import type { BodyObserver } from '../../http/observed-body.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import {
  type ChargedClients,
  type Origin,
  type OriginRequest,
  type OriginResponse,
  observedResponse,
} from '../../origin/origin.ts';
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

class LimitedOrigin implements Origin {
  readonly #origin: Origin;
  readonly #limits: OriginLimits;
  readonly #places = new ConcurrencyCounts();
  readonly #begun = new WeakSet<ChargedClients>();

  constructor(origin: Origin, limits: OriginLimits) {
    this.#origin = origin;
    this.#limits = limits;
  }

  async fetch(request: OriginRequest): Promise<OriginResponse> {
    const { charged } = request;
    if (charged === undefined) return await this.#origin.fetch(request);
    const { share } = this.#limits;
    this.#admit(charged, request);
    const transfer = new ChargedTransfer(charged, share, this.#places.take(charged.client));
    try {
      const response = await this.#origin.fetch(request);
      return transfer.observe(response);
    } catch (thrown) {
      transfer.onEnd(false, thrown);
      throw thrown;
    }
  }

  close(): Promise<void> {
    return this.#origin.close();
  }

  #admit(charged: ChargedClients, { method, body }: OriginRequest): void {
    const isFirst = !this.#begun.has(charged);
    const { share } = this.#limits;
    charged.whyNotBegin = isFirst && method !== 'HEAD' ? share?.whyNotBegin : undefined;
    const refusal = isFirst ? this.#whyNot(charged) : undefined;
    if (refusal === undefined) {
      this.#begun.add(charged);
      return;
    }
    body?.close();
    throw refusal;
  }

  #whyNot({ client, whyNotBegin, isSpare = false }: ChargedClients): ProxyError | undefined {
    const { fills, fillsPerClient } = this.#limits;
    const refusal = whyNotBegin?.(client);
    if (refusal !== undefined) return refusal;
    // A transfer that is not needed leaves half of the places to others.
    const part = isSpare ? 1 / 2 : 1;
    if (fills > 0 && this.#places.total + 1 > fills * part) return new ProxyError('origin_busy', retrySoon);
    const hasEnough = fillsPerClient > 0 && this.#places.of(client) + 1 > fillsPerClient * part;
    return hasEnough ? new ProxyError('too_many_requests', retrySoon) : undefined;
  }
}

/**
 * Bytes charged for a body that is closed before its end: buffers and connections hold about as many, and they arrive unread.
 * Otherwise a client that requests large bodies and closes them at once would not pay for these bytes.
 */
const UNREAD_BYTES = 256 * 1024;

/** One exchange: charges the bytes of its body to a client, and ends the body with `origin_share_spent` where it may not go on unread. */
export class ChargedTransfer implements BodyObserver {
  readonly #charged: ChargedClients;
  /** Undefined where bytes are not counted. */
  readonly #share: OriginShare | undefined;
  readonly #leave: () => void;
  #isBegun = false;
  /** Bytes that have not arrived yet; infinite where the size is unknown. */
  #missingBytes = 0;

  /** `leave` is called when the exchange is over; may be called more than once. */
  constructor(charged: ChargedClients, share: OriginShare | undefined, leave: () => void) {
    this.#charged = charged;
    this.#share = share;
    this.#leave = leave;
  }

  /** Returns the response, with this observer of its body. */
  observe(response: OriginResponse): OriginResponse {
    this.#missingBytes = response.sizeBytes ?? Number.POSITIVE_INFINITY;
    if (response.framing !== 'none') return observedResponse(response, this);
    this.#leave();
    return response;
  }

  /** Never ends the body before the first chunk: readers may still arrive. Nor after the last byte: only the end follows. */
  beforeRead(): ProxyError | undefined {
    if (!this.#isBegun || this.#share === undefined || this.#missingBytes <= 0) return undefined;
    const { client, bodyClients } = this.#charged;
    const refusal = this.#share.whyNotUnread(client);
    return refusal !== undefined && bodyClients?.().length === 0 ? refusal : undefined;
  }

  onChunk({ length }: Uint8Array): undefined {
    this.#isBegun = true;
    this.#missingBytes -= length;
    this.#share?.charge(this.#charged.client, length);
  }

  onEnd(isWhole: boolean, thrown: unknown): void {
    const isClosed = !isWhole && thrown === undefined;
    if (isClosed) this.#share?.charge(this.#charged.client, Math.min(UNREAD_BYTES, this.#missingBytes));
    this.#leave();
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

  /** `now` is monotonic, in milliseconds. */
  constructor(rules: ShareRules, now: () => number) {
    this.#rules = rules;
    this.#clients = new LeakyBuckets({ maxNames: MAX_CLIENTS, now });
  }

  /** Charges a client for bytes from the origin. */
  charge(client: string, bytes: number): void {
    this.isOwed = true;
    this.#clients.add(client, this.#timeOf(bytes));
  }

  /** Credits a client with delivered bytes. Costs nothing while no client has a debt. */
  repay(client: string, bytes: number): void {
    if (!this.isOwed) return;
    this.#clients.repay(client, this.#timeOf(bytes * this.#rules.factor));
    this.isOwed = this.#clients.size > 0;
  }

  /** Returns why a client may begin no transfer; undefined where it may. */
  readonly whyNotBegin = (client: string): ProxyError | undefined => {
    const { windowMs } = this.#rules;
    const owedMs = this.#clients.of(client);
    return owedMs > windowMs ? spent(owedMs - windowMs, 'the client has used up its share') : undefined;
  };

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
