/** Where a disk store is when the configuration does not say. */

import { isAbsolute, join } from 'node:path';
import type { ListenPlace } from './address.ts';

/**
 * `rangeway/<host>-<port>` of the first listener, in the directory for caches: $XDG_CACHE_HOME where it is an absolute path,
 * as its specification wants, else `.cache` in the home directory. One server keeps its directory from start to start; two
 * have two. Undefined for port 0: nobody comes back to the address that the system chooses.
 */
export function defaultStoreDirectory(
  listen: readonly { readonly address: ListenPlace }[],
  environment: Readonly<Record<string, string | undefined>>,
  home: string,
): string | undefined {
  const name = listen[0] === undefined ? undefined : directoryName(listen[0].address);
  if (name === undefined) return undefined;
  // The colons of an IPv6 address are not welcome in file names everywhere.
  return join(storesDirectory(environment, home), name.replaceAll(/[^\w.-]/g, '_'));
}

/** The directory of all stores that have no other place. */
export function storesDirectory(environment: Readonly<Record<string, string | undefined>>, home: string): string {
  const { XDG_CACHE_HOME: stated = '' } = environment;
  return join(isAbsolute(stated) ? stated : join(home, '.cache'), 'rangeway');
}

function directoryName(place: ListenPlace): string | undefined {
  switch (place.kind) {
    case 'tcp':
      return place.port === 0 ? undefined : `${place.host}-${place.port}`;
    case 'unix':
      return `unix${place.path}`;
    case 'systemd':
      return place.name === undefined ? 'systemd' : `systemd-${place.name}`;
  }
}
