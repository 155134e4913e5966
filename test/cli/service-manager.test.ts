import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openServiceManager, type ServiceManagerParts } from '../../src/cli/service-manager.ts';
import type { LifeEvent, ServerEvent } from '../../src/telemetry/events.ts';
import { createFakeCliIo } from '../support/proxies/fake-cli-io.ts';

const life = (stage: LifeEvent['stage'], message: string = stage): LifeEvent => ({
  kind: 'life',
  stage,
  addresses: [],
  message,
});

/** Opens a service manager whose notifications go to `sent`, in the environment of a service. */
function open(env: Record<string, string> = {}, send?: ServiceManagerParts['send']) {
  const io = createFakeCliIo({ NOTIFY_SOCKET: '/run/notify', ...env });
  const sent: string[] = [];
  const logged: ServerEvent[] = [];
  let micros = 5_000_000n;
  const manager = openServiceManager(io, {
    pid: 42,
    monotonicMicros: () => (micros += 1n),
    send:
      send ??
      (async (assignments, socket) => {
        sent.push([socket, ...assignments].join(' '));
      }),
  });
  const emit = manager.follow((event) => logged.push(event));
  return { io, sent, logged, manager, emit };
}

describe('notifications to the service manager', () => {
  it.each<[what: string, events: readonly LifeEvent[], want: readonly string[]]>([
    ['report that the server is ready', [life('ready', 'ready on x')], ['READY=1 STATUS=ready on x']],
    [
      'report a reload',
      [life('reloading'), life('reloaded')],
      ['RELOADING=1 MONOTONIC_USEC=5000001 STATUS=reloading', 'READY=1 STATUS=reloaded'],
    ],
    [
      'report a failed reload as over, with its first problem as the status',
      [life('reloading'), life('reload_failed', 'a'), life('reload_failed', 'b'), life('reloading')],
      [
        'RELOADING=1 MONOTONIC_USEC=5000001 STATUS=reloading',
        'READY=1 STATUS=a',
        'RELOADING=1 MONOTONIC_USEC=5000002 STATUS=reloading',
      ],
    ],
    [
      'report the end',
      [life('stopping'), life('cut', 'cut 3 connections'), life('stopped')],
      ['STOPPING=1 STATUS=stopping', 'STATUS=cut 3 connections', 'STATUS=stopped'],
    ],
    [
      'escape control characters, and redact secrets',
      [life('ready', 'x\nREADY=0 \u009b http://a:b@c/')],
      ['READY=1 STATUS=x\\x0aREADY=0 \\x9b http://[redacted]@c/'],
    ],
  ])('%s', async (_what, events, want) => {
    const { sent, logged, emit } = open();
    for (const event of events) emit(event);
    await expect.poll(() => sent).toEqual(want.map((line) => `/run/notify ${line}`));
    expect(logged).toEqual(events);
  });

  it('are not sent for other events', async () => {
    const { sent, logged, emit } = open();
    emit({ kind: 'listener', level: 'info', message: 'x' });
    emit(life('ready'));
    await expect.poll(() => sent).toHaveLength(1);
    expect(logged).toHaveLength(2);
  });

  it('are sent one after the other, however long each takes', async () => {
    const order: string[] = [];
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { emit } = open({}, async ([first = '']) => {
      order.push(`begin ${first}`);
      await gates[order.filter((line) => line.startsWith('begin')).length - 1]?.promise;
      order.push(`end ${first}`);
    });
    emit(life('reloading'));
    emit(life('reloaded'));
    gates[1]?.resolve();
    await expect.poll(() => order).toEqual(['begin RELOADING=1']);
    gates[0]?.resolve();
    await expect.poll(() => order).toEqual(['begin RELOADING=1', 'end RELOADING=1', 'begin READY=1', 'end READY=1']);
  });

  it('are all awaited before the server ends', async () => {
    const first = Promise.withResolvers<void>();
    const sent: string[] = [];
    const { emit, manager } = open({}, async ([assignment = '']) => {
      sent.push(assignment);
      if (assignment === 'READY=1') await first.promise;
    });
    emit(life('ready'));
    emit(life('stopping'));
    let isSettled = false;
    const settled = manager.settle().then(() => (isSettled = true));
    await new Promise(setImmediate);
    expect({ sent, isSettled }).toEqual({ sent: ['READY=1'], isSettled: false });
    first.resolve();
    await settled;
    expect(sent).toEqual(['READY=1', 'STOPPING=1']);
  });

  it('print one complaint and change nothing where they cannot be sent', async () => {
    let tries = 0;
    const { io, emit, logged } = open({}, async () => {
      tries += 1;
      throw new Error('Command failed: systemd-notify\nFailed to notify init system: Connection refused\n');
    });
    for (const stage of ['ready', 'reloading', 'reloaded', 'stopping'] as const) emit(life(stage));
    await expect.poll(() => tries).toBe(4);
    expect(io.written.stderr).toBe(
      'rangeway: the service manager cannot be notified: Command failed: systemd-notify: Failed to notify init system: Connection refused\n',
    );
    expect(logged).toHaveLength(4);
  });

  it('print what is missing where there is no systemd-notify', async () => {
    const { io, emit } = open({}, () => Promise.reject(Object.assign(new Error('spawn'), { code: 'ENOENT' })));
    emit(life('ready'));
    await expect.poll(() => io.written.stderr).toContain('there is no program systemd-notify in PATH');
  });
});

