/** The units for systemd: their options are valid, and consistent with each other and with Rangeway. */

import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseListenPlace } from '../../src/config/address.ts';
import { defaultStoreDirectory } from '../../src/config/default-places.ts';
import { checkConfig } from '../../src/config/load.ts';
import { itWith, runProgram } from '../support/processes/programs.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';

const textOf = (name: string) => readFileSync(join(projectDirectory, 'packaging/systemd', name), 'utf8');
const serviceText = textOf('rangeway.service');
const socketText = textOf('rangeway.socket');

/** Parses the options of a unit: section, name and value of each. Throws at any other line. */
function parseUnit(text: string): (readonly [section: string, name: string, value: string])[] {
  const options: (readonly [string, string, string])[] = [];
  let section = '';
  for (const line of text.split('\n')) {
    const [, heading] = /^\[(\w+)\]$/.exec(line) ?? [];
    const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
    if (heading !== undefined) section = heading;
    else if (name !== undefined && value !== undefined) options.push([section, name, value]);
    else if (line !== '' && !line.startsWith('#')) throw new Error(`no line of a unit: ${line}`);
  }
  return options;
}

const service = parseUnit(serviceText);
const socket = parseUnit(socketText);

function settingOf(unit: typeof service, name: string): string {
  const values = unit.filter(([, each]) => each === name).map(([, , value]) => value);
  if (values.length !== 1) throw new Error(`${name} is there ${values.length} times`);
  return values[0] ?? '';
}

const secondsOf = (name: string) => Number(/^(\d+)s$/.exec(settingOf(service, name))?.[1]);

/** The options that our units may have, by section, from the manual pages. */
const known: Readonly<Record<string, string>> = {
  Unit: 'After Description Documentation Wants',
  Install: 'WantedBy',
  Socket: 'Backlog FileDescriptorName ListenStream NoDelay',
  Service: [
    // systemd.service(5), systemd.kill(5)
    'ExecReload ExecStart KillMode NotifyAccess OOMPolicy Restart RestartPreventExitStatus RestartSec TimeoutStopSec Type',
    // systemd.resource-control(5)
    'MemoryMax',
    'WatchdogSec',
    // systemd.exec(5)
    'AmbientCapabilities CacheDirectory CacheDirectoryMode CapabilityBoundingSet ConfigurationDirectory DynamicUser',
    'Environment EnvironmentFile LimitCORE LimitNOFILE LockPersonality MemoryDenyWriteExecute NoNewPrivileges PrivateDevices',
    'PrivateTmp ProtectClock ProtectControlGroups ProtectHome ProtectHostname ProtectKernelLogs ProtectKernelModules',
    'ProtectKernelTunables ProtectProc ProtectSystem RemoveIPC RestrictAddressFamilies RestrictNamespaces',
    'RestrictRealtime RestrictSUIDSGID RuntimeDirectory SystemCallArchitectures SystemCallErrorNumber',
    'SystemCallFilter UMask',
  ].join(' '),
};

const listening = (listen: string) => {
  const checked = checkConfig({ listen, routes: [{ origin: 'http://127.0.0.1:3000' }] }, '/etc/rangeway');
  if (checked.kind === 'invalid') throw new Error(checked.problems[0]?.message);
  return checked.config;
};

describe.each([
  ['rangeway.service', service],
  ['rangeway.socket', socket],
])('%s', (_name, unit) => {
  it('has only options that its sections know', () => {
    const strays = unit.filter(([section, name]) => !known[section]?.split(' ').includes(name));
    expect(strays).toEqual([]);
  });

  it('sets each option once, SystemCallFilter excepted', () => {
    const names = unit.map(([, name]) => name).filter((name) => name !== 'SystemCallFilter');
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });
});

