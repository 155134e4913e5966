/** Starts processes that share a store's directory, and delivers the changes that they announce to each other. */

import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { FromSharing, ToSharing } from './sharing-messages.ts';

const program = fileURLToPath(new URL('./sharing-program.ts', import.meta.url));

/** The last message of a process. */
export type Ended = Extract<FromSharing, { kind: 'ended' }>;

/** A sharing process. */
export interface SharingProcess {
  readonly instance: string;
  /** Waits until it has taken so many further steps. Rejects when it has died. */
  afterSteps(count: number): Promise<void>;
  /** Ends it in order, once it has taken enough steps. Rejects when it has died. */
  end(): Promise<Ended>;
  /** Kills it, waits for its exit, and announces it to the others as fallen. */
  kill(): Promise<void>;
}

/** Starts processes on one directory. The end of the running test kills them. */
export class SharingProcesses {
  readonly #dir: string;
  readonly #children = new Map<string, ChildProcess>();
  /** By message id: the processes that have not acknowledged it, and a callback when all have. */
  readonly #applying = new Map<number, { readonly waiting: Set<string>; readonly done: () => void }>();
  #ids = 0;
  #count = 0;

  constructor(dir: string) {
    this.#dir = dir;
    onTestFinished(async () => {
      for (const child of this.#children.values()) {
        const gone = once(child, 'exit');
        child.kill('SIGKILL');
        await gone;
      }
    });
  }

  /** Starts another process. Resolves when it has opened the store. */
  async start(fallen: readonly string[] = []): Promise<SharingProcess> {
    this.#count += 1;
    const instance = `p${this.#count}`;
    const args = [this.#dir, instance, String(this.#count), String(this.#count === 1), fallen.join(',')];
    const child = fork(program, args, { serialization: 'advanced', execArgv: [] });
    this.#children.set(instance, child);
    child.once('exit', () => this.#lose(instance));
    const ready = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<Ended>();
    let steps = 0;
    const stepping = new Set<() => void>();
    ended.promise.catch(() => {});
    child.once('exit', (code, signal) => {
      const error = new Error(`${instance} is gone: ${code ?? signal}`);
      ready.reject(error);
      ended.reject(error);
    });
    child.on('message', (message: FromSharing) => {
      if (message.kind === 'ready') ready.resolve();
      if (message.kind === 'stepped') {
        steps = message.steps;
        for (const look of stepping) look();
      }
      if (message.kind === 'ended') {
        ended.resolve(message);
        child.disconnect();
      }
      if (message.kind === 'applied') this.#noteApplied(instance, message.id);
      if (message.kind === 'tell') {
        this.#tell(instance, message.change, () => send(child, { kind: 'told', id: message.id }));
      }
    });
    await ready.promise;
    return {
      instance,
      afterSteps: async (count) => {
        const wanted = steps + count;
        const taken = new Promise<void>((resolve) => {
          const look = () => {
            if (steps >= wanted && stepping.delete(look)) resolve();
          };
          stepping.add(look);
        });
        await Promise.race([taken, ended.promise]);
      },
      end: async () => {
        send(child, { kind: 'end' });
        return await ended.promise;
      },
      kill: async () => {
        const gone = once(child, 'exit');
        child.kill('SIGKILL');
        await gone;
        await new Promise<void>((resolve) => this.#tell(instance, { kind: 'fallen', instances: [instance] }, resolve));
      },
    };
  }

  #tell(by: string, change: Extract<FromSharing, { kind: 'tell' }>['change'], done: () => void): void {
    this.#ids += 1;
    const others = [...this.#children].filter(([instance]) => instance !== by);
    if (others.length === 0) {
      done();
      return;
    }
    this.#applying.set(this.#ids, { waiting: new Set(others.map(([instance]) => instance)), done });
    for (const [, child] of others) send(child, { kind: 'apply', id: this.#ids, change });
  }

  #noteApplied(instance: string, id: number): void {
    const heeding = this.#applying.get(id);
    heeding?.waiting.delete(instance);
    if (heeding?.waiting.size !== 0) return;
    this.#applying.delete(id);
    heeding.done();
  }

  #lose(instance: string): void {
    this.#children.delete(instance);
    for (const id of [...this.#applying.keys()]) this.#noteApplied(instance, id);
  }
}

function send(child: ChildProcess, message: ToSharing): void {
  // A process that has just died gets no message; its exit is handled elsewhere.
  if (child.connected) child.send(message, () => {});
}
