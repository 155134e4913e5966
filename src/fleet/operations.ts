/** The operations of the admin API over several workers: one worker performs an operation, or all of them do. */

import { byAge, byRoute, composeActivity } from '../admin/activity.ts';
import { commonSpans, formatRankCursor, readRankCursor } from '../admin/entries.ts';
import {
  type ActivityTotals,
  type EntryDetails,
  type EntryInProcess,
  type EntryList,
  type EntryStatus,
  type LogLevel,
  OperationFault,
  type Operations,
  type Readiness,
  type StoreOperations,
  type WorkerOperations,
} from '../admin/operations.ts';
import { SpanSet } from '../bytes/span.ts';
import { compareRanks, hasFallingRanks } from '../store/entry-rules.ts';
import type { EntryOrder } from '../store/store.ts';
import { ChannelGone, type Remote } from './channel.ts';

/** A worker as its supervisor knows it. */
export interface RosterEntry {
  readonly id: number;
  /** 0 while there is no process. */
  readonly pid: number;
  /** `serving`; `silent` where it serves but does not answer; `starting`; `stopping`; `away` while there is no process. */
  readonly state: string;
  /** Why requests should be sent to other machines, as the worker says; undefined where there is no reason. */
  readonly unreadyReason?: string | undefined;
  /** Undefined while it cannot be called. */
  readonly remote: Remote<StoreOperations & WorkerOperations> | undefined;
}

/** The parts that the operations of a supervisor are made of. */
export interface FleetParts {
  /** All slots, ordered by number. */
  readonly roster: () => readonly RosterEntry[];
  readonly isStopping: () => boolean;
  /** The addresses that clients connect to. */
  readonly addresses: () => readonly string[];
  /** The active configuration, without secrets. */
  readonly readConfig: () => unknown;
  /** The level of the supervisor's own log, with which new workers start. */
  readonly readLogLevel: () => LogLevel;
  readonly keepLogLevel: (level: LogLevel) => void;
  readonly reload: () => Promise<void>;
  /** Merges the metrics of workers with those of the supervisor. Resolves with the text format of Prometheus. */
  readonly mergeMetrics: (readings: readonly (readonly object[])[]) => Promise<string>;
  /** As `mergeMetrics`, for the metrics of `readActivity`. Resolves with their totals. */
  readonly totalMetrics: (readings: readonly (readonly object[])[]) => Promise<ActivityTotals>;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Resolves after `ms` milliseconds, or when the signal is aborted. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
}

type WorkerRemote = Remote<StoreOperations & WorkerOperations>;

/** Where all workers are asked, one that takes longer than this to answer is left out. In milliseconds. */
const patienceMs = 5_000;

/** Creates the operations. A worker that dies meanwhile is left out where all are asked, and replaced by another where one is. */
export function createFleetOperations(parts: FleetParts): Operations {
  const fromOne = <T>(ask: (remote: WorkerRemote) => Promise<T>): Promise<T> => askOne(parts.roster(), ask);
  const startedAt = parts.now();
  const fromAll = <T>(ask: (remote: WorkerRemote) => Promise<T>): Promise<readonly T[]> => askAll(parts, ask);
  return {
    listEntries: async (search, limit, after, order) => {
      const list = (remote: WorkerRemote) => remote.listEntries(search, limit, after, order);
      const pages = order?.by === 'used' ? await fromAll(list) : [await fromOne(list)];
      const generations = [...new Set(pages.flatMap(({ entries }) => entries.map(({ generation }) => generation)))];
      const uses = lastUses(generations, await fromAll((remote) => remote.readUses(generations)));
      if (order?.by === 'used') return mergeByUse(pages, uses, order, limit);
      const [{ entries, next } = nothingListed] = pages;
      return { entries: entries.map((entry) => withUse(entry, uses)), next };
    },
    inspectEntry: async (key, generation) => {
      const details = await fromOne((remote) => remote.inspectEntry(key, generation));
      const others = await fromAll((remote) => remote.inspectHere(generation, details.sizeBytes));
      const uses = lastUses([generation], await fromAll((remote) => remote.readUses([generation])));
      return mergeDetails({ ...details, usedAt: uses.get(generation) }, others);
    },
    // May be repeated on another worker: entries that a dead worker removed stay removed, but are not counted.
    purge: (order) => fromOne((remote) => remote.purge(order)),
    // May be repeated on another worker: responses that were fetched already are found in the store.
    warm: (order) => fromOne((remote) => remote.warm(order)),
    // Shows what one worker knows: it asks other workers about their flights only when it answers a client.
    explain: (order) => fromOne((remote) => remote.explain(order)),
    listFills: async () => (await fromAll((remote) => remote.listFills())).flat().toSorted(byAge),
    cancelFill: async (id) => (await fromAll((remote) => remote.cancelFill(id))).includes(true),
    listOrigins: async () => (await fromAll((remote) => remote.listOrigins())).flat().toSorted(byRoute),
    readDecisions: async (search, limit) => {
      const decisions = (await fromAll((remote) => remote.readDecisions(search, limit))).flat();
      return decisions.toSorted((one, other) => other.at - one.at).slice(0, limit);
    },
    setLogLevel: async (level) => {
      parts.keepLogLevel(level);
      await fromAll((remote) => remote.setLogLevel(level));
    },
    readReadiness: async () => readinessOf(parts),
    readConfig: async () => parts.readConfig(),
    readLogLevel: async () => parts.readLogLevel(),
    reload: () => parts.reload(),
    formatMetrics: async () => await parts.mergeMetrics(await fromAll((remote) => remote.readMetrics())),
    readActivity: async () => {
      const readings = await fromAll((remote) => remote.readActivity());
      const totals = await parts.totalMetrics(readings.map(({ metrics }) => metrics));
      const { isReady, workers } = readinessOf(parts);
      return composeActivity({ at: parts.now(), startedAt, isReady, workers, totals, readings });
    },
  };
}

