/** Our name in Via and CDN-Loop, where the operator has given none. */

import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { formatListenPlace } from '../config/address.ts';
import type { Config } from '../config/schema.ts';
import { randomId } from './system.ts';

/**
 * What the configuration says; or a name that is the same for every start of one server, and another one for each server, so
 * that chained proxies are no loop. Servers whose port the system chooses are told apart by chance.
 */
export function choosePseudonym({ pseudonym, listen }: Pick<Config, 'pseudonym' | 'listen'>): string {
  if (pseudonym !== undefined) return pseudonym;
  const place = listen.map(({ address }) =>
    address.kind === 'tcp' && address.port === 0 ? randomId() : formatListenPlace(address),
  );
  const identity = `${hostname()} ${place.join(' ')}`;
  return `rangeway-${createHash('sha256').update(identity).digest('hex').slice(0, 8)}`;
}
