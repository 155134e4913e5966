/** Fake workers without processes: a test scripts what each of them does, and sees the calls that it gets. */

import { ChannelGone, type SupervisorCalls, type WorkerCalls } from '../../../src/fleet/channel.ts';
import type { Ending, WorkerProcess } from '../../../src/fleet/worker-slot.ts';

type CallName = keyof WorkerCalls;

/** What a worker does at a call instead of answering at once: it may fail, or never answer. */
export type Script = Partial<Record<CallName, (...values: readonly unknown[]) => unknown>>;

/** A fake worker. */
export interface FakeWorker {
  readonly pid: number;
  /** The names of all calls, in order. Calls about a socket have its arguments too. */
  readonly asked: string[];
  /** The first argument of `start`. */
  readonly start: unknown;
  /** The calls that it can make to its supervisor. */
  readonly supervisor: SupervisorCalls;
  /** Replaces its script from now on. */
  plan(script: Script): void;
  /** Ends it. `ending` is what the system reports; by default SIGKILL. */
  die(ending?: Ending): void;
  readonly isAlive: boolean;
  /** Whether the supervisor killed it. */
  readonly wasKilled: boolean;
}

/** All workers that were started, and the script of later ones. */
export interface FakeWorkers {
  readonly all: readonly FakeWorker[];
  fork(calls: SupervisorCalls): WorkerProcess;
  /** Sets the script of workers that are started from now on. */
  plan(script: Script): void;
}

/** Creates the function that forks fake workers. A worker that is stopped exits with 0. */
export function createFakeWorkers(): FakeWorkers {
  const all: FakeWorker[] = [];
  let nextScript: Script = {};
  return {
    all,
    plan: (script) => {
      nextScript = script;
    },
    fork(calls) {
      const { worker, process } = createWorker(1000 + all.length, calls, nextScript);
      all.push(worker);
      return process;
    },
  };
}

function createWorker(pid: number, supervisor: SupervisorCalls, first: Script) {
  const asked: string[] = [];
  const ended = Promise.withResolvers<Ending>();
  let script = first;
  let isAlive = true;
  let wasKilled = false;
  let start: unknown;
  const die = (ending: Ending = { kind: 'signal', signal: 'SIGKILL' }): void => {
    isAlive = false;
    ended.resolve(ending);
  };
  const gone = ended.promise.then(() => Promise.reject(new ChannelGone()));
  gone.catch(() => undefined);

  const usual: Script = {
    start: () => ({ addresses: ['http://127.0.0.1:1'] }),
    commitReload: () => ['http://127.0.0.1:2'],
    stop: () => setImmediate(() => die({ kind: 'exit', code: 0 })),
  };
  const ask = async (name: CallName, values: readonly unknown[]): Promise<unknown> => {
    if (!isAlive) throw new ChannelGone();
    const isAboutSocket = name === 'takeSocket' || name === 'leaveSocket';
    if (name !== 'beat') asked.push(isAboutSocket ? `${name} ${values[0]} ${values[1]}` : name);
    if (name === 'start') [start] = values;
    return await Promise.race([(script[name] ?? usual[name])?.(...values), gone]);
  };
  const remote = new Proxy({} as WorkerProcess['remote'], {
    get:
      (_, name) =>
      (...values: unknown[]) =>
        ask(name as CallName, values),
  });
  const worker: FakeWorker = {
    pid,
    asked,
    supervisor,
    die,
    plan: (next) => {
      script = next;
    },
    get start() {
      return start;
    },
    get isAlive() {
      return isAlive;
    },
    get wasKilled() {
      return wasKilled;
    },
  };
  const process: WorkerProcess = {
    pid,
    remote,
    gone: ended.promise.then(() => undefined),
    ended: ended.promise,
    kill() {
      if (!isAlive) return;
      wasKilled = true;
      die();
    },
  };
  return { worker, process };
}
