/** Where a disk store is when the configuration does not say. */

import { isAbsolute, join } from 'node:path';
import type { ListenAddress } from './address.ts';

/**
 * `rangeway/<host>-<port>` in the directory for caches: $XDG_CACHE_HOME where it is an absolute path, as its specification
 * wants, else `.cache` in the home directory. One listener keeps its directory from start to start; two have two.
 * Undefined for port 0: nobody comes back to the address that the system chooses.
 */
export function defaultStoreDirectory(
  listen: ListenAddress,
  environment: Readonly<Record<string, string | undefined>>,
  home: string,
): string | undefined {
  if (listen.port === 0) return undefined;
  const { XDG_CACHE_HOME: stated = '' } = environment;
  const caches = isAbsolute(stated) ? stated : join(home, '.cache');
  // The colons of an IPv6 address are not welcome in file names everywhere.
  return join(caches, 'rangeway', `${listen.host.replaceAll(/[^\w.-]/g, '_')}-${listen.port}`);
}
