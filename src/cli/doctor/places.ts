/** Whether the addresses of the listeners are free. */

import { formatListenPlace, type ListenPlace } from '../../config/address.ts';
import { type Diagnosis, fine, found } from './diagnosis.ts';

/** Facts of a place to listen. */
export interface PlaceFacts {
  /** The option that names it: `listen[0]`, or `admin.listen`. */
  readonly option: string;
  readonly place: ListenPlace;
  /** The permissions that a Unix socket gets; undefined leaves them to the umask. */
  readonly mode: number | undefined;
  readonly outcome: PlaceOutcome;
}

/** What came of binding a place. */
export type PlaceOutcome =
  | { readonly kind: 'free' }
  /** Another process listens there; undefined where its name cannot be seen. */
  | { readonly kind: 'held'; readonly by: PortHolder | undefined }
  /** The port is below those that every user may open. `firstFree` is the lowest that they may. */
  | { readonly kind: 'denied'; readonly firstFree: number; readonly nodePath: string }
  | { readonly kind: 'failed'; readonly code: string; readonly reason: string }
  /** systemd passes the socket at the start. */
  | { readonly kind: 'passed' };

/** A process that listens somewhere. */
export interface PortHolder {
  readonly pid: number;
  /** The name of its program. */
  readonly name: string;
  readonly isRangeway: boolean;
  /** Whether it has files of this configuration's store open, or connections to its engine. */
  readonly hasStore: boolean;
}

/** Facts that decide which ports a user may open, and which permissions its sockets get. */
export interface ListenRights {
  readonly userId: number | undefined;
  /** The lowest port that every user may open. */
  readonly firstFree: number;
  readonly umask: number;
}

/** Returns the findings about places. */
export function judgePlaces(facts: readonly PlaceFacts[], rights: ListenRights): readonly Diagnosis[] {
  return facts.map((each) => judgePlace(each, rights));
}

function judgePlace({ option, place, mode, outcome }: PlaceFacts, rights: ListenRights): Diagnosis {
  const where = `${option} (${formatListenPlace(place)})`;
  switch (outcome.kind) {
    case 'free':
      return place.kind === 'unix' ? judgeFreeSocket(mode, rights, where) : judgeFree(place, rights, where);
    case 'held':
      return judgeHeld(option, place, outcome.by, where);
    case 'denied':
      return found(
        'problem',
        'listen',
        `this user may not open ports below ${outcome.firstFree}`,
        `the unit of packaging/systemd may; or sudo setcap cap_net_bind_service=+ep ${outcome.nodePath}, for all that runs by it; or another port`,
        where,
      );
    case 'failed':
      return found('problem', 'listen', outcome.reason, adviceOnFailure(outcome.code, place, option), where);
    case 'passed':
      return fine('listen', 'systemd opens it at the start (packaging/systemd/rangeway.socket)', where);
  }
}

function judgeFree(place: ListenPlace, { userId, firstFree }: ListenRights, where: string): Diagnosis {
  if (place.kind !== 'tcp' || place.port === 0 || place.port >= firstFree || userId !== 0) {
    return fine('listen', 'it is free', where);
  }
  const what = `it is free, but only root may open ports below ${firstFree}`;
  const advice = 'the unit of packaging/systemd gives the server this right without root';
  return found('note', 'listen', what, advice, where);
}

/** To connect to a Unix socket, a user needs the right to write to it. */
function judgeFreeSocket(mode: number | undefined, { umask }: ListenRights, where: string): Diagnosis {
  if (mode !== undefined) return fine('listen', `it is free; its permissions will be ${octal(mode)}`, where);
  const given = 0o777 & ~umask;
  const who =
    (given & 0o002) !== 0
      ? 'every user of this machine'
      : (given & 0o020) !== 0
        ? 'this user and its group'
        : 'this user only';
  const what = `it is free; the umask gives it the permissions ${octal(given)}: ${who} can connect`;
  return found(
    'note',
    'listen',
    what,
    '"mode": "0660" of the listener is for this user and its group, whatever the umask',
    where,
  );
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0');
}

function judgeHeld(option: string, place: ListenPlace, by: PortHolder | undefined, where: string): Diagnosis {
  const flag = flagOf(option);
  const other = place.kind === 'tcp' ? `another port: ${option} (${flag})` : `another path: ${option} (${flag})`;
  if (by === undefined) {
    const what = 'a process listens there that this user cannot see';
    return found('problem', 'listen', what, `${asRoot(place)} shows it; or ${other}`, where);
  }
  if (!by.isRangeway) {
    return found('problem', 'listen', `${by.name} listens there, process ${by.pid}`, `stop it; or ${other}`, where);
  }
  if (by.hasStore) return fine('listen', `the Rangeway of this configuration listens there, process ${by.pid}`, where);
  const what = `another Rangeway listens there, process ${by.pid}`;
  return found('problem', 'listen', what, `stop it; or ${other}`, where);
}

function asRoot(place: ListenPlace): string {
  return place.kind === 'tcp' ? `sudo ss -ltnp 'sport = :${place.port}'` : 'sudo ss -lxp';
}

function flagOf(option: string): string {
  return option.startsWith('admin') ? '--admin' : '--listen';
}

function adviceOnFailure(code: string, place: ListenPlace, option: string): string {
  const directory = place.kind === 'unix' ? place.path.replace(/\/[^/]*$/, '') || '/' : '';
  switch (code) {
    case 'EADDRNOTAVAIL':
      return `an address of this machine (ip address), or 0.0.0.0 for all: ${option} (${flagOf(option)})`;
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `an address in place of the name: ${option} (${flagOf(option)})`;
    case 'EACCES':
    case 'EPERM':
      return `give the user of the server the right to write to ${directory}; or another path`;
    case 'ENOENT':
      return `mkdir ${directory}`;
    default:
      return `another place: ${option} (${flagOf(option)})`;
  }
}
