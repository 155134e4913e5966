/** Reloads of a server: one after the other, each told of in the log. */

import { OperationFault } from '../admin/operations.ts';
import type { Emit, LifeEvent } from '../telemetry/events.ts';

/** What reloads are made with. */
export interface ReloadsOptions {
  readonly emit: Emit;
  readonly addresses: () => readonly string[];
  /** Reads the configuration, and goes on with it. Rejects with what is wrong with it, one problem a line. */
  readonly perform: () => Promise<void>;
}

/** The reloads of one server. */
export interface Reloads {
  /**
   * Resolves when the server goes on with what the configuration was after the call. Rejects with `OperationFault`: `invalid`
   * where it could not be used, `unavailable` after the end.
   */
  reload(): Promise<void>;
  /** No further one begins. One that is under way is not waited for: what it reads, and whom it asks, may hang. */
  end(): void;
}

/** Creates them. Who asks while one is under way shares the next one with all others who do: it reads what is there by then. */
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
      // The one before may be over, and this one about to begin.
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
