/**
 * Reloads the configuration of a running server. `Reloads` runs one reload after the other and logs it; `Succession` replaces
 * the active configuration of a process without losing a request or a connection; `findFixedChanges` names the options that
 * need a restart.
 */

import { OperationFault } from '../admin/operations.ts';
import type { Config } from '../config/schema.ts';
import type { Emit, LifeEvent } from '../telemetry/events.ts';
import type { Listeners, Prepared } from './listeners.ts';
import { createSite, type Site, type SiteContext } from './site.ts';

/** Options of reloads. */
interface ReloadsOptions {
  readonly emit: Emit;
  readonly addresses: () => readonly string[];
  /** Reads the configuration, and activates it. Rejects with its problems, one in a line. */
  readonly perform: () => Promise<void>;
}

/** The reloads of one server. */
export interface Reloads {
  /**
   * Resolves when a configuration that was read after the call is active. Rejects with `OperationFault`: `invalid` where it cannot
   * be used, `unavailable` after `end`.
   */
  reload(): Promise<void>;
  /** Begins no further reload. Does not wait for a running one, which may hang. */
  end(): void;
}

/** Creates the reloads. Calls during a running reload share the next one, which reads the configuration after the running one. */
export function createReloads({ emit, addresses, perform }: ReloadsOptions): Reloads {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let hasEnded = false;

  const tell = (stage: LifeEvent['stage'], message: string) =>
    emit({ kind: 'life', stage, addresses: addresses(), message });
  const reloadNow = async (): Promise<void> => {
    if (hasEnded) throw new OperationFault('unavailable', 'The server is stopping.');
    tell('reloading', 'reloading the configuration');
    try {
      await perform();
    } catch (thrown) {
      const { message } = thrown instanceof Error ? thrown : new Error(String(thrown));
      for (const line of message.split('\n')) tell('reload_failed', `the configuration stays as it is: ${line}`);
      throw thrown instanceof OperationFault ? thrown : new OperationFault('invalid', message);
    }
    tell('reloaded', `reloaded: serving ${addresses().join(' and ')}`);
  };
  const begin = (): Promise<void> => {
    next = undefined;
    const begun = reloadNow().finally(() => {
      if (running === begun) running = undefined;
    });
    running = begun;
    return begun;
  };
  return {
    reload() {
      // The running reload may be over, and the next one about to begin.
      if (next !== undefined) return next;
      if (running === undefined) return begin();
      next = running.catch(() => undefined).then(begin);
      return next;
    },
    end() {
      hasEnded = true;
    },
  };
}

/** Holds the active site, and replaces it by the next one. */
export class Succession {
  readonly #ground: SiteContext;
  readonly #listeners: Listeners;
  #site: Site;
  /** Resolved when no change is prepared or under way. */
  #settled: Promise<void> = Promise.resolve();
  /** Discards the prepared change, unless its commit has begun. */
  #giveUp: () => Promise<void> = nothing;
  #hasEnded = false;

  constructor(first: Site, ground: SiteContext, listeners: Listeners) {
    this.#site = first;
    this.#ground = ground;
    this.#listeners = listeners;
  }

  /** The active site. */
  get site(): Site {
    return this.#site;
  }

  /**
   * Prepares another configuration, once no other one is prepared. Rejects, and changes nothing, where it cannot be used: with
   * `OperationFault` where it changes an option that needs a restart, and after `end`; otherwise as `createSite` and
   * `Listeners.prepare` do.
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

  /** Activates no further site. Discards what is prepared, and waits for a commit that is under way. */
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

  /** Lets only the first of the two calls do something. After it another configuration may be prepared. */
  #once({ commit, abandon }: Prepared, onSettled: () => void): Prepared {
    let isOpen = true;
    const first = (step: () => Promise<void>) => async (): Promise<void> => {
      if (!isOpen) return;
      isOpen = false;
      // The function refers to the previous site, and must not keep it alive.
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

/**
 * Returns the names of the changed options that need a restart, as they are written: those of the store, which stays open, and of
 * the machines that share it; the number of workers; the admin listener; the pseudonym that other proxies know; the format of the log; and the permissions of a
 * Unix socket that stays bound.
 */
export function findFixedChanges(before: Config, after: Config): readonly string[] {
  return [
    ...changesIn('store', before.store, after.store),
    ...changesIn('fleet', before.fleet, after.fleet),
    ...changesIn('workers', before.workers, after.workers),
    ...changesIn('admin', before.admin, after.admin),
    ...changesIn('pseudonym', before.pseudonym, after.pseudonym),
    ...changesIn('log.format', before.log.format, after.log.format),
    ...changedModes(before, after),
  ];
}

/** Describes them in a sentence; undefined where there are none. */
export function describeFixedChanges(before: Config, after: Config): string | undefined {
  const names = findFixedChanges(before, after);
  if (names.length === 0) return undefined;
  return `${names.join(', ')} cannot be changed while the server runs: this needs a restart`;
}

function changesIn(path: string, before: unknown, after: unknown): readonly string[] {
  if (isSection(before) && isSection(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => changesIn(`${path}.${name}`, before[name], after[name]));
  }
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [path];
}

/** Permissions are set when a Unix socket is bound, and a place that stays is not bound again. */
function changedModes(before: Config, after: Config): readonly string[] {
  return after.listen.flatMap(({ address, mode }, index) => {
    if (address.kind !== 'unix') return [];
    const same = before.listen.find((each) => each.address.kind === 'unix' && each.address.path === address.path);
    return same === undefined || same.mode === mode ? [] : [`listen[${index}].mode`];
  });
}

/** Checks whether a value has options of its own. A single option that was parsed, such as an address or a secret, has a `kind`. */
function isSection(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !('kind' in value);
}
