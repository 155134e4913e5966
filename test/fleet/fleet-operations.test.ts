/** Operations of a fleet: which workers are asked, and what happens when a worker dies. */

import { describe, expect, it } from 'vitest';
import { formatRankCursor, readRankCursor } from '../../src/admin/entries.ts';
import {
  type LogLevel,
  OperationFault,
  type StoreOperations,
  type WorkerOperations,
} from '../../src/admin/operations.ts';
import { ChannelGone, type Remote } from '../../src/fleet/channel.ts';
import { createFleetOperations, type FleetParts, type RosterEntry } from '../../src/fleet/operations.ts';
import { compareRanks } from '../../src/store/entry-rules.ts';
import type { EntryRank } from '../../src/store/store.ts';
import { someActivity } from '../support/proxies/fake-operations.ts';

type WorkerRemote = Remote<StoreOperations & WorkerOperations>;

const gone = () => Promise.reject(new ChannelGone());
const never = () => new Promise<never>(() => {});

/** Returns a worker with these calls. */
function worker(id: number, state: string, remote?: Partial<WorkerRemote>): RosterEntry {
  return { id, pid: 100 + id, state, remote: remote as WorkerRemote | undefined };
}

const { requests, bytes, latency, connectionsOpen } = someActivity;

function createFleet(roster: readonly RosterEntry[], overrides: Partial<FleetParts> = {}) {
  const levels: LogLevel[] = [];
  const waits: (() => void)[] = [];
  const operations = createFleetOperations({
    roster: () => roster,
    isStopping: () => false,
    addresses: () => ['http://127.0.0.1:8080'],
    readConfig: () => ({ workers: roster.length }),
    readLogLevel: () => levels.at(-1) ?? 'info',
    keepLogLevel: (level) => levels.push(level),
    reload: async () => {},
    mergeMetrics: async (readings) => JSON.stringify(readings),
    totalMetrics: async () => ({ requests, bytes, latency, connectionsOpen }),
    now: () => 5,
    wait: (_ms, signal) =>
      new Promise((resolve) => {
        waits.push(resolve);
        signal.addEventListener('abort', () => resolve());
      }),
    ...overrides,
  });
  return { operations, levels, endPatience: () => void waits.map((resolve) => resolve()) };
}

const purge = { search: { kind: 'all' }, mode: 'hard' } as const;

describe('the activity', () => {
  it('is read of all workers that answer, and names all', async () => {
    const store = {
      entries: 1,
      memoryBytes: 2,
      memoryLimitBytes: 4,
      diskBytes: 10,
      diskLimitBytes: 20,
      isShared: false,
    };
    const reading = { metrics: [{ name: 'a' }], store, origins: [], fills: [], fillCount: 3, hottest: [] };
    const read: unknown[] = [];
    const { operations } = createFleet(
      [
        worker(1, 'serving', { readActivity: async () => reading }),
        worker(2, 'serving', { readActivity: async () => reading }),
        worker(3, 'serving', { readActivity: gone }),
        worker(4, 'away'),
      ],
      {
        totalMetrics: async (readings) => {
          read.push(...readings);
          return { requests, bytes, latency, connectionsOpen };
        },
      },
    );
    expect(await operations.readActivity()).toMatchObject({
      at: 5,
      startedAt: 5,
      isReady: true,
      workers: [{ id: 1 }, { id: 2 }, { id: 3 }, { id: 4, state: 'away' }],
      store: { entries: 1, memoryBytes: 4, diskBytes: 10 },
      fillCount: 6,
    });
    expect(read).toEqual([reading.metrics, reading.metrics]);
  });
});

