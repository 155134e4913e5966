/** Listeners that want the same place. */

import { normalize } from 'node:path';
import { formatListenPlace, type ListenPlace } from './address.ts';

/** What is wrong with one listener. */
export interface ListenConflict {
  readonly index: number;
  readonly message: string;
}

/**
 * Every listener that is where an earlier one is. Port 0 is another port each time; of the sockets that systemd passes, each
 * is for one listener.
 */
export function listenConflicts(places: readonly ListenPlace[]): ListenConflict[] {
  return places.flatMap((place, index) => {
    const earlier = places.slice(0, index).findIndex((other) => isSamePlace(other, place));
    if (earlier < 0) return [];
    return [
      { index, message: `listen[${earlier}] listens on ${formatListenPlace(places[earlier] as ListenPlace)} already` },
    ];
  });
}

function isSamePlace(one: ListenPlace, other: ListenPlace): boolean {
  if (one.kind === 'tcp' && other.kind === 'tcp') {
    return one.port !== 0 && one.port === other.port && one.host.toLowerCase() === other.host.toLowerCase();
  }
  if (one.kind === 'unix' && other.kind === 'unix') return normalize(one.path) === normalize(other.path);
  if (one.kind !== 'systemd' || other.kind !== 'systemd') return false;
  return one.name === undefined || other.name === undefined || one.name === other.name;
}
