/** The operations of the admin API on several workers: one of them performs an operation, or all do. */

import {
  type FillStatus,
  type LogLevel,
  OperationFault,
  type Operations,
  type Readiness,
  type StoreOperations,
  type WorkerOperations,
} from '../admin/operations.ts';
import { ChannelGone, type Remote } from './channel.ts';

/** A worker as the one who starts it knows it. */
export interface RosterEntry {
  readonly id: number;
  /** 0 while there is no process. */
  readonly pid: number;
  /** `serving`, or what it does instead: it starts, or ends, or waits for its turn to be started again. */
  readonly state: string;
  /** Undefined while it cannot be asked. */
  readonly remote: Remote<StoreOperations & WorkerOperations> | undefined;
}

/** What the operations of a supervisor are made of. */
export interface FleetParts {
  /** All workers that there should be, by their numbers. */
  readonly roster: () => readonly RosterEntry[];
  readonly isStopping: () => boolean;
  /** The addresses that clients connect to. */
  readonly addresses: () => readonly string[];
  /** The configuration that runs, as people may see it. */
  readonly readConfig: () => unknown;
  /** The level that workers start with, and the supervisor's own log has. */
  readonly readLogLevel: () => LogLevel;
  readonly keepLogLevel: (level: LogLevel) => void;
  readonly reload: () => Promise<void>;
  /** Puts together what processes have counted, in the text format of Prometheus; what the supervisor counts itself included. */
  readonly mergeMetrics: (readings: readonly (readonly object[])[]) => Promise<string>;
  /** Resolves when so many milliseconds are over, or the signal is aborted. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

type WorkerRemote = Remote<StoreOperations & WorkerOperations>;

/** A worker that takes longer than this to tell what it knows is left out. */
const patienceMs = 5_000;

/** Creates them. A worker that dies meanwhile is left out of what all are asked, and another one asked in its place. */
export function createFleetOperations(parts: FleetParts): Operations {
  const anyone = <T>(ask: (remote: WorkerRemote) => Promise<T>): Promise<T> => askAnyone(parts.roster(), ask);
  const everyone = <T>(ask: (remote: WorkerRemote) => Promise<T>): Promise<readonly T[]> => askAll(parts, ask);
  return {
    listEntries: (search, limit, after) => anyone((remote) => remote.listEntries(search, limit, after)),
    inspectEntry: (key, generation) => anyone((remote) => remote.inspectEntry(key, generation)),
    // What was removed once is removed: what a dead worker did of it is not counted, but done.
    purge: (order) => anyone((remote) => remote.purge(order)),
    // What was fetched already is found in the store.
    warm: (order) => anyone((remote) => remote.warm(order)),
    // One worker speaks for itself: what others have in flight it asks them for only when it answers a client.
    explain: (order) => anyone((remote) => remote.explain(order)),
    listFills: async () => (await everyone((remote) => remote.listFills())).flat().toSorted(byAge),
    cancelFill: async (id) => (await everyone((remote) => remote.cancelFill(id))).includes(true),
    listOrigins: async () => (await everyone((remote) => remote.listOrigins())).flat().toSorted(byRoute),
    setLogLevel: async (level) => {
      parts.keepLogLevel(level);
      await everyone((remote) => remote.setLogLevel(level));
    },
    readReadiness: async () => readinessOf(parts),
    readConfig: async () => parts.readConfig(),
    readLogLevel: async () => parts.readLogLevel(),
    reload: () => parts.reload(),
    formatMetrics: async () => await parts.mergeMetrics(await everyone((remote) => remote.readMetrics())),
  };
}

function readinessOf({ roster, isStopping, addresses }: FleetParts): Readiness {
  const workers = roster().map(({ id, pid, state }) => ({ id, pid, state }));
  const isServed = workers.some(isServing);
  const reason = isStopping() ? 'The server is stopping.' : isServed ? undefined : 'No worker serves.';
  return { isReady: reason === undefined, reason, workers, addresses: addresses() };
}

/** Asks one worker, and the next one where it dies before it has answered, or cannot answer now. */
async function askAnyone<T>(roster: readonly RosterEntry[], ask: (remote: WorkerRemote) => Promise<T>): Promise<T> {
  const servingFirst = [...roster].sort((one, other) => Number(isServing(other)) - Number(isServing(one)));
  for (const remote of remotesOf(servingFirst)) {
    try {
      return await ask(remote);
    } catch (thrown) {
      if (!isAbsent(thrown)) throw thrown;
    }
  }
  throw new OperationFault('unavailable', 'No worker serves.');
}

async function askAll<T>(
  { roster, wait }: Pick<FleetParts, 'roster' | 'wait'>,
  ask: (remote: WorkerRemote) => Promise<T>,
): Promise<readonly T[]> {
  const answered = new AbortController();
  const late = wait(patienceMs, answered.signal).then(() => undefined);
  const replies = remotesOf(roster()).map((remote) =>
    ask(remote).then(
      (value) => ({ value }),
      (thrown: unknown) => {
        if (isAbsent(thrown)) return undefined;
        throw thrown;
      },
    ),
  );
  try {
    const heard = await Promise.all(replies.map((reply) => Promise.race([reply, late])));
    return heard.flatMap((reply) => (reply === undefined ? [] : [reply.value]));
  } finally {
    answered.abort();
  }
}

/** Whether a worker has died, or does not serve yet. */
function isAbsent(thrown: unknown): boolean {
  return thrown instanceof ChannelGone || (thrown instanceof OperationFault && thrown.reason === 'unavailable');
}

function isServing({ state }: Pick<RosterEntry, 'state'>): boolean {
  return state === 'serving';
}

function remotesOf(roster: readonly RosterEntry[]): readonly WorkerRemote[] {
  return roster.flatMap(({ remote }) => (remote === undefined ? [] : [remote]));
}

function byAge(one: FillStatus, other: FillStatus): number {
  return one.startedAt - other.startedAt || (one.id < other.id ? -1 : 1);
}

function byRoute(one: { route: string; url: string; worker: number }, other: typeof one): number {
  return compare(one.route, other.route) || compare(one.url, other.url) || one.worker - other.worker;
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
