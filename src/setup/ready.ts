/** What a server says of itself when it is ready. */

import type { Config } from '../config/schema.ts';
import type { Admin } from './admin.ts';

/** What stands behind it: the origin, or how many routes. */
export function describeOrigins({ routes }: Pick<Config, 'routes'>): string {
  const [first] = routes;
  return routes.length === 1 && first !== undefined ? first.origin.url.replace(/\/$/, '') : `${routes.length} routes`;
}

/** Where it is administered, as the end of a sentence; empty where it is not. */
export function describeAdmin(admin: Pick<Admin, 'address'> | undefined): string {
  return admin === undefined ? '' : `, administered on ${admin.address}`;
}
