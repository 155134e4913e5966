/**
 * Lets one exchange serve all requests that came before it was sent. A response that must be validated before each use (`no-cache`,
 * RFC 9111 §5.2.2.4, or a lifetime of 0) cannot serve a request that comes after the validation was sent: the origin may have
 * decided before that. So requests of a name (a key, a variant and, where that counts, an identity) take turns in rounds:
 *
 * 1. A comes, and no exchange runs. The round of A closes: its validation is sent.
 * 2. B and C come while it is under way. It is not for them: they gather in the next round.
 * 3. The response to A arrives, and A is answered. The round of B and C closes: one validation is sent, which both of them preceded.
 * 4. D comes. It gathers in the round after that, as in 2.
 * 5. The response to the validation of 3 arrives. B, which leads the round, and C, which is collapsed with it, are answered; D is next.
 *
 * At most one exchange of a name runs and one round gathers, so a request waits for two round trips at most, however many ask.
 */

import type { ProxyRequest } from '../../http/message.ts';
import { untilAborted } from './flight.ts';

/** A request that takes turns. */
interface Member {
  readonly request: Pick<ProxyRequest, 'method' | 'signal'>;
}

/** An exchange that serves the members of one round. */
export interface RoundExchange<M, T> {
  /** Resolves when the next round may begin: the response head has been handled. Never rejects. */
  readonly landed: Promise<unknown>;
  /** Waits for the response on behalf of a member. Rejects as the exchange fails, and with the reason when the client leaves. */
  serve(member: M, isLeader: boolean): Promise<T>;
}

/** Prepares the exchange of a round; resolves with the step that sends it, or with undefined where none is needed. Never rejects. */
type Prepare<M, T> = (leader: M) => Promise<(() => RoundExchange<M, T>) | undefined>;

/** The requests that the next exchange of a name serves, each with the means to give it the result. */
type Round<M, T> = Map<M, (result: Promise<T> | undefined) => void>;

/** The rounds of one name: the one whose exchange runs, until it has landed, and the one that gathers. */
interface Lane<M, T> {
  running: Promise<unknown> | undefined;
  next: Round<M, T> | undefined;
}

/** The rounds of all names. `T` is what an exchange gives to each request. */
export class Rounds<M extends Member, T> {
  readonly #lanes = new Map<string, Lane<M, T>>();

  /** Checks whether a request that comes now would wait for an exchange that runs or is about to begin. */
  isBusy(name: string): boolean {
    return this.#lanes.has(name);
  }

  /**
   * Takes part in the next round of a name, and returns what its exchange gives; undefined where none was needed. A GET leads rather
   * than a HEAD, whose response brings no new body. Rejects as the exchange does, or with the signal's reason when the client leaves.
   */
  async join(name: string, member: M, prepare: Prepare<M, T>): Promise<T | undefined> {
    const lane = this.#lanes.get(name) ?? this.#open(name);
    const round: Round<M, T> = lane.next ?? new Map();
    const { promise, resolve } = Promise.withResolvers<T | undefined>();
    round.set(member, resolve);
    if (lane.next === undefined) {
      lane.next = round;
      void this.#run(name, lane, round, prepare);
    }
    try {
      return await untilAborted(promise, member.request.signal);
    } finally {
      round.delete(member);
    }
  }

  #open(name: string): Lane<M, T> {
    const lane = { running: undefined, next: undefined };
    this.#lanes.set(name, lane);
    return lane;
  }

  /** Waits until the round is due, and sends its exchange. Never rejects. */
  async #run(name: string, lane: Lane<M, T>, round: Round<M, T>, prepare: Prepare<M, T>): Promise<void> {
    await lane.running;
    const leader = selectLeader(round);
    const send = leader && (await prepare(leader));
    // Members come until here. The request is sent, and they get their places, in one tick.
    lane.next = undefined;
    const exchange = send?.();
    for (const [member, resolve] of round) resolve(exchange?.serve(member, member === leader));
    lane.running = exchange?.landed.then(() => this.#end(name, lane));
    if (exchange === undefined) this.#end(name, lane);
  }

  /** Forgets the name, unless another round gathers. */
  #end(name: string, lane: Lane<M, T>): void {
    if (lane.next === undefined) this.#lanes.delete(name);
  }
}

function selectLeader<M extends Member>(round: ReadonlyMap<M, unknown>): M | undefined {
  const [first] = round.keys();
  return [...round.keys()].find(({ request }) => request.method !== 'HEAD') ?? first;
}
