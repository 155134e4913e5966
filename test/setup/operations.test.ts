/** The operations of one process while it starts, serves and stops. */

import { describe, expect, it } from 'vitest';
import { type LogLevel, OperationFault } from '../../src/admin/operations.ts';
import { checkConfig } from '../../src/config/load.ts';
import { createRangeAbility } from '../../src/origin/range-ability.ts';
import type { Route } from '../../src/routing/router.ts';
import { createOperations, type ServerParts } from '../../src/setup/operations.ts';
import { fakeOperations, someActivity, someEntry } from '../support/proxies/fake-operations.ts';

const url = (text: string) => new URL(text);

function routeWith(name: string, more: Partial<Route>): Route {
  const rangeSupport = createRangeAbility({ mode: 'auto', now: () => 0, forgetAfterMs: 1, onDistrust: () => {} });
  return { name, originUrl: url(`http://${name}.test/`), rangeSupport, ...more } as Route;
}

const { requests, bytes, latency, connectionsOpen } = someActivity;
const totals = { requests, bytes, latency, connectionsOpen };

function createGround(overrides: Partial<ServerParts> = {}, options: object = {}) {
  const checked = checkConfig({ routes: [{ origin: 'http://origin.test' }], ...options }, '.');
  if (checked.kind === 'invalid') throw new Error('a bad configuration');
  const known = routeWith('b', {
    listOrigins: () => [
      { url: url('http://b1.test/'), health: 'resting' },
      { url: url('http://b2.test/'), health: 'well' },
    ],
  });
  known.rangeSupport.of('/').noteParts();
  const levels: LogLevel[] = [];
  const cancelled: string[] = [];
  const fill = {
    id: '1-1',
    key: 'k',
    uri: 'u',
    generation: 'g',
    sizeBytes: 5,
    receivedBytes: 1,
    readers: 1,
    startedAt: 9,
  };
  const serving: ReturnType<ServerParts['serving']> = {
    site: { config: checked.config, routes: [routeWith('a', {}), known] },
    store: {
      ...fakeOperations().operations,
      readUses: async () => [],
      inspectHere: async () => ({ hot: [], arriving: [] }),
    },
    readUsage: () => ({ entryCount: 1, usedBytes: 2, maxSizeBytes: 3, memoryBytes: 4, maxMemoryBytes: 5 }),
    fills: {
      list: () => [fill],
      cancel: (id) => {
        cancelled.push(id);
        return id === fill.id;
      },
    },
  };
  const operations = createOperations({
    worker: 3,
    pid: 77,
    serving: () => serving,
    log: { readLevel: () => levels.at(-1) ?? 'warn', setLevel: (level) => levels.push(level) },
    counted: {
      read: async () => [],
      format: async () => 'a 1\n',
      readOwn: () => [],
      total: () => totals,
      readHottest: () => [],
      readDecisions: () => [],
    },
    now: () => 5,
    isStopping: () => false,
    addresses: () => ['http://127.0.0.1:8080'],
    reload: async () => {},
    ...overrides,
  });
  return { operations, fill, cancelled };
}

