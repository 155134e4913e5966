/** The sites of one process, each of which takes the place of the one before without a request or a connection being lost. */

import { OperationFault } from '../admin/operations.ts';
import type { Config } from '../config/schema.ts';
import { describeFixedChanges } from './fixed-options.ts';
import type { Listeners, Prepared } from './listeners.ts';
import { createSite, type Site, type SiteGround } from './site.ts';

/** Which site serves, and which one does next. */
export class Succession {
  readonly #ground: SiteGround;
  readonly #listeners: Listeners;
  #site: Site;
  /** Resolved when no change is prepared or under way. */
  #settled: Promise<void> = Promise.resolve();
  /** Gives up what is prepared, if it still can. */
  #giveUp: () => Promise<void> = nothing;
  #hasEnded = false;

  constructor(first: Site, ground: SiteGround, listeners: Listeners) {
    this.#site = first;
    this.#ground = ground;
    this.#listeners = listeners;
  }

  /** What serves now. */
  get site(): Site {
    return this.#site;
  }

  /**
   * Makes another configuration ready, once no other one is prepared. Rejects with what it cannot be used for, and has changed
   * nothing then: with `OperationFault` where it changes what cannot be changed, and after the end; otherwise as `createSite`
   * and `Listeners.prepare` do.
   */
  async prepare(config: Config): Promise<Prepared> {
    const before = this.#settled;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#settled = promise;
    await before;
    try {
      return this.#once(await this.#prepare(config), resolve);
    } catch (error) {
      resolve();
      throw error;
    }
  }

  /** No other site comes. What is prepared is given up; what is under way is waited for. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.#giveUp();
    await this.#settled;
  }

  async #prepare(config: Config): Promise<Prepared> {
    if (this.#hasEnded) throw new OperationFault('unavailable', 'The server is stopping.');
    const before = this.#site;
    const fixed = describeFixedChanges(before.config, config);
    if (fixed !== undefined) throw new OperationFault('invalid', fixed);
    await using resources = new AsyncDisposableStack();
    const site = await createSite(config, this.#ground, before);
    resources.defer(() => site.discard(before));
    const listeners = await this.#listeners.prepare(site);
    resources.defer(() => listeners.abandon());
    const kept = resources.move();
    return {
      commit: async () => {
        this.#site = site;
        try {
          await listeners.commit();
        } finally {
          before.retire(site);
        }
      },
      abandon: () => kept.disposeAsync(),
    };
  }

  /** Of the two only the one that is called first does something; after it another configuration may be prepared. */
  #once({ commit, abandon }: Prepared, onSettled: () => void): Prepared {
    let isOpen = true;
    const first = (step: () => Promise<void>) => async (): Promise<void> => {
      if (!isOpen) return;
      isOpen = false;
      // It knows the site before, which is not to be kept for its sake.
      this.#giveUp = nothing;
      await step().finally(onSettled);
    };
    const prepared = { commit: first(commit), abandon: first(abandon) };
    this.#giveUp = prepared.abandon;
    if (this.#hasEnded) void prepared.abandon();
    return prepared;
  }
}

async function nothing(): Promise<void> {}
