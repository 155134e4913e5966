/** Where a configuration listens: each place by a name of its own. */

import type { Config, ListenerConfig } from '../config/schema.ts';
import { type BindPlace, placeName } from '../listener/bind.ts';
import { choosePassedSockets, type PassedSocket } from '../listener/passed-sockets.ts';

/** One place of a configuration. */
export interface ListenPlaceOf {
  /** Tells it apart from all others of the configuration, and is the same in the next one that has it. */
  readonly name: string;
  readonly place: BindPlace;
  readonly listener: ListenerConfig;
}

/** All places, in their order. Throws `ListenFault` where no socket was passed for one of systemd's. */
export function listenPlaces(
  { listen }: Pick<Config, 'listen'>,
  passed: readonly PassedSocket[],
): readonly ListenPlaceOf[] {
  const counts = new Map<string, number>();
  return listen.flatMap((listener) =>
    placesOf(listener, passed).map((place) => {
      const name = placeName(place);
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      return { name: count === 1 ? name : `${name} (${count})`, place, listener };
    }),
  );
}

function placesOf({ address, mode }: ListenerConfig, passed: readonly PassedSocket[]): readonly BindPlace[] {
  switch (address.kind) {
    case 'tcp':
      return [address];
    case 'unix':
      return [{ ...address, mode }];
    case 'systemd':
      return choosePassedSockets(passed, address.name);
  }
}
