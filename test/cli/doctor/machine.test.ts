import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { judgeMachine, type MachineFacts, nodeLines } from '../../../src/cli/doctor/machine.ts';
import { examinedConfig, linesOf } from '../../support/values/examined-config.ts';

const good: MachineFacts = {
  platform: 'linux',
  nodeVersion: '26.10.0',
  nodePath: '/usr/bin/node',
  nodeOptions: ['--disable-sigusr1'],
  isSingleExecutable: false,
  now: Date.parse('2026-12-01T10:00:00Z'),
  cores: 2,
  memoryBytes: 8e9,
  memoryLimitBytes: undefined,
  availableBytes: 6e9,
  descriptors: 1_048_576,
  backlog: 4096,
  userId: 1000,
  doesSendfileWork: true,
  systemd: 'absent',
};

function judged(change: Partial<MachineFacts>, options: object = {}): string[] {
  return linesOf(judgeMachine({ ...good, ...change }, examinedConfig(options)));
}

/** Returns the findings of one topic. */
function topic(name: string, change: Partial<MachineFacts>, options: object = {}): string[] {
  return judged(change, options).filter((line) => line.split(' ')[1] === name);
}

it('a good machine has no finding that asks for something', () => {
  expect(judged({ systemd: 'present' })).toEqual([
    'ok node [/usr/bin/node] Node 26.10.0, supported until 2029-04-30',
    'ok cores [workers] 1 process serves, on 2 cores',
    'ok memory [store.memoryBytes] the process takes about 300 MB, and up to 500 MB after a burst; this machine has 8 GB',
    'ok descriptors [limits.connections] 1048576 descriptors, for 20000 clients at a time and 1000 other uses',
    'ok backlog up to 511 connections wait for each listener',
    'ok clock 2026-12-01T10:00:00 UTC',
    'ok sendfile [store.sendfile] the kernel sends larger bodies directly from the files',
    'ok systemd it can run Rangeway as a service (packaging/systemd)',
  ]);
});

it('the newest known Node 26 is the one that this project brings', () => {
  const { devDependencies } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'));
  expect(nodeLines[26]?.newest).toBe(devDependencies.node);
});

describe('options of Node', () => {
  it.each<[nodeOptions: string[], want: string]>([
    [['--inspect'], 'problem node [NODE_OPTIONS] --inspect opens the debugger of Node: every user'],
    [['--inspect-brk=0.0.0.0:1'], 'problem node [NODE_OPTIONS] --inspect-brk=0.0.0.0:1 opens the debugger of Node'],
    [['--max-old-space-size=4096'], 'note node [NODE_OPTIONS] Node is started with --max-old-space-size=4096'],
  ])('%j', (nodeOptions, want) => {
    const { 1: line = '', length } = topic('node', { nodeOptions });
    expect([line.slice(0, want.length), length]).toEqual([want, 2]);
  });
});

describe('node', () => {
  const install = '→ install Node 26 from https://nodejs.org';

  it.each<[version: string, want: string]>([
    ['22.20.0', `problem node [/usr/bin/node] Node 22.20.0 is too old ${install}`],
    [
      '24.21.0',
      'note node [/usr/bin/node] Node 24.21.0, supported until 2028-04-30; sendfile and the release of memory',
    ],
    [
      '24.9.0',
      'note node [/usr/bin/node] Node 24.9.0 is not the newest of its line: 24.21.0 is known → install Node 24.21.0 or newer',
    ],
    ['25.9.0', `warning node [/usr/bin/node] Node 25.9.0 gets no more fixes ${install}`],
    ['26.9.5', 'note node [/usr/bin/node] Node 26.9.5 is not the newest of its line: 26.10.0 is known'],
    ['26.11.0', 'ok node [/usr/bin/node] Node 26.11.0, supported until 2029-04-30'],
    ['27.0.0', 'note node [/usr/bin/node] Node 27.0.0 is newer than what this version was tested with'],
  ])('%s', (nodeVersion, want) => expect(topic('node', { nodeVersion })[0]).toContain(want));

  it('inside the single executable', () => {
    expect(topic('node', { nodeVersion: '26.1.0', isSingleExecutable: true })[0]).toContain(
      '→ install a newer version of this program, which brings its own Node: it has fixes',
    );
    expect(topic('node', { isSingleExecutable: true })[0]).toMatch(/^ok /);
  });

  it('whose time is over', () => {
    const now = Date.parse('2029-05-01');
    expect(topic('node', { now })).toEqual([
      `warning node [/usr/bin/node] Node 26.10.0 gets no more fixes since 2029-04-30 ${install}`,
    ]);
  });
});

