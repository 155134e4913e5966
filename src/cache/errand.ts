/** For whom something is fetched, as the cache tells it to those who limit what one client may cost. */

import type { Errand } from '../origin/origin.ts';
import type { Inquiry } from './inquiry.ts';

/** The errand of a transfer that a client begins. */
export function errandOf({ client }: Pick<Inquiry, 'client'>): Errand {
  return { client, wanters: undefined };
}
