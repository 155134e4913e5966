/** Operations of a fleet: which workers are asked, and what happens when a worker dies. */

import { describe, expect, it } from 'vitest';
import {
  type LogLevel,
  OperationFault,
  type StoreOperations,
  type WorkerOperations,
} from '../../src/admin/operations.ts';
import { ChannelGone, type Remote } from '../../src/fleet/channel.ts';
import { createFleetOperations, type FleetParts, type RosterEntry } from '../../src/fleet/operations.ts';
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
    const store = { entries: 1, memoryBytes: 2, memoryLimitBytes: 4, diskBytes: 10, diskLimitBytes: 20 };
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
        return {} as never;
      },
      warm: async (...values: unknown[]) => {
        calls.push(values);
        return [];
      },
    };
    const { operations } = createFleet([worker(1, 'serving', remote)]);
    await operations.listEntries({ kind: 'all' }, 5, 'here');
    await operations.inspectEntry('key', 'generation');
    await operations.warm({ urls: ['u'] });
    expect(calls).toEqual([[{ kind: 'all' }, 5, 'here'], ['key', 'generation'], [{ urls: ['u'] }]]);
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
});