describe('rangeway.service', () => {
  it('accepts notifications of systemd-notify, which is not the main process', () => {
    expect([settingOf(service, 'Type'), settingOf(service, 'NotifyAccess')]).toEqual(['notify', 'all']);
    expect(settingOf(service, 'RestrictAddressFamilies').split(' ')).toContain('AF_UNIX');
  });

  it('starts the command with its configuration file, and reloads it with SIGHUP', () => {
    expect(settingOf(service, 'ExecStart')).toBe('rangeway --config /etc/rangeway/rangeway.json');
    expect(settingOf(service, 'ConfigurationDirectory')).toBe('rangeway');
    expect(settingOf(service, 'ExecReload')).toBe('/bin/kill -HUP $MAINPID');
  });

  it('leaves more time to stop than shutdownGraceSeconds', () => {
    expect(secondsOf('TimeoutStopSec')).toBeGreaterThan(listening('8080').shutdownGraceSeconds + 5);
    expect(settingOf(service, 'KillMode')).toBe('mixed');
  });

  it('keeps the store in its cache directory, which it may write', () => {
    expect([settingOf(service, 'Environment'), settingOf(service, 'CacheDirectory')]).toEqual([
      'XDG_CACHE_HOME=%C NODE_OPTIONS=--disable-sigusr1',
      'rangeway',
    ]);
    // systemd expands %C to this directory.
    const environment = { XDG_CACHE_HOME: '/var/cache' };
    const dirs = ['0.0.0.0:80', 'systemd', 'systemd:http', 'unix:/run/rangeway/web.sock'].map((listen) =>
      defaultStoreDirectory(listening(listen).listen, environment, '/nowhere'),
    );
    for (const dir of dirs) expect(dir).toMatch(/^\/var\/cache\/rangeway\/[^/]+$/);
    expect(new Set(dirs).size).toBe(dirs.length);
  });

  it('has every protection but MemoryDenyWriteExecute, which V8 cannot run with', () => {
    expect(settingOf(service, 'MemoryDenyWriteExecute')).toBe('no');
    const protections = service.filter(([, name]) => /^(Protect(?!Proc)|Private|NoNew|Lock|Restrict[NRS])/.test(name));
    expect(protections.length).toBeGreaterThan(12);
    expect(new Set(protections.map(([, , value]) => value))).toEqual(new Set(['yes', 'strict']));
  });

  it('survives a worker that is killed for memory, and is not restarted with an invalid configuration', () => {
    expect(settingOf(service, 'OOMPolicy')).toBe('continue');
    expect(settingOf(service, 'Restart')).toBe('on-failure');
    expect(settingOf(service, 'RestartPreventExitStatus')).toBe('2');
  });

  it('writes no memory of the process to disk, and does not take all memory of the machine', () => {
    expect(settingOf(service, 'LimitCORE')).toBe('0');
    expect(Number(/^(\d+)%$/.exec(settingOf(service, 'MemoryMax'))?.[1])).toBeLessThanOrEqual(90);
  });

  it('has descriptors for the maximum of client connections and for their origins and files', () => {
    expect(Number(settingOf(service, 'LimitNOFILE'))).toBeGreaterThan(3 * listening('8080').limits.connections);
  });
});

describe('rangeway.socket', () => {
  it('has a name that listen can refer to', () => {
    const place = `systemd:${settingOf(socket, 'FileDescriptorName')}`;
    expect(parseListenPlace(place)).toEqual({ kind: 'systemd', name: 'http' });
    expect(socketText).toContain(`"${place}"`);
  });
});

describe('systemd itself', () => {
  let dir: string;
  let service: string;
  let socket: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'rangeway-units-'));
    service = join(dir, 'rangeway.service');
    socket = join(dir, 'rangeway.socket');
    // The command may not be installed on this machine.
    const installed = join(projectDirectory, 'bin/rangeway.js');
    await writeFile(service, serviceText.replace('ExecStart=rangeway ', `ExecStart=${process.execPath} ${installed} `));
    await writeFile(socket, socketText);
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  itWith(['systemd-analyze'], 'accepts the units', async () => {
    const { code, stdout, stderr } = await runProgram('systemd-analyze', ['verify', '--man=no', service, socket], dir);
    // It may complain about other units of this machine.
    const complaints = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('rangeway'));
    expect({ code, complaints }).toEqual({ code: 0, complaints: [] });
  });

  itWith(['systemd-analyze'], 'rates the exposure of the service as OK', async () => {
    const args = ['security', '--no-pager', '--offline=true', '--threshold=25', service];
    const { code, stdout } = await runProgram('systemd-analyze', args, dir);
    expect(code, stdout.toString()).toBe(0);
    expect(stdout.toString()).toMatch(/Overall exposure level for rangeway\.service: [012]\.\d OK/);
  });
});
