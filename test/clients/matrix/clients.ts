/** All clients of the matrix, in the order of the table. */

import { findProgram } from '../../support/processes/programs.ts';
import type { Client } from './client.ts';
import type { LegacyOrigin } from './origin.ts';
import { downloaders } from './programs/downloaders.ts';
import { liveClients } from './programs/live.ts';
import { media } from './programs/media.ts';
import { packageTools } from './programs/package-tools.ts';
import { pages } from './programs/pages.ts';
import { readers } from './programs/readers.ts';

export const clients: readonly Client[] = [
  ...downloaders,
  ...media,
  ...packageTools,
  ...readers,
  ...pages,
  ...liveClients,
];

/**
 * Returns the pairs of the short form: each client before one of its origins, so that each origin has clients. Clients with few
 * origins choose first, and each takes the origin that has the fewest clients so far, of those whose programs are here.
 */
export function shortPairs(): ReadonlyMap<Client, LegacyOrigin> {
  const pairs = new Map<Client, LegacyOrigin>();
  const clientsBefore = (origin: LegacyOrigin) => [...pairs.values()].filter((each) => each === origin).length;
  for (const client of clients.toSorted((one, other) => one.origins.length - other.origins.length)) {
    const here = client.origins.filter(({ programs }) =>
      programs.every((program) => findProgram(program) !== undefined),
    );
    const known = here.length > 0 ? here : client.origins;
    const [chosen] = known.toSorted((one, other) => clientsBefore(one) - clientsBefore(other));
    if (chosen !== undefined) pairs.set(client, chosen);
  }
  return pairs;
}
