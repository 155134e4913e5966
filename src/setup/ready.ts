/** What a server says of itself when it is ready. */

import type { Config } from '../config/schema.ts';

/** What stands behind it: the origin, or how many routes. */
export function describeOrigins({ routes }: Pick<Config, 'routes'>): string {
  const [first] = routes;
  return routes.length === 1 && first !== undefined ? first.origin.url.replace(/\/$/, '') : `${routes.length} routes`;
}
