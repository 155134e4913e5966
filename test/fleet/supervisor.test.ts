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

/** A supervisor of so many workers, its clock, and all that it tells. */
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
    ground: { workers, config, peersDir: '/run', pseudonym: 'p', passed: [], logLevel: 'info' },
  });
  const states = () => supervisor.roster().map(({ state }) => state);
  const told = () => events.splice(0).map(({ stage, message }) => `${stage}: ${message}`);
  return { supervisor, clock, fakes, workers: fakes.all, states, told, events, closed };
}

/** The same when all serve. */
async function openGround(workers = 2) {
  const ground = await createGround(workers);
  await ground.supervisor.open();
  ground.told();
  return ground;
}

const startOf = (worker: { readonly start: unknown } | undefined) => worker?.start as WorkerStart;

describe('the start of a fleet', () => {
  it('hands the sockets over, each worker its own, and tells each what it begins with', async () => {
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

  it('lets one open the store before the others', async () => {
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

  it('fails with what the first one fails with, and leaves nobody behind', async () => {
    const { supervisor, workers, clock } = await createGround(3, { start: () => Promise.reject(new Error('no room')) });
    await expect(supervisor.open()).rejects.toThrow('no room');
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
    clock.advance(600_000);
    await turn();
    expect(workers.length).toBe(3);
  });

  it('fails where one dies before it serves', async () => {
    const { supervisor, workers, clock } = await createGround(2, { start: never });
    const opened = supervisor.open();
    opened.catch(() => undefined);
    await turn();
    workers[1]?.die({ kind: 'exit', code: 7 });
    await expect(opened).rejects.toThrow('worker 2 ended with exit code 7 before it served');
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it('fails where one hangs', async () => {
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
  it('is replaced at once; the next one learns whose traces to remove', async () => {
    const { workers, states, told } = await openGround();
    workers[0]?.die();
    await turn();
    expect(states()).toEqual(['serving', 'serving']);
    expect(workers.length).toBe(3);
    expect(startOf(workers[2])).toMatchObject({ id: 1, isFirst: false, fallen: ['w1i1'] });
    expect(told()).toEqual([
      'ended: worker 1 was ended by SIGKILL: another one is started',
      'replaced: worker 1 serves again',
    ]);
    workers[2]?.die();
    await turn();
    expect(workers.length).toBe(3);
  });

  it.each([
    ['while another one serves, is waited for longer and longer', 2, [0, 500, 1000, 2000, 4000, 4000, 4000]],
    ['while nobody else serves, is not waited for long', 1, [0, 500, 1000, 1000, 1000, 1000, 1000]],
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

  it('and all others with it: the first that comes opens the store as the first', async () => {
    const { workers } = await openGround();
    for (const worker of [...workers]) worker.die();
    await turn();
    const later = workers.slice(2).map((worker) => startOf(worker));
    expect(later).toMatchObject([
      { id: 1, isFirst: true, fallen: ['w1i1', 'w2i2'] },
      { id: 2, isFirst: false, fallen: [] },
    ]);
  });

  it('is covered by another one until its place is taken again', async () => {
    const { workers, fakes, clock } = await openGround(3);
    fakes.plan({ start: never });
    workers[1]?.die();
    await turn();
    expect(workers[0]?.asked.at(-1)).toBe('takeSocket web 2');
    expect(workers[2]?.asked).not.toContain('takeSocket web 2');
    // Who covers dies too: somebody else covers both.
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

  it('while it cannot start says why, and is tried again', async () => {
    const { workers, fakes, clock, told, events, states } = await openGround();
    fakes.plan({ start: () => Promise.reject(new Error('certificate missing')) });
    workers[0]?.die();
    await turn();
    expect(workers[2]?.wasKilled).toBe(true);
    expect(events.at(-1)?.detail).toBe('it could not start: certificate missing');
    expect(told().at(-1)).toBe('ended: worker 1 was ended by SIGKILL: another one is started in 500 ms');
    expect(states()).toEqual(['away', 'serving']);
    fakes.plan({});
    clock.advance(500);
    await turn();
    expect(states()).toEqual(['serving', 'serving']);
  });

  it('is followed by one that begins with what was said meanwhile', async () => {
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

  it('never is two workers in one place', async () => {
    const { workers, clock } = await openGround(1);
    for (let death = 0; death < 20; death += 1) {
      workers.at(-1)?.die();
      await turn();
      clock.advance(1000);
      await turn();
      expect(workers.filter(({ isAlive }) => isAlive).length).toBeLessThanOrEqual(1);
    }
  });

  it('passes its leases on', async () => {
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

  it('for too long is ended and replaced', async () => {
    const { workers, clock, told } = await openGround();
    workers[0]?.plan({ beat: never });
    clock.advance(2000);
    for (let second = 0; second < 30; second += 1) {
      clock.advance(1000);
      await turn();
    }
    expect(workers[0]?.wasKilled).toBe(true);
    expect(told()).toEqual([
      'stuck: worker 1 has not answered for 30 s: it is ended',
      'ended: worker 1 was ended by SIGKILL: another one is started',
      'replaced: worker 1 serves again',
    ]);
  });
});

describe('news', () => {
  const news = { kind: 'invalidated', keys: ['a'], prefixes: [], tags: [] } as const;
  const isDone = async (told: Promise<void> | undefined) => {
    let done = false;
    void told?.then(() => {
      done = true;
    });
    await turn();
    return done;
  };

  it('go to all others, and are over when each has heeded them', async () => {
    const { workers } = await openGround(3);
    const heeded = Promise.withResolvers<void>();
    workers[2]?.plan({ heed: () => heeded.promise });
    const told = workers[0]?.supervisor.tell(news);
    expect(await isDone(told)).toBe(false);
    expect(workers.map(({ asked }) => asked.includes('heed'))).toEqual([false, true, true]);
    heeded.resolve();
    expect(await isDone(told)).toBe(true);
  });

  it('do not wait for one that dies', async () => {
    const { workers } = await openGround();
    workers[1]?.plan({ heed: never });
    const told = workers[0]?.supervisor.tell(news);
    expect(await isDone(told)).toBe(false);
    workers[1]?.die();
    expect(await isDone(told)).toBe(true);
  });

  it.each([
    { name: 'does not heed them', heed: never, reason: /did not apply an invalidation within 10 s/ },
    { name: 'cannot heed them', heed: () => Promise.reject(new Error('broken')), reason: /could not apply .*broken/ },
  ])('end a worker that $name, because it might serve what was purged', async ({ heed, reason }) => {
    const { workers, clock, events } = await openGround();
    workers[1]?.plan({ heed });
    const told = workers[0]?.supervisor.tell(news);
    await turn();
    clock.advance(10_000);
    expect(await isDone(told)).toBe(true);
    expect(workers[1]?.wasKilled).toBe(true);
    expect(events[0]?.detail).toMatch(reason);
  });

  it('go to one that is being started, too: it may have the store open', async () => {
    const { workers, fakes } = await openGround();
    fakes.plan({ start: never });
    workers[1]?.die();
    await turn();
    await workers[0]?.supervisor.tell(news);
    expect(workers[2]?.asked.slice(-2)).toEqual(['start', 'heed']);
  });
});

describe('a reload', () => {
  const next = { value: { is: 'new' }, directory: '/etc' };
  const places = [
    { name: 'web', place: web },
    { name: 'more', place: web },
  ];

  it('is prepared by all before one of them uses it; sockets come first, and go when all are ready', async () => {
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

  it('that one cannot use is given up by all, and changes nothing', async () => {
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

  it('that is not confirmed is given up by all, too', async () => {
    const { supervisor, workers } = await openGround();
    const confirm = () => Promise.reject(new Error('no token'));
    await expect(supervisor.reload(next, places, confirm)).rejects.toThrow('no token');
    expect(workers.map(({ asked }) => asked.at(-2))).toEqual(['abandonReload', 'abandonReload']);
  });

  it('whose place cannot be bound is asked of nobody', async () => {
    const { supervisor, workers } = await openGround();
    const bad = { name: 'bad', place: { kind: 'passed', fd: 9, name: 'bad' } } as const;
    await expect(supervisor.reload(next, [...places, bad])).rejects.toThrow('cannot be bound');
    expect(workers.map(({ asked }) => asked.includes('prepareReload'))).toEqual([false, false]);
  });

  it('goes on without one that dies between its steps; who replaces it begins with the new configuration', async () => {
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
    // It has made nothing ready that it could go on with.
    expect(workers[2]?.asked).not.toContain('commitReload');
    expect(workers[2]?.asked.filter((call) => call.startsWith('take'))).toEqual([
      'takeSocket web 2',
      'takeSocket more 2',
    ]);
    expect(states()).toEqual(['serving', 'serving']);
  });

  it('replaces a worker that cannot go on with it', async () => {
    const { supervisor, workers } = await openGround();
    workers[1]?.plan({ commitReload: () => Promise.reject(new Error('half done')) });
    await supervisor.reload(next, places);
    await turn();
    expect(workers[1]?.wasKilled).toBe(true);
    expect(startOf(workers[2]).config).toEqual(next);
  });

  it('waits for who is being started, and for the reload before', async () => {
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

describe('a reload while a worker comes or goes', () => {
  const next = { value: { is: 'new' }, directory: '/etc' };
  const same = [
    { name: 'web', place: web },
    { name: 'local', place: local },
  ];

  it('changes one that comes to serve at the moment when it goes on', async () => {
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

  it('gives no socket of a place that is left to who covers one that dies meanwhile: nobody would take its connections', async () => {
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

  it('takes the sockets of a place that is given up from who covers another one, too', async () => {
    const { supervisor, workers } = await openGround();
    const prepared = Promise.withResolvers<void>();
    workers[0]?.plan({ prepareReload: () => prepared.promise });
    const reloaded = supervisor.reload(next, [...same, { name: 'more', place: web }]);
    await turn();
    workers[1]?.die();
    await turn();
    prepared.reject(new Error('no such file'));
    await expect(reloaded).rejects.toThrow('no such file');
    const about = workers[0]?.asked.filter((call) => call.includes('Socket more 2'));
    expect(about?.at(-1)).not.toBe('takeSocket more 2');
  });
});

describe('the end of a fleet', () => {
  it('lets all finish, and replaces nobody', async () => {
    const { supervisor, workers, clock, closed, told } = await openGround();
    await supervisor.stop(30_000);
    expect(workers.map(({ asked }) => asked.slice(3))).toEqual([['stop'], ['stop']]);
    expect(closed).toEqual(['tcp', 'unix']);
    clock.advance(600_000);
    await turn();
    expect({ count: workers.length, pending: clock.pending, told: told() }).toEqual({ count: 2, pending: 0, told: [] });
  });

  it('tells those who have no clients any more when nobody has: others may read from them until then', async () => {
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

  it('ends those by force who take longer than they may', async () => {
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

  it('does not wait for who is being started, or for who was to be', async () => {
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

  it('during a reload is the end of both', async () => {
    const { supervisor, workers } = await openGround();
    workers[0]?.plan({ prepareReload: never });
    const reloaded = expect(supervisor.reload({ value: {}, directory: '/' }, [])).rejects.toThrow('is stopping');
    await turn();
    await supervisor.stop(1000);
    await reloaded;
    expect(workers.filter(({ isAlive }) => isAlive)).toEqual([]);
    expect(workers.length).toBe(2);
  });

  it('leaves no socket behind of a reload that comes too late', async () => {
    const { supervisor, closed } = await openGround();
    await supervisor.stop(1000);
    const places = [{ name: 'web', place: web }];
    const reloaded = supervisor.reload({ value: {}, directory: '/' }, places);
    await expect(reloaded).rejects.toMatchObject({ reason: 'unavailable' });
    expect(closed).toEqual(['tcp', 'unix', 'tcp']);
  });

  it('at once is the end of those, too, who come to serve at that moment', async () => {
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

  it('at once asks nobody', async () => {
    const { supervisor, workers, clock } = await openGround();
    supervisor.kill();
    await turn();
    clock.advance(600_000);
    await turn();
    expect(workers.map(({ wasKilled }) => wasKilled)).toEqual([true, true]);
    expect(workers.length).toBe(2);
  });
});
