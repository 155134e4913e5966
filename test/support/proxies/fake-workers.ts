/** Workers that are no processes: a test says what each of them does, and sees what it was asked. */

import { ChannelGone, type SupervisorCalls, type WorkerCalls } from '../../../src/fleet/channel.ts';
import type { Ending, WorkerProcess } from '../../../src/fleet/worker-slot.ts';

type CallName = keyof WorkerCalls;

/** What a worker does when it is asked, instead of answering at once: it may fail, or never answer. */
export type Script = Partial<Record<CallName, (...values: readonly unknown[]) => unknown>>;

/** One of them. */
export interface FakeWorker {
  readonly pid: number;
  /** All that it was asked, in order: the name of each call, and of a socket which one. */
  readonly asked: string[];
  /** What it started with. */
  readonly start: unknown;
  /** What it can ask its supervisor. */
  readonly supervisor: SupervisorCalls;
  /** Does something else from now on when it is asked. */
  plan(script: Script): void;
  /** Ends, as the system tells of it. */
  die(ending?: Ending): void;
  readonly isAlive: boolean;
  /** Whether it was ended by force. */
  readonly wasKilled: boolean;
}

/** All that were started, and what the next ones do. */
export interface FakeWorkers {
  readonly all: readonly FakeWorker[];
  fork(calls: SupervisorCalls): WorkerProcess;
  /** What those do that are started from now on. */
  plan(script: Script): void;
}

/** Creates a place that starts them. Who is told to stop ends with 0. */
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
