/** Reads the facts of the machine and of this process. */

import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { delimiter, join } from 'node:path';
import { describeSending } from '../../setup/move-to-socket.ts';
import { programArguments } from '../../setup/package-files.ts';
import { descriptorLimit } from '../../setup/system.ts';
import type { MachineFacts } from './machine.ts';

/** Reads the facts. `now` returns epoch milliseconds. Throws nothing. */
export function gatherMachine(env: Readonly<Record<string, string | undefined>>, now: () => number): MachineFacts {
  const memoryBytes = totalmem();
  const limit = process.constrainedMemory();
  const descriptors = descriptorLimit();
  return {
    platform: process.platform,
    nodeVersion: process.versions.node,
    nodePath: process.execPath,
    nodeOptions: [...process.execArgv, ...(env['NODE_OPTIONS'] ?? '').split(/\s+/)].filter((option) => option !== ''),
    isSingleExecutable: programArguments().length === 0,
    now: now(),
    cores: availableParallelism(),
    memoryBytes,
    // Without a limit the system states 0 or a number beyond all memory.
    memoryLimitBytes: limit > 0 && limit < memoryBytes ? limit : undefined,
    availableBytes: process.availableMemory(),
    descriptors: Number.isFinite(descriptors) ? descriptors : undefined,
    backlog: readNumberFile('/proc/sys/net/core/somaxconn'),
    userId: process.getuid?.(),
    doesSendfileWork: describeSending('auto') === 'sendfile on',
    systemd: systemdOf(env),
  };
}

/** Reads a file with one whole number; undefined where there is none. */
export function readNumberFile(path: string): number | undefined {
  try {
    const text = readFileSync(path, 'latin1').trim();
    return /^\d+$/.test(text) ? Number(text) : undefined;
  } catch {
    return undefined;
  }
}

function systemdOf({ PATH = '' }: Readonly<Record<string, string | undefined>>): MachineFacts['systemd'] {
  // As sd_booted(3) checks it.
  if (!existsSync('/run/systemd/system')) return 'absent';
  const hasNotify = PATH.split(delimiter).some((directory) => isExecutable(join(directory, 'systemd-notify')));
  return hasNotify ? 'present' : 'without-notify';
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