describe('the environment', () => {
  it('loses its variables, so that no child process notifies the service manager', () => {
    const { io } = open({ WATCHDOG_USEC: '1000', WATCHDOG_PID: '42', OTHER: 'x' });
    expect(io.env).toEqual({ OTHER: 'x' });
  });

  it.each<[what: string, env: Record<string, string>]>([
    ['no socket', {}],
    ['an empty socket', { NOTIFY_SOCKET: '' }],
    ['a watchdog alone', { WATCHDOG_USEC: '1000' }],
  ])('%s: nothing happens', (_what, env) => {
    const io = createFakeCliIo(env);
    const manager = openServiceManager(io, {
      pid: 1,
      monotonicMicros: () => 0n,
      send: () => Promise.reject(new Error('sent')),
    });
    const emit = (): void => undefined;
    expect(manager.follow(emit)).toBe(emit);
    manager.watch(() => Promise.reject(new Error('asked')));
    manager[Symbol.dispose]();
    expect(io.written.stderr).toBe('');
  });
});

describe('watchdog notifications', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('are sent twice per WATCHDOG_USEC while the server is healthy, and end with it', async () => {
    let isHealthy = true;
    const { sent, manager } = open({ WATCHDOG_USEC: '4000000', WATCHDOG_PID: '42' });
    manager.watch(async () => isHealthy);
    const sentWithin = async (ms: number): Promise<readonly string[]> => {
      await vi.advanceTimersByTimeAsync(ms);
      return sent.splice(0);
    };
    expect(await sentWithin(1999)).toEqual([]);
    expect(await sentWithin(4000)).toEqual(['/run/notify WATCHDOG=1', '/run/notify WATCHDOG=1']);
    isHealthy = false;
    expect(await sentWithin(6000)).toEqual([]);
    isHealthy = true;
    expect(await sentWithin(2000)).toEqual(['/run/notify WATCHDOG=1']);
    manager[Symbol.dispose]();
    expect(await sentWithin(6000)).toEqual([]);
  });

  it('are not sent where the health check throws', async () => {
    const { sent, manager } = open({ WATCHDOG_USEC: '2000' });
    const isHealthy = vi.fn(() => {
      throw new Error('stuck');
    });
    manager.watch(isHealthy);
    await vi.advanceTimersByTimeAsync(3);
    expect(isHealthy).toHaveBeenCalledTimes(3);
    expect(sent).toEqual([]);
    manager[Symbol.dispose]();
  });

  it('do not pile up while one is being sent', async () => {
    const gate = Promise.withResolvers<void>();
    const send = vi.fn(() => gate.promise);
    const { manager } = open({ WATCHDOG_USEC: '2000' }, send);
    manager.watch(() => true);
    await vi.advanceTimersByTimeAsync(10);
    expect(send).toHaveBeenCalledTimes(1);
    gate.resolve();
    await vi.advanceTimersByTimeAsync(1);
    expect(send).toHaveBeenCalledTimes(2);
    manager[Symbol.dispose]();
  });

  it.each<[what: string, env: Record<string, string>]>([
    ['for another process', { WATCHDOG_USEC: '1000', WATCHDOG_PID: '43' }],
    ['with an interval that is no number', { WATCHDOG_USEC: 'soon' }],
    ['with an interval of 0', { WATCHDOG_USEC: '0' }],
    ['with a negative interval', { WATCHDOG_USEC: '-1' }],
    ['with an interval of a century', { WATCHDOG_USEC: '3000000000000000' }],
    ['without an interval', {}],
  ])('%s are not sent', async (_what, env) => {
    const { manager, sent } = open(env);
    manager.watch(() => true);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(sent).toEqual([]);
    manager[Symbol.dispose]();
  });
});
