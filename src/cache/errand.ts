/** What is fetched and for whom, as the cache tells it to those who limit what one client may cost. */

import type { Errand } from '../origin/origin.ts';
import { hasRange } from './asked.ts';
import type { Inquiry } from './inquiry.ts';

/** The errand of a transfer that a client begins. */
export function createErrand({ key, client }: Pick<Inquiry, 'key' | 'client'>): Errand {
  return { key, client, wanters: undefined, reach: undefined };
}

const near = () => 'near' as const;

/** The errand of the exchange that a request begins: who wants the whole has each byte of what may be relayed. */
export function errandOf(inquiry: Inquiry): Errand {
  const errand = createErrand(inquiry);
  if (!hasRange(inquiry)) errand.reach = near;
  return errand;
}
