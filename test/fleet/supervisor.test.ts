import { describe, expect, it } from 'vitest';
import type { WorkerStart } from '../../src/fleet/channel.ts';
import { createLeaseTable } from '../../src/fleet/leases.ts';
import { Supervisor } from '../../src/fleet/supervisor.ts';
import { FleetSockets } from '../../src/fleet/supervisor-sockets.ts';
import type { BindPlace } from '../../src/listener/accept/bind.ts';
import type { FleetEvent, ServerEvent } from '../../src/telemetry/events.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { turn } from '../support/clocks/turn.ts';
import { createFakeWorkers, type Script } from '../support/proxies/fake-workers.ts';

const web: BindPlace = { kind: 'tcp', host: '127.0.0.1', port: 80 };
const local: BindPlace = { kind: 'unix', path: '/run/web.sock', mode: undefined };
const never = () => new Promise(() => undefined);
const config = { value: { is: 'old' }, directory: '/etc' };

/** Creates a supervisor of fake workers, with its clock and a record of its events. */
async function createGround(workers = 2, script: Script = {}) {
  const clock = createFakeClock(0);
  const fakes = createFakeWorkers();
  fakes.plan(script);
  const events: FleetEvent[] = [];
  const closed: string[] = [];
  const sockets = new FleetSockets(workers, async (place) => {
    if (place.kind === 'passed') throw new Error('cannot be bound');
    const handle = { listen: () => undefined, close: () => undefined };
    return {
      place,
      address: { host: '', port: 0, path: undefined },
      handles: place.kind === 'tcp' ? Array.from({ length: workers }, () => handle) : [handle],
      close: () => closed.push(place.kind),
    };
  });
  await sockets.open([
    { name: 'web', place: web },
    { name: 'local', place: local },
  ]);
  let ids = 0;
  const supervisor = new Supervisor({
    workers,
    fork: fakes.fork,
    clock,
    random: () => 0,
    randomId: () => `i${++ids}`,
    emit: (event: ServerEvent) => {
      if (event.kind === 'fleet') events.push(event);
    },
    backoff: { firstMs: 500, mostMs: 4000, mostAloneMs: 1000, steadyAfterMs: 60_000 },
    heartbeat: { intervalMs: 2000, silentAfter: 2, deadAfter: 15 },
    sockets,
    leases: createLeaseTable(clock),
    peerSocket: (instance) => `/run/${instance}`,
    ground: { workers, config, peersDir: '/run', machineSecret: 'm', pseudonym: 'p', passed: [], logLevel: 'info' },
  });
  const states = () => supervisor.roster().map(({ state }) => state);
  const takeEvents = () => events.splice(0).map(({ stage, message }) => `${stage}: ${message}`);
  return { supervisor, clock, fakes, workers: fakes.all, states, takeEvents, events, closed };
}

/** As `createGround`, once all workers serve. */
async function openGround(workers = 2) {
  const ground = await createGround(workers);
  await ground.supervisor.open();
  ground.takeEvents();
  return ground;
}

const startOf = (worker: { readonly start: unknown } | undefined) => worker?.start as WorkerStart;