describe('an operation that any worker can do', () => {
  const purged = (entries: number) => ({ purge: async () => ({ entries }) });
  const fault = new OperationFault('invalid', 'It is no URL.');
  it.each<[why: string, roster: readonly RosterEntry[], entries: number]>([
    ['the first worker that serves', [worker(1, 'serving', purged(1)), worker(2, 'serving', purged(2))], 1],
    ['a serving worker before a starting one', [worker(1, 'starting', purged(1)), worker(2, 'serving', purged(2))], 2],
    ['a live worker', [worker(1, 'waiting'), worker(2, 'serving', purged(2))], 2],
    ['the next worker where one dies', [worker(1, 'serving', { purge: gone }), worker(2, 'serving', purged(2))], 2],
    [
      'the next worker where one is not ready',
      [
        worker(1, 'serving', { purge: () => Promise.reject(new OperationFault('unavailable', 'It starts.')) }),
        worker(2, 'serving', purged(2)),
      ],
      2,
    ],
  ])('is asked of %s', async (_why, roster, entries) => {
    expect(await createFleet(roster).operations.purge(purge)).toEqual({ entries });
  });

  it('is not tried by another worker after a refusal', async () => {
    let calls = 0;
    const refuse = { purge: () => Promise.reject(fault) };
    const count = { purge: async () => ({ entries: ++calls }) };
    const { operations } = createFleet([worker(1, 'serving', refuse), worker(2, 'serving', count)]);
    await expect(operations.purge(purge)).rejects.toBe(fault);
    expect(calls).toBe(0);
  });

  it.each<[why: string, roster: readonly RosterEntry[]]>([
    ['there is no worker', []],
    ['no worker lives', [worker(1, 'waiting')]],
    ['all workers die', [worker(1, 'serving', { purge: gone }), worker(2, 'serving', { purge: gone })]],
  ])('is unavailable where %s', async (_why, roster) => {
    await expect(createFleet(roster).operations.purge(purge)).rejects.toMatchObject({ reason: 'unavailable' });
  });

  it('passes all arguments on', async () => {
    const calls: unknown[] = [];
    const remote = {
      listEntries: async (...values: unknown[]) => {
        calls.push(values);
        return { entries: [], next: undefined };
      },
      inspectEntry: async (...values: unknown[]) => {
        calls.push(values);
        return { present: [], hot: [], arriving: [] } as never;
      },
      readUses: async () => [],
      inspectHere: async () => ({ hot: [], arriving: [] }),
      warm: async (...values: unknown[]) => {
        calls.push(values);
        return [];
      },
    };
    const { operations } = createFleet([worker(1, 'serving', remote)]);
    const order = { by: 'size', isDescending: true } as const;
    await operations.listEntries({ kind: 'all' }, 5, 'here', order);
    await operations.inspectEntry('key', 'generation');
    await operations.warm({ urls: ['u'] });
    expect(calls).toEqual([[{ kind: 'all' }, 5, 'here', order], ['key', 'generation'], [{ urls: ['u'] }]]);
  });
});

describe('entries of all workers', () => {
  const entryOf = (generation: string, usedAt?: number) => ({ generation, usedAt }) as never;

  /** Returns a worker that knows of these uses, and lists by them. */
  function listing(id: number, uses: Readonly<Record<string, number>>): RosterEntry {
    const order = { by: 'used', isDescending: true } as const;
    return worker(id, 'serving', {
      readUses: async (generations) => generations.map((generation) => uses[generation]),
      listEntries: async (_search, limit, after, { isDescending } = order) => {
        const ranks = ['a', 'b', 'c', 'd', 'e'].map((generation) => ({ rank: uses[generation] ?? 0, generation }));
        const compare = (one: EntryRank, other: EntryRank) => compareRanks(one, other, isDescending);
        const place = after === undefined ? undefined : readRankCursor(after, { by: 'used', isDescending });
        const rest = ranks.toSorted(compare).filter((each) => place === undefined || compare(each, place) > 0);
        const last = rest.length > limit ? rest[limit - 1] : undefined;
        return {
          entries: rest.slice(0, limit).map(({ generation }) => entryOf(generation, uses[generation])),
          next: last && formatRankCursor(last, { by: 'used', isDescending }),
        };
      },
    });
  }

  it.each([1, 2, 3, 10])('are listed once each by their last use in any of them, in pages of %i', async (limit) => {
    const { operations } = createFleet([listing(1, { a: 10, b: 40, c: 20 }), listing(2, { a: 30, c: 5, d: 15 })]);
    for (const [isDescending, want] of [
      [true, ['b 40', 'a 30', 'c 20', 'd 15', 'e undefined']],
      [false, ['e undefined', 'd 15', 'c 20', 'a 30', 'b 40']],
    ] as const) {
      const listed: string[] = [];
      let after: string | undefined;
      do {
        const page = await operations.listEntries({ kind: 'all' }, limit, after, { by: 'used', isDescending });
        expect(page.entries.length).toBeLessThanOrEqual(limit);
        listed.push(...page.entries.map(({ generation, usedAt }) => `${generation} ${usedAt}`));
        after = page.next;
      } while (after !== undefined);
      expect(listed).toEqual(want);
    }
  });

  it('have the last use that any worker knows of', async () => {
    const first = { listEntries: async () => ({ entries: [entryOf('a', 1), entryOf('b')], next: 'n' }) };
    const { operations } = createFleet([
      worker(1, 'serving', { ...first, readUses: async () => [1, undefined] }),
      worker(2, 'serving', { readUses: async () => [7, 3] }),
    ]);
    expect(await operations.listEntries({ kind: 'all' }, 5, undefined)).toEqual({
      entries: [
        { generation: 'a', usedAt: 7 },
        { generation: 'b', usedAt: 3 },
      ],
      next: 'n',
    });
  });

  it('have what any worker holds in memory, and what its fills bring', async () => {
    const details = { sizeBytes: 100, present: [{ start: 0, end: 60 }], hot: [{ start: 0, end: 10 }], arriving: [] };
    const arriving = [{ start: 60, end: 100, fillId: 'g' }];
    const { operations } = createFleet([
      worker(1, 'serving', {
        inspectEntry: async () => details as never,
        inspectHere: async () => ({ hot: [{ start: 0, end: 10 }], arriving: [] }),
        readUses: async () => [undefined],
      }),
      worker(2, 'serving', {
        inspectHere: async () => ({
          hot: [
            { start: 5, end: 20 },
            { start: 50, end: 70 },
          ],
          arriving,
        }),
        readUses: async () => [8],
      }),
    ]);
    expect(await operations.inspectEntry('k', 'g')).toEqual({
      ...details,
      usedAt: 8,
      hot: [
        { start: 0, end: 20 },
        { start: 50, end: 60 },
      ],
      arriving,
    });
  });
});

