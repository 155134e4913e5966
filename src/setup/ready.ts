/** What a server says of itself when it is ready. */

import type { Config } from '../config/schema.ts';
import type { Admin } from './admin.ts';

/** What stands behind it: the origin, or how many routes. */
export function describeOrigins({ routes }: Pick<Config, 'routes'>): string {
  const [first] = routes;
  return routes.length === 1 && first !== undefined ? first.origin.url.replace(/\/$/, '') : `${routes.length} routes`;
}

/** Where it is administered, as the end of a sentence; empty where it is not. */
export function describeAdmin(...listeners: readonly (Pick<Admin, 'address'> | undefined)[]): string {
  const addresses = listeners.flatMap((listener) => (listener === undefined ? [] : [listener.address]));
  return addresses.length === 0 ? '' : `, administered on ${addresses.join(' and ')}`;
}