it.each<[userId: number | undefined, count: number]>([
  [0, 1],
  [1000, 0],
  [undefined, 0],
])('user %s', (userId, count) => expect(topic('user', { userId })).toHaveLength(count));

describe('cores', () => {
  it.each<[cores: number, options: object, want: string]>([
    [1, {}, 'ok cores [workers] 1 process serves, on 1 core'],
    [2, { workers: 2 }, 'ok cores [workers] 2 processes serve, on 2 cores'],
    [2, { workers: 3 }, 'warning cores [workers] 3 processes serve, on 2 cores: they take turns'],
    [4, {}, 'note cores [workers] 1 process serves, on 4 cores: enough for thousands of requests a second'],
    [4, { store: { type: 'memory' } }, 'ok cores [workers] 1 process serves, on 4 cores'],
  ])('%s, %j', (cores, options, want) => expect(topic('cores', { cores }, options)[0]).toContain(want));
});

describe('memory', () => {
  const memory = (memoryLimitBytes: number | undefined, options: object, change: Partial<MachineFacts> = {}) =>
    topic('memory', { memoryLimitBytes, ...change }, options)[0];

  it.each<[limit: number | undefined, options: object, want: string]>([
    [
      512e6,
      {},
      'ok memory [store.memoryBytes] the process takes about 300 MB, and up to 500 MB after a burst; the control group allows 512 MB',
    ],
    [400e6, {}, '; the control group allows 400 MB → store.memoryBytes (--memory): 48MB or less'],
    [
      256e6,
      {},
      'problem memory [store.memoryBytes] the process takes about 300 MB, and up to 500 MB after a burst; the control group allows 256 MB → more memory',
    ],
    [
      1e9,
      { workers: 4 },
      'warning memory [store.memoryBytes] 5 processes take about 860 MB, and up to 1.6 GB after a burst; the control group allows 1 GB → fewer workers',
    ],
    [
      undefined,
      { store: { memoryBytes: '10GB' } },
      'problem memory [store.memoryBytes] the process takes about 12 GB, and up to 12 GB after a burst; this machine has 8 GB → store.memoryBytes (--memory): 6128MB or less',
    ],
    [
      undefined,
      { store: { type: 'memory', maxSizeBytes: '7GB' } },
      'ok memory [store.maxSizeBytes] the process takes about 7.1 GB',
    ],
    [
      1e9,
      { store: { type: 'memory', maxSizeBytes: '1GB' } },
      'problem memory [store.maxSizeBytes] the process takes about 1.1 GB, and up to 1.3 GB after a burst; the control group allows 1 GB → store.maxSizeBytes (--max-size): 660MB or less',
    ],
  ])('limit %s, %j', (limit, options, want) => expect(memory(limit, options, { availableBytes: 8e9 })).toContain(want));

  it('that others use', () => {
    expect(memory(undefined, {}, { availableBytes: 100e6 })).toMatch(
      /^note memory .*; this machine has 8 GB, of which 100 MB are available now → /,
    );
  });
});

describe('connections to an origin', () => {
  const few = { routes: [{ origin: { url: 'http://127.0.0.1:3000', connections: 100 } }] };

  it.each<[descriptors: number, options: object, want: string | undefined]>([
    [1024, {}, 'warning connections [routes[0].origin.connections] at most 128 connections to the origin at a time'],
    [1_048_576, few, 'leave "connections" out'],
    [1_048_576, {}, undefined],
  ])('%s, %j', (descriptors, options, want) => {
    const [finding] = topic('connections', { descriptors }, options);
    if (want === undefined) expect(finding).toBeUndefined();
    else expect(finding).toContain(want);
  });
});

