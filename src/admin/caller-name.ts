/** How those who ask are called in the log. */

import type { Peer } from '../http/message.ts';

/** The address, or `unix` for who has connected to a Unix socket. */
export function peerName({ address }: Peer): string {
  return address === '' ? 'unix' : address;
}