describe('an operation that asks every worker', () => {
  const fill = (id: string, startedAt: number) => ({ id, startedAt }) as never;

  it('returns results in a stable order', async () => {
    const { operations } = createFleet([
      worker(1, 'serving', { listFills: async () => [fill('b', 2), fill('a', 2)] }),
      worker(2, 'stopping', { listFills: async () => [fill('c', 1)] }),
    ]);
    expect(await operations.listFills()).toEqual([
      { id: 'c', startedAt: 1 },
      { id: 'a', startedAt: 2 },
      { id: 'b', startedAt: 2 },
    ]);
    const origin = (route: string, url: string, id: number) => ({ route, url, worker: id }) as never;
    const { operations: others } = createFleet([
      worker(1, 'serving', {
        listOrigins: async () => [origin('b', 'u', 1), origin('a', 'v', 1), origin('a', 'u', 1)],
      }),
      worker(2, 'serving', { listOrigins: async () => [origin('a', 'u', 2)] }),
    ]);
    expect((await others.listOrigins()).map(({ route, url, worker: id }) => `${route} ${url} ${id}`)).toEqual([
      'a u 1',
      'a u 2',
      'a v 1',
      'b u 1',
    ]);
  });

  it('leaves out workers that die, start, or are away', async () => {
    const { operations } = createFleet([
      worker(1, 'serving', { listFills: gone }),
      worker(2, 'starting', { listFills: () => Promise.reject(new OperationFault('unavailable', 'It starts.')) }),
      worker(3, 'waiting'),
      worker(4, 'serving', { listFills: async () => [fill('a', 1)] }),
    ]);
    expect(await operations.listFills()).toHaveLength(1);
  });

  it('leaves out a worker that does not answer', async () => {
    const { operations, endPatience } = createFleet([
      worker(1, 'serving', { readMetrics: never }),
      worker(2, 'serving', { readMetrics: async () => [{ name: 'a' }] }),
    ]);
    const metrics = operations.formatMetrics();
    endPatience();
    expect(await metrics).toBe('[[{"name":"a"}]]');
  });

  it('fails where a worker fails for another reason', async () => {
    const failure = new Error('a bug');
    const { operations } = createFleet([
      worker(1, 'serving', { listFills: () => Promise.reject(failure) }),
      worker(2, 'serving', { listFills: async () => [] }),
    ]);
    await expect(operations.listFills()).rejects.toBe(failure);
  });

  it('cancels a fill in whichever worker it runs', async () => {
    const { operations } = createFleet([
      worker(1, 'serving', { cancelFill: async () => false }),
      worker(2, 'serving', { cancelFill: async (id) => id === 'a' }),
    ]);
    expect([await operations.cancelFill('a'), await operations.cancelFill('b')]).toEqual([true, false]);
  });

  it('sets the log level, also for workers that start later', async () => {
    const received: string[] = [];
    const { operations, levels } = createFleet([
      worker(1, 'serving', { setLogLevel: async (level) => void received.push(level) }),
      worker(2, 'serving', { setLogLevel: gone }),
    ]);
    await operations.setLogLevel('debug');
    expect([received, levels, await operations.readLogLevel()]).toEqual([['debug'], ['debug'], 'debug']);
  });
});

describe('the readiness of a fleet', () => {
  it.each<[states: readonly string[], isStopping: boolean, isReady: boolean, reason: string | undefined]>([
    [['serving', 'serving'], false, true, undefined],
    [['starting', 'serving'], false, true, undefined],
    [['starting', 'waiting'], false, false, 'No worker serves.'],
    [['silent'], false, false, 'No worker serves.'],
    [['serving'], true, false, 'The server is stopping.'],
  ])('%j, stopping: %s', async (states, isStopping, isReady, reason) => {
    const roster = states.map((state, index) => worker(index + 1, state));
    const { operations } = createFleet(roster, { isStopping: () => isStopping });
    expect(await operations.readReadiness()).toEqual({
      addresses: ['http://127.0.0.1:8080'],
      isReady,
      reason,
      workers: states.map((state, index) => ({ id: index + 1, pid: 101 + index, state })),
    });
  });

  it('names a worker that cannot keep up with other machines', async () => {
    const slow = { ...worker(2, 'serving'), unreadyReason: 'It cannot keep up.' };
    const { operations } = createFleet([worker(1, 'serving'), slow]);
    const told = { isReady: false, reason: 'Worker 2: It cannot keep up.' };
    expect(await operations.readReadiness()).toMatchObject(told);
  });
});