describe('descriptors', () => {
  it.each<[descriptors: number, options: object, want: string]>([
    [
      256,
      {},
      'problem descriptors [limits.connections] 256 descriptors are too few: 128 clients at a time → LimitNOFILE=32768',
    ],
    [
      1024,
      {},
      'warning descriptors [limits.connections] 1024 descriptors are enough for 512 clients at a time; the connections beyond, up to the 20000 that are allowed, are closed at once → LimitNOFILE=32768 in the unit of systemd, or ulimit -n 32768; or limits.connections: 512',
    ],
    [20_000, {}, 'note descriptors [limits.connections] 20000 descriptors are enough for 19000 clients'],
    [20_000, { workers: 2 }, 'ok descriptors [limits.connections] 20000 descriptors of each worker, for 10000 clients'],
    [
      4096,
      { workers: 2 },
      'warning descriptors [limits.connections] 4096 descriptors of each worker are enough for 3096 clients at a time; the connections beyond, up to the 10000 that are allowed, are closed at once → LimitNOFILE=16384 in the unit of systemd, or ulimit -n 16384; or limits.connections: 6192',
    ],
    [
      4096,
      { limits: { connections: 0 } },
      'ok descriptors [limits.connections] 4096 descriptors: 3096 clients at a time',
    ],
    [4096, { limits: { connections: 2000 } }, 'ok descriptors [limits.connections] 4096 descriptors, for 2000 clients'],
  ])('%s, %j', (descriptors, options, want) =>
    expect(topic('descriptors', { descriptors }, options)[0]).toContain(want),
  );

  it('that the system does not state', () => expect(topic('descriptors', { descriptors: undefined })).toEqual([]));
});

describe('backlog', () => {
  it.each<[backlog: number | undefined, want: RegExp | undefined]>([
    [128, /^warning backlog only 128 connections wait .* → sysctl -w net\.core\.somaxconn=4096/],
    [511, /^ok /],
    [undefined, undefined],
  ])('%s', (backlog, want) => {
    const [line] = topic('backlog', { backlog });
    if (want === undefined) expect(line).toBeUndefined();
    else expect(line).toMatch(want);
  });
});

it('a clock that was never set', () => {
  expect(topic('clock', { now: 0 })).toEqual([
    'problem clock 1970-01-01T00:00:00 UTC cannot be: certificates are not valid yet, and lifetimes are wrong → timedatectl set-ntp true',
  ]);
});

describe('sendfile', () => {
  const broken = { doesSendfileWork: false };

  it.each<[change: Partial<MachineFacts>, store: object, want: string]>([
    [{}, {}, 'ok sendfile'],
    [broken, { sendfile: 'off' }, 'ok sendfile [store.sendfile] off'],
    [broken, {}, 'note sendfile'],
    [broken, { sendfile: 'on' }, 'warning sendfile'],
    [{ ...broken, nodeVersion: '24.21.0' }, {}, '→ it needs Node 26'],
    [{ ...broken, platform: 'darwin', nodeVersion: '24.21.0' }, {}, '→ it needs Linux and Node 26'],
    [broken, {}, '→ it needs a Node with node:ffi'],
  ])('%j, %j', (change, store, want) => expect(topic('sendfile', change, { store })[0]).toContain(want));

  it('of a store in memory', () => expect(topic('sendfile', {}, { store: { type: 'memory' } })).toEqual([]));
});

describe('systemd', () => {
  it.each<[change: Partial<MachineFacts>, want: readonly RegExp[]]>([
    [{}, []],
    [{ systemd: 'present' }, [/^ok /]],
    [{ systemd: 'without-notify' }, [/^warning systemd there is no program systemd-notify/]],
    [
      { systemd: 'present', nodePath: '/home/ada/.nvm/node' },
      [/^note systemd \[\/home\/ada\/\.nvm\/node\] .*ProtectHome/],
    ],
    [{ systemd: 'without-notify', nodePath: '/root/node' }, [/^warning /, /^note /]],
  ])('%j', (change, want) => {
    const lines = topic('systemd', change);
    expect(lines).toHaveLength(want.length);
    for (const [at, pattern] of want.entries()) expect(lines[at]).toMatch(pattern);
  });
});
