/** Sockets that a service manager has opened for us (sd_listen_fds(3)). */

import type { BindPlace } from './bind.ts';
import { ListenFault } from './listen-fault.ts';

/** A socket that was passed on. */
export interface PassedSocket {
  readonly fd: number;
  /** What the manager calls it: that of the socket's unit, as a rule. */
  readonly name: string;
}

type Environment = Record<string, string | undefined>;

/** The first descriptor that is passed; those before it are the standard streams. */
const firstFd = 3;

/** More than any unit has; what is larger is no count. */
const mostSockets = 4096;

const variables = ['LISTEN_PID', 'LISTEN_PIDFDID', 'LISTEN_FDS', 'LISTEN_FDNAMES'];

/** The sockets that an environment tells of, if they are meant for the process with this id. */
export function readPassedSockets(environment: Readonly<Environment>, pid: number): readonly PassedSocket[] {
  const { LISTEN_PID, LISTEN_FDS = '', LISTEN_FDNAMES = '' } = environment;
  if (LISTEN_PID !== String(pid) || !/^[1-9]\d{0,3}$/.test(LISTEN_FDS)) return [];
  const count = Math.min(Number(LISTEN_FDS), mostSockets);
  const names = LISTEN_FDNAMES.split(':');
  return Array.from({ length: count }, (_, at) => ({ fd: firstFd + at, name: names[at] || 'unknown' }));
}

/** Takes the sockets out of the environment, so that no process that is started from here takes them for its own. */
export function takePassedSockets(environment: Environment, pid: number): readonly PassedSocket[] {
  const sockets = readPassedSockets(environment, pid);
  for (const name of variables) delete environment[name];
  return sockets;
}

/** All of the sockets, or those of one name, as places to listen. Throws `ListenFault` when there is none. */
export function choosePassedSockets(sockets: readonly PassedSocket[], name: string | undefined): readonly BindPlace[] {
  const chosen = sockets.filter((socket) => name === undefined || socket.name === name);
  if (chosen.length === 0) throw new ListenFault(describeAbsence(sockets, name));
  return chosen.map((socket) => ({ kind: 'passed', fd: socket.fd, name: `systemd:${socket.name}` }));
}

function describeAbsence(sockets: readonly PassedSocket[], name: string | undefined): string {
  if (sockets.length === 0) {
    return `cannot listen on systemd${name === undefined ? '' : `:${name}`}: no sockets were passed to this process; start it by a socket unit`;
  }
  const names = [...new Set(sockets.map((socket) => socket.name))].join(', ');
  return `cannot listen on systemd:${name}: no socket of this name was passed; those that were: ${names}`;
}