describe('the operations of one process', () => {
  it('pass store operations on', async () => {
    const { operations } = createGround();
    expect((await operations.listEntries({ kind: 'all' }, 1, undefined)).entries).toEqual([someEntry]);
    expect((await operations.inspectEntry('k', 'g')).presentBytes).toBe(524_288);
    expect(await operations.purge({ search: { kind: 'all' }, mode: 'hard' })).toEqual({ entries: 2 });
    expect(await operations.warm({ urls: ['http://a.test/'] })).toMatchObject([{ status: 200 }]);
  });

  it('list fills with their process, and cancel them', async () => {
    const { operations, fill, cancelled } = createGround();
    expect(await operations.listFills()).toEqual([{ ...fill, worker: 3 }]);
    expect([await operations.cancelFill('1-1'), await operations.cancelFill('other')]).toEqual([true, false]);
    expect(cancelled).toEqual(['1-1', 'other']);
  });

  it('list the state of each origin', async () => {
    const none = { streams: 0, fills: 0, unanswered: 0, waiting: 0 };
    expect(await createGround().operations.listOrigins()).toEqual([
      { route: 'a', url: 'http://a.test/', worker: 3, health: 'well', ranges: 'unknown', requests: none },
      { route: 'b', url: 'http://b1.test/', worker: 3, health: 'resting', ranges: 'yes', requests: none },
      { route: 'b', url: 'http://b2.test/', worker: 3, health: 'well', ranges: 'yes', requests: none },
    ]);
  });

  it('set the log level, where there is a log', async () => {
    const { operations } = createGround();
    expect(await operations.readLogLevel()).toBe('warn');
    await operations.setLogLevel('trace');
    expect(await operations.readLogLevel()).toBe('trace');
    const mute = createGround({ log: undefined }).operations;
    expect(await mute.readLogLevel()).toBe('silent');
    await expect(mute.setLogLevel('info')).rejects.toMatchObject({ name: 'OperationFault', reason: 'unavailable' });
  });

  it('return the configuration and the metrics', async () => {
    const { operations } = createGround();
    expect(await operations.readConfig()).toMatchObject({ routes: [{ origin: { url: 'http://origin.test/' } }] });
    expect(await operations.formatMetrics()).toBe('a 1\n');
  });

  it.each<[state: string, parts: Partial<ServerParts>, isReady: boolean, reason: string | undefined]>([
    ['starting', { serving: () => undefined }, false, 'The server is starting.'],
    ['serving', {}, true, undefined],
    ['stopping', { isStopping: () => true }, false, 'The server is stopping.'],
    ['stopping', { isStopping: () => true, serving: () => undefined }, false, 'The server is stopping.'],
  ])('report that the server is %s', async (state, parts, isReady, reason) => {
    const readiness = await createGround(parts).operations.readReadiness();
    const addresses = ['http://127.0.0.1:8080'];
    expect(readiness).toEqual({ isReady, reason, workers: [{ id: 3, pid: 77, state }], addresses });
  });

  it('report why requests should be sent to other machines', async () => {
    const serving = { unreadyReason: 'It cannot keep up.' } as ReturnType<ServerParts['serving']>;
    const { operations } = createGround({ serving: () => serving });
    expect(await operations.readReadiness()).toMatchObject({ isReady: false, reason: 'It cannot keep up.' });
  });

  it('are unavailable before the server serves', async () => {
    const { operations } = createGround({ serving: () => undefined });
    const results = [
      operations.listEntries({ kind: 'all' }, 1, undefined),
      operations.inspectEntry('k', 'g'),
      operations.purge({ search: { kind: 'all' }, mode: 'hard' }),
      operations.warm({ urls: [] }),
      operations.listFills(),
      operations.cancelFill('1'),
      operations.listOrigins(),
      operations.readConfig(),
    ];
    for (const result of await Promise.allSettled(results)) {
      expect(result).toMatchObject({ status: 'rejected', reason: { name: 'OperationFault', reason: 'unavailable' } });
    }
  });

  it('reload the configuration, where that is possible', async () => {
    const fault = new OperationFault('invalid', 'It is wrong.');
    await expect(createGround({ reload: () => Promise.reject(fault) }).operations.reload()).rejects.toBe(fault);
    await expect(createGround({ reload: undefined }).operations.reload()).rejects.toMatchObject({
      reason: 'unavailable',
    });
    await createGround().operations.reload();
  });
});

describe('the activity', () => {
  it('has the totals also while the process starts', async () => {
    const { operations } = createGround({ serving: () => undefined });
    expect(await operations.readActivity()).toMatchObject({
      at: 5,
      isReady: false,
      ...totals,
      fillCount: 0,
      origins: [],
    });
  });

  it('has the store, the origins and the fills', async () => {
    expect(await createGround().operations.readActivity()).toMatchObject({
      isReady: true,
      workers: [{ id: 3, pid: 77, state: 'serving' }],
      store: {
        entries: 1,
        memoryBytes: 4,
        memoryLimitBytes: 5,
        diskBytes: null,
        diskLimitBytes: null,
        isShared: false,
      },
      origins: [{ route: 'a' }, { url: 'http://b1.test/', health: 'resting' }, { url: 'http://b2.test/' }],
      fills: [{ id: '1-1', worker: 3 }],
      fillCount: 1,
    });
  });

  it('says that other machines may share a store in an engine', async () => {
    const { operations } = createGround({}, { store: { type: 'redis' } });
    expect(await operations.readActivity()).toMatchObject({ store: { isShared: true } });
  });
});