const nothingListed: EntryList = { entries: [], next: undefined };

/** Returns the last use of each generation that any worker knows of. */
function lastUses(
  generations: readonly string[],
  known: readonly (readonly (number | undefined)[])[],
): ReadonlyMap<string, number> {
  const uses = new Map<string, number>();
  for (const [at, generation] of generations.entries()) {
    const last = Math.max(...known.map((each) => each[at] ?? 0));
    if (last > 0) uses.set(generation, last);
  }
  return uses;
}

function withUse(entry: EntryStatus, uses: ReadonlyMap<string, number>): EntryStatus {
  return { ...entry, usedAt: uses.get(entry.generation) ?? entry.usedAt };
}

/**
 * Merges the pages of all workers by last use. Each worker orders entries by the uses that it knows of, so an entry counts only in
 * the page of the worker that knows of its last use: it is in the list once, at the right place.
 */
function mergeByUse(
  pages: readonly EntryList[],
  uses: ReadonlyMap<string, number>,
  order: EntryOrder,
  limit: number,
): EntryList {
  const isFalling = hasFallingRanks(order);
  // Behind the end of a page, entries of that worker are not known yet.
  const [end] = pages
    .flatMap(({ next }) => (next === undefined ? [] : [readRankCursor(next, order)]))
    .sort((one, other) => compareRanks(one, other, isFalling));
  const merged = new Map<string, EntryStatus>();
  for (const entry of pages.flatMap(({ entries }) => entries)) {
    if ((entry.usedAt ?? 0) === (uses.get(entry.generation) ?? 0)) merged.set(entry.generation, entry);
  }
  const ranked = [...merged.values()]
    .map((entry) => ({ rank: entry.usedAt ?? 0, generation: entry.generation, entry }))
    .filter((each) => end === undefined || compareRanks(each, end, isFalling) <= 0)
    .sort((one, other) => compareRanks(one, other, isFalling));
  const chosen = ranked.slice(0, limit);
  const last = ranked.length > limit ? chosen.at(-1) : end;
  return {
    entries: chosen.map(({ entry }) => entry),
    next: last === undefined ? undefined : formatRankCursor(last, order),
  };
}

/** Adds what the workers have of an entry besides its stored bytes. */
function mergeDetails(details: EntryDetails, others: readonly EntryInProcess[]): EntryDetails {
  const hot = new SpanSet(details.hot);
  for (const span of others.flatMap((other) => other.hot)) hot.add(span);
  const arriving = new Map(
    [details, ...others]
      .flatMap((each) => each.arriving)
      .map((span) => [`${span.fillId} ${span.start} ${span.end}`, span]),
  );
  return {
    ...details,
    hot: commonSpans(details.present, [...hot]),
    arriving: [...arriving.values()].sort((one, other) => one.start - other.start),
  };
}

function readinessOf({ roster, isStopping, addresses }: FleetParts): Readiness {
  const workers = roster().map(({ id, pid, state }) => ({ id, pid, state }));
  const unready = roster().find(({ unreadyReason }) => unreadyReason !== undefined);
  const why = unready && `Worker ${unready.id}: ${unready.unreadyReason}`;
  const reason = isStopping() ? 'The server is stopping.' : workers.some(isServing) ? why : 'No worker serves.';
  return { isReady: reason === undefined, reason, workers, addresses: addresses() };
}

/** Asks one worker, and the next one where it dies before it answers or is not available now. */
async function askOne<T>(roster: readonly RosterEntry[], ask: (remote: WorkerRemote) => Promise<T>): Promise<T> {
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
    const answers = await Promise.all(replies.map((reply) => Promise.race([reply, late])));
    return answers.flatMap((reply) => (reply === undefined ? [] : [reply.value]));
  } finally {
    answered.abort();
  }
}

/** Checks whether a worker has died, or is not available now. */
function isAbsent(thrown: unknown): boolean {
  return thrown instanceof ChannelGone || (thrown instanceof OperationFault && thrown.reason === 'unavailable');
}

function isServing({ state }: Pick<RosterEntry, 'state'>): boolean {
  return state === 'serving';
}

function remotesOf(roster: readonly RosterEntry[]): readonly WorkerRemote[] {
  return roster.flatMap(({ remote }) => (remote === undefined ? [] : [remote]));
}
