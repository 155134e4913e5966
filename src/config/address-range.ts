/** IP addresses and blocks of them, as people write them. */

import { isIP } from 'node:net';

/** All IP addresses that begin with the same bits. */
export interface AddressRange {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  /** How many bits of `address` count. */
  readonly prefixLength: number;
}

/**
 * An address, or a block in the notation of RFC 4632 §3.1; bits behind the prefix mean nothing. Undefined for other text, for
 * an address with a zone, and for IPv4 addresses in the form of IPv6: peers are known by their IPv4 addresses.
 */
export function parseAddressRange(text: string): AddressRange | undefined {
  const [, address = '', digits] = /^([\da-f.:]+)(?:\/(0|[1-9]\d{0,2}))?$/i.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0 || /^::ffff:/i.test(address)) return undefined;
  const longest = version === 6 ? 128 : 32;
  const prefixLength = digits === undefined ? longest : Number(digits);
  if (prefixLength > longest) return undefined;
  return { address, family: version === 6 ? 'ipv6' : 'ipv4', prefixLength };
}
