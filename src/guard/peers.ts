/** Peers by their addresses, and lists of those that are trusted with something. */

import { BlockList, isIP, isIPv6, SocketAddress } from 'node:net';

/** All addresses that begin with the same bits. */
export interface AddressRange {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  /** How many bits of `address` count: up to 32 or 128. */
  readonly prefixLength: number;
}

/** Tells whether a peer with this address is on a list. */
export type PeerList = (address: string) => boolean;

/**
 * Creates a list. IPv4 peers of a socket that listens on IPv6 too count as IPv4. `unix` stands for peers without an
 * address, those of Unix sockets; other texts that are no addresses are on no list.
 */
export function createPeerList(peers: readonly (AddressRange | 'unix')[]): PeerList {
  if (peers.length === 0) return () => false;
  // One for each family, because in one list `::/0` would hold IPv4 addresses too.
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const peer of peers) {
    if (peer !== 'unix') lists[peer.family].addSubnet(peer.address, peer.prefixLength, peer.family);
  }
  const hasUnix = peers.includes('unix');
  return (address) => {
    if (address === '') return hasUnix;
    const plain = plainAddress(address);
    const version = isIP(plain);
    if (version === 0) return false;
    const family = version === 6 ? 'ipv6' : 'ipv4';
    return lists[family].check(plain, family);
  };
}

/**
 * An address without its zone; an IPv4 peer of a socket that listens on IPv6 too is shown by its own address, in whatever form
 * of IPv6 that is written (RFC 4291 §2.5.5.2).
 */
export function plainAddress(address: string): string {
  const plain = withoutMapping(address).replace(/%.*$/, '');
  if (!/^[0:]+:ffff:/i.test(plain) || !isIPv6(plain)) return plain;
  return withoutMapping(new SocketAddress({ address: plain, family: 'ipv6' }).address);
}

/** Of the form that sockets tell. */
function withoutMapping(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Whether a text is an IP address. */
export function isAddress(text: string): boolean {
  return isIP(text) !== 0;
}