describe('the start of a fleet', () => {
  it('gives each worker its sockets and its start options', async () => {
    const { workers, states, supervisor } = await openGround();
    expect(states()).toEqual(['serving', 'serving']);
    expect(workers.map(({ asked }) => asked)).toEqual([
      ['takeSocket web 1', 'takeSocket local 0', 'start'],
      ['takeSocket web 2', 'takeSocket local 0', 'start'],
    ]);
    expect(workers.map((worker) => startOf(worker))).toMatchObject([
      { id: 1, instance: 'w1i1', workers: 2, isFirst: true, fallen: [], config },
      { id: 2, instance: 'w2i2', workers: 2, isFirst: false, fallen: [], config },
    ]);
    expect(supervisor.addresses).toEqual(['http://127.0.0.1:1']);
  });

  it('lets one worker open the store before the others', async () => {
    const first = Promise.withResolvers<{ addresses: string[] }>();
    const { supervisor, workers, fakes } = await createGround(3, { start: () => first.promise });
    const opened = supervisor.open();
    await turn();
    expect(workers.map(({ asked }) => asked.includes('start'))).toEqual([true, false, false]);
    fakes.all[1]?.plan({});
    fakes.all[2]?.plan({});
    first.resolve({ addresses: [] });
    await opened;
    expect(workers.map((worker) => startOf(worker).isFirst)).toEqual([true, false, false]);
  });

  it('fails with the error of the first worker, and leaves no worker behind', async () => {
    const { supervisor, workers, clock } = await createGround(3, { start: () => Promise.reject(new Error('no room')) });
    await expect(supervisor.open()).rejects.toThrow('no room');
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
    clock.advance(600_000);
    await turn();
    expect(workers.length).toBe(3);
  });

  it('fails where a worker dies before it serves', async () => {
    const { supervisor, workers, clock } = await createGround(2, { start: never });
    const opened = supervisor.open();
    opened.catch(() => undefined);
    await turn();
    workers[1]?.die({ kind: 'exit', code: 7 });
    await expect(opened).rejects.toThrow('worker 2 ended with exit code 7 before it served');
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it('fails where a worker hangs', async () => {
    const { supervisor, workers, clock } = await createGround(2, { start: never, beat: never });
    const opened = supervisor.open();
    opened.catch(() => undefined);
    await turn();
    clock.advance(30_000);
    await expect(opened).rejects.toThrow('before it served');
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
  });
});

describe('a worker that dies', () => {
  it('is replaced at once, and its replacement learns which instance has died', async () => {
    const { workers, states, takeEvents } = await openGround();
    workers[0]?.die();
    await turn();
    expect(states()).toEqual(['serving', 'serving']);
    expect(workers.length).toBe(3);
    expect(startOf(workers[2])).toMatchObject({ id: 1, isFirst: false, fallen: ['w1i1'] });
    expect(takeEvents()).toEqual([
      'ended: worker 1 was ended by SIGKILL: another one is started',
      'replaced: worker 1 serves again',
    ]);
    workers[2]?.die();
    await turn();
    expect(workers.length).toBe(3);
  });

  it.each([
    ['while another one serves, is replaced with growing delays', 2, [0, 500, 1000, 2000, 4000, 4000, 4000]],
    ['while no other one serves, is replaced with short delays', 1, [0, 500, 1000, 1000, 1000, 1000, 1000]],
  ])('again and again, %s', async (_, count, want) => {
    const { workers, clock, events } = await openGround(count);
    const waits: number[] = [];
    let victim = workers[0];
    for (let death = 1; death <= 7; death += 1) {
      victim?.die();
      await turn();
      let waited = 0;
      for (; workers.length < count + death; waited += 250) {
        clock.advance(250);
        await turn();
      }
      waits.push(waited);
      victim = workers.at(-1);
    }
    expect(waits).toEqual(want);
    expect(events.find(({ message }) => message.includes('in 500 ms'))).toBeDefined();
  });

  it('after it has served for a while is replaced at once again', async () => {
    const { workers, clock } = await openGround(1);
    workers[0]?.die();
    await turn();
    for (let second = 0; second < 60; second += 1) {
      clock.advance(1000);
      await turn();
    }
    workers[1]?.die();
    await turn();
    expect(workers.length).toBe(3);
  });

  it('together with all others is replaced by one that opens the store as the first', async () => {
    const { workers } = await openGround();
    for (const worker of [...workers]) worker.die();
    await turn();
    const later = workers.slice(2).map((worker) => startOf(worker));
    expect(later).toMatchObject([
      { id: 1, isFirst: true, fallen: ['w1i1', 'w2i2'] },
      { id: 2, isFirst: false, fallen: [] },
    ]);
  });

  it('is covered by another worker until its replacement serves', async () => {
    const { workers, fakes, clock } = await openGround(3);
    fakes.plan({ start: never });
    workers[1]?.die();
    await turn();
    expect(workers[0]?.asked.at(-1)).toBe('takeSocket web 2');
    expect(workers[2]?.asked).not.toContain('takeSocket web 2');
    // The covering worker dies too: the third one covers both.
    workers[0]?.die();
    await turn();
    expect(workers[2]?.asked.slice(-2).sort()).toEqual(['takeSocket web 1', 'takeSocket web 2']);
    fakes.plan({});
    for (const worker of workers.slice(3)) worker.die();
    await turn();
    clock.advance(500);
    await turn();
    expect(workers[2]?.asked.slice(-2).sort()).toEqual(['leaveSocket web 1', 'leaveSocket web 2']);
  });

  it('and whose replacement cannot start is logged with the reason, and replaced later', async () => {
    const { workers, fakes, clock, takeEvents, events, states } = await openGround();
    fakes.plan({ start: () => Promise.reject(new Error('certificate missing')) });
    workers[0]?.die();
    await turn();
    expect(workers[2]?.wasKilled).toBe(true);
    expect(events.at(-1)?.detail).toBe('it could not start: certificate missing');
    expect(takeEvents().at(-1)).toBe('ended: worker 1 was ended by SIGKILL: another one is started in 500 ms');
    expect(states()).toEqual(['away', 'serving']);
    fakes.plan({});
    clock.advance(500);
    await turn();
    expect(states()).toEqual(['serving', 'serving']);
  });

  it('is followed by one that starts with the settings changed meanwhile', async () => {
    const { supervisor, workers, fakes } = await openGround();
    supervisor.keep({ logLevel: 'warn', passed: [{ fd: 3, name: 'web' }] });
    const started = Promise.withResolvers<{ addresses: string[] }>();
    fakes.plan({ start: () => started.promise });
    workers[0]?.die();
    await turn();
    expect(startOf(workers[2])).toMatchObject({ logLevel: 'warn', passed: [{ fd: 3, name: 'web' }] });
    supervisor.keep({ logLevel: 'debug' });
    started.resolve({ addresses: [] });
    await turn();
    expect(workers[2]?.asked.at(-1)).toBe('setLogLevel');
  });

  it('never has two replacements at a time', async () => {
    const { workers, clock } = await openGround(1);
    for (let death = 0; death < 20; death += 1) {
      workers.at(-1)?.die();
      await turn();
      clock.advance(1000);
      await turn();
      expect(workers.filter(({ isAlive }) => isAlive).length).toBeLessThanOrEqual(1);
    }
  });

  it('frees its leases for the others', async () => {
    const { workers } = await openGround();
    expect(await workers[0]?.supervisor.acquireLease('key')).toEqual({ kind: 'ours' });
    const theirs = { kind: 'theirs', instance: 'w1i1', socket: '/run/w1i1' };
    expect(await workers[1]?.supervisor.acquireLease('key')).toEqual(theirs);
    workers[0]?.die();
    await turn();
    expect(await workers[1]?.supervisor.acquireLease('key')).toEqual({ kind: 'ours' });
  });
});

describe('a worker that hangs', () => {
  it('is covered, and left alone when it answers again', async () => {
    const { workers, clock, states } = await openGround();
    const answer = Promise.withResolvers<void>();
    workers[0]?.plan({ beat: () => answer.promise });
    clock.advance(2000);
    await turn();
    expect(states()).toEqual(['serving', 'serving']);
    clock.advance(4000);
    expect(states()).toEqual(['silent', 'serving']);
    expect(workers[1]?.asked.at(-1)).toBe('takeSocket web 1');
    answer.resolve();
    await turn();
    expect(states()).toEqual(['serving', 'serving']);
    expect(workers[1]?.asked.at(-1)).toBe('leaveSocket web 1');
  });

  it('for too long is killed and replaced', async () => {
    const { workers, clock, takeEvents } = await openGround();
    workers[0]?.plan({ beat: never });
    clock.advance(2000);
    for (let second = 0; second < 30; second += 1) {
      clock.advance(1000);
      await turn();
    }
    expect(workers[0]?.wasKilled).toBe(true);
    expect(takeEvents()).toEqual([
      'stuck: worker 1 has not answered for 30 s: it is ended',
      'ended: worker 1 was ended by SIGKILL: another one is started',
      'replaced: worker 1 serves again',
    ]);
  });
});

describe('invalidation messages', () => {
  const news = { kind: 'invalidated', keys: ['a'], prefixes: [], tags: [] } as const;
  const isDone = async (telling: Promise<void> | undefined) => {
    let done = false;
    void telling?.then(() => {
      done = true;
    });
    await turn();
    return done;
  };

  it('go to all other workers, and resolve when each has applied them', async () => {
    const { workers } = await openGround(3);
    const applied = Promise.withResolvers<void>();
    workers[2]?.plan({ applyInvalidation: () => applied.promise });
    const telling = workers[0]?.supervisor.announce(news);
    expect(await isDone(telling)).toBe(false);
    expect(workers.map(({ asked }) => asked.includes('applyInvalidation'))).toEqual([false, true, true]);
    applied.resolve();
    expect(await isDone(telling)).toBe(true);
  });

  it('do not wait for a worker that dies', async () => {
    const { workers } = await openGround();
    workers[1]?.plan({ applyInvalidation: never });
    const telling = workers[0]?.supervisor.announce(news);
    expect(await isDone(telling)).toBe(false);
    workers[1]?.die();
    expect(await isDone(telling)).toBe(true);
  });

  it.each([
    { name: 'does not apply them', applyInvalidation: never, reason: /did not apply an invalidation within 10 s/ },
    {
      name: 'cannot apply them',
      applyInvalidation: () => Promise.reject(new Error('broken')),
      reason: /could not apply .*broken/,
    },
  ])('kill a worker that $name, because it might serve purged entries', async ({ applyInvalidation, reason }) => {
    const { workers, clock, events } = await openGround();
    workers[1]?.plan({ applyInvalidation });
    const telling = workers[0]?.supervisor.announce(news);
    await turn();
    clock.advance(10_000);
    expect(await isDone(telling)).toBe(true);
    expect(workers[1]?.wasKilled).toBe(true);
    expect(events[0]?.detail).toMatch(reason);
  });

  it('go to a starting worker, too: it may have the store open', async () => {
    const { workers, fakes } = await openGround();
    fakes.plan({ start: never });
    workers[1]?.die();
    await turn();
    await workers[0]?.supervisor.announce(news);
    expect(workers[2]?.asked.slice(-2)).toEqual(['start', 'applyInvalidation']);
  });
});

describe('a reload', () => {
  const next = { value: { is: 'new' }, directory: '/etc' };
  const places = [
    { name: 'web', place: web },
    { name: 'more', place: web },
  ];

  it('is prepared by all workers before any commits; new sockets are sent first, and unused ones closed last', async () => {
    const { supervisor, workers, closed } = await openGround();
    const prepared = Promise.withResolvers<void>();
    workers[1]?.plan({ prepareReload: () => prepared.promise });
    const reloaded = supervisor.reload(next, places);
    await turn();
    expect(workers.map(({ asked }) => asked.slice(3))).toEqual([
      ['takeSocket more 1', 'prepareReload'],
      ['takeSocket more 2', 'prepareReload'],
    ]);
    prepared.resolve();
    await reloaded;
    expect(workers.map(({ asked }) => asked.at(-1))).toEqual(['commitReload', 'commitReload']);
    expect(supervisor.addresses).toEqual(['http://127.0.0.1:2']);
    expect(closed).toEqual(['unix']);
  });

  it('that one worker cannot prepare is abandoned by all, and changes nothing', async () => {
    const { supervisor, workers, closed } = await openGround();
    workers[1]?.plan({ prepareReload: () => Promise.reject(new Error('no such file')) });
    await expect(supervisor.reload(next, places)).rejects.toThrow('no such file');
    expect(workers.map(({ asked }) => asked.slice(-2))).toEqual([
      ['abandonReload', 'leaveSocket more 1'],
      ['abandonReload', 'leaveSocket more 2'],
    ]);
    expect(workers.map(({ asked }) => asked.includes('commitReload'))).toEqual([false, false]);
    expect(closed).toEqual(['tcp']);
    workers[0]?.die();
    await turn();
    expect(startOf(workers[2]).config).toEqual(config);
  });

  it('that is not confirmed is abandoned by all, too', async () => {
    const { supervisor, workers } = await openGround();
    const confirm = () => Promise.reject(new Error('no token'));
    await expect(supervisor.reload(next, places, confirm)).rejects.toThrow('no token');
    expect(workers.map(({ asked }) => asked.at(-2))).toEqual(['abandonReload', 'abandonReload']);
  });

  it('whose place cannot be bound reaches no worker', async () => {
    const { supervisor, workers } = await openGround();
    const bad = { name: 'bad', place: { kind: 'passed', fd: 9, name: 'bad' } } as const;
    await expect(supervisor.reload(next, [...places, bad])).rejects.toThrow('cannot be bound');
    expect(workers.map(({ asked }) => asked.includes('prepareReload'))).toEqual([false, false]);
  });

  it('goes on without a worker that dies between its steps, and the replacement starts with the new configuration', async () => {
    const { supervisor, workers, states } = await openGround();
    const prepared = Promise.withResolvers<void>();
    workers[0]?.plan({ prepareReload: () => prepared.promise });
    const reloaded = supervisor.reload(next, places);
    await turn();
    workers[1]?.die();
    await turn();
    expect(workers.length).toBe(3);
    expect(workers[2]?.asked).toEqual([]);
    prepared.resolve();
    await reloaded;
    await turn();
    expect(startOf(workers[2]).config).toEqual(next);
    // It has prepared nothing that it could commit.
    expect(workers[2]?.asked).not.toContain('commitReload');
    expect(workers[2]?.asked.filter((call) => call.startsWith('take'))).toEqual([
      'takeSocket web 2',
      'takeSocket more 2',
    ]);
    expect(states()).toEqual(['serving', 'serving']);
  });

  it('replaces a worker that cannot commit it', async () => {
    const { supervisor, workers } = await openGround();
    workers[1]?.plan({ commitReload: () => Promise.reject(new Error('half done')) });
    await supervisor.reload(next, places);
    await turn();
    expect(workers[1]?.wasKilled).toBe(true);
    expect(startOf(workers[2]).config).toEqual(next);
  });

  it('waits for a starting worker, and for the reload before', async () => {
    const { supervisor, workers, fakes } = await openGround();
    const started = Promise.withResolvers<{ addresses: string[] }>();
    fakes.plan({ start: () => started.promise });
    workers[1]?.die();
    await turn();
    const both = Promise.all([supervisor.reload(next, places), supervisor.reload(config, places)]);
    await turn();
    expect(workers[0]?.asked).not.toContain('prepareReload');
    started.resolve({ addresses: [] });
    await both;
    const steps = ['prepareReload', 'commitReload', 'prepareReload', 'commitReload'];
    for (const worker of [workers[0], workers[2]]) {
      expect(worker?.asked.filter((call) => call.endsWith('Reload'))).toEqual(steps);
    }
  });
});

describe('a reload while a worker starts or dies', () => {
  const next = { value: { is: 'new' }, directory: '/etc' };
  const same = [
    { name: 'web', place: web },
    { name: 'local', place: local },
  ];

  it('reaches a worker that begins to serve at that moment', async () => {
    const { supervisor, workers, fakes } = await openGround();
    const started = Promise.withResolvers<{ addresses: string[] }>();
    fakes.plan({ start: () => started.promise });
    workers[1]?.die();
    await turn();
    const reloaded = supervisor.reload(next, same);
    await turn();
    started.resolve({ addresses: [] });
    await reloaded;
    expect(workers[2]?.asked.filter((call) => call.endsWith('Reload'))).toEqual(['prepareReload', 'commitReload']);
  });

  it('gives the cover of a dead worker no socket of a removed place, whose connections would not be accepted', async () => {
    const { supervisor, workers } = await openGround();
    const committed = Promise.withResolvers<string[]>();
    workers[1]?.plan({ commitReload: () => committed.promise });
    const reloaded = supervisor.reload(next, [{ name: 'local', place: local }]);
    await turn();
    workers[1]?.die();
    await reloaded;
    expect(workers[0]?.asked).toContain('commitReload');
    expect(workers[0]?.asked).not.toContain('takeSocket web 2');
  });

  it('takes the sockets of an abandoned place back from a covering worker, too', async () => {
    const { supervisor, workers } = await openGround();
    const prepared = Promise.withResolvers<void>();
    workers[0]?.plan({ prepareReload: () => prepared.promise });
    const reloaded = supervisor.reload(next, [...same, { name: 'more', place: web }]);
    await turn();
    workers[1]?.die();
    await turn();
    prepared.reject(new Error('no such file'));
    await expect(reloaded).rejects.toThrow('no such file');
    const calls = workers[0]?.asked.filter((call) => call.includes('Socket more 2'));
    expect(calls?.at(-1)).not.toBe('takeSocket more 2');
  });
});

describe('the end of a fleet', () => {
  it('lets all workers finish, and replaces none', async () => {
    const { supervisor, workers, clock, closed, takeEvents } = await openGround();
    await supervisor.stop(30_000);
    expect(workers.map(({ asked }) => asked.slice(3))).toEqual([['stop'], ['stop']]);
    expect(closed).toEqual(['tcp', 'unix']);
    clock.advance(600_000);
    await turn();
    expect({ count: workers.length, pending: clock.pending, events: takeEvents() }).toEqual({
      count: 2,
      pending: 0,
      events: [],
    });
  });

  it('lets drained workers go only when all are drained, because others may read from them until then', async () => {
    const { supervisor, workers } = await openGround(3);
    for (const worker of workers) worker.plan({ stop: never });
    const stopped = supervisor.stop(30_000);
    let isOver = false;
    void workers[0]?.supervisor.drained().then(() => {
      isOver = true;
    });
    void workers[1]?.supervisor.drained();
    await turn();
    expect(isOver).toBe(false);
    workers[2]?.die();
    await turn();
    expect(isOver).toBe(true);
    for (const worker of workers) worker.die();
    await stopped;
  });

  it('kills workers that take too long', async () => {
    const { supervisor, workers, clock } = await openGround();
    workers[0]?.plan({ stop: never });
    const stopped = supervisor.stop(1000);
    await turn();
    clock.advance(5999);
    expect(workers[0]?.wasKilled).toBe(false);
    clock.advance(1);
    await stopped;
    expect(workers.map(({ wasKilled }) => wasKilled)).toEqual([true, false]);
  });

  it('does not wait for workers that are starting or were to be started', async () => {
    const { supervisor, workers, fakes, clock } = await openGround(3);
    fakes.plan({ start: () => Promise.reject(new Error('broken')) });
    workers[0]?.die();
    await turn();
    fakes.plan({ start: never });
    workers[1]?.die();
    await turn();
    const stopped = supervisor.stop(30_000);
    clock.advance(0);
    await stopped;
    clock.advance(600_000);
    await turn();
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
    expect(workers.length).toBe(5);
  });

  it('during a reload ends both', async () => {
    const { supervisor, workers } = await openGround();
    workers[0]?.plan({ prepareReload: never });
    const reloaded = expect(supervisor.reload({ value: {}, directory: '/' }, [])).rejects.toThrow('is stopping');
    await turn();
    await supervisor.stop(1000);
    await reloaded;
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
    expect(workers.length).toBe(2);
  });

  it('leaves no socket of a reload that comes too late', async () => {
    const { supervisor, closed } = await openGround();
    await supervisor.stop(1000);
    const places = [{ name: 'web', place: web }];
    const reloaded = supervisor.reload({ value: {}, directory: '/' }, places);
    await expect(reloaded).rejects.toMatchObject({ reason: 'unavailable' });
    expect(closed).toEqual(['tcp', 'unix', 'tcp']);
  });

  it('by force also kills workers that begin to serve at that moment', async () => {
    const started = Promise.withResolvers<{ addresses: string[] }>();
    const { supervisor, workers, clock } = await createGround(2, { start: () => started.promise });
    const opened = supervisor.open();
    opened.catch(() => undefined);
    await turn();
    started.resolve({ addresses: [] });
    supervisor.kill();
    await turn();
    clock.advance(600_000);
    await turn();
    expect(workers.length).toBe(2);
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
  });

  it('by force kills all workers, and replaces none', async () => {
    const { supervisor, workers, clock } = await openGround();
    supervisor.kill();
    await turn();
    clock.advance(600_000);
    await turn();
    expect(workers.map(({ wasKilled }) => wasKilled)).toEqual([true, true]);
    expect(workers.length).toBe(2);
  });
});
