/** Finds the process that has an end of a TCP connection. Needs Linux. */

import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** Returns the process that has the end with these ports; undefined where none of `pids` has it. */
export function ownerOf(localPort: number, remotePort: number, pids: readonly number[]): number | undefined {
  const socket = `socket:[${inodeOf(localPort, remotePort)}]`;
  return pids.find((pid) => descriptorsOf(pid).some((fd) => linkOf(`/proc/${pid}/fd/${fd}`) === socket));
}

/** Returns the descriptors of a process; an empty list when it has ended. */
function descriptorsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`);
  } catch {
    return [];
  }
}

function inodeOf(localPort: number, remotePort: number): string | undefined {
  const ends = [localPort, remotePort].map((port) => port.toString(16).toUpperCase().padStart(4, '0'));
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n');
  const fields = lines.map((line) => line.trim().split(/\s+/));
  return fields.find(([, local, remote]) => local?.endsWith(`:${ends[0]}`) && remote?.endsWith(`:${ends[1]}`))?.[9];
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
