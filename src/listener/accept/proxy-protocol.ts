/** Parses the header of the PROXY protocol (versions 1 and 2), in which a proxy names the client of a connection. */

import { isIPv4, isIPv6, SocketAddress } from 'node:net';
import { plainAddress } from '../../guard/client.ts';
import type { Peer } from '../../http/message.ts';

/**
 * The result of parsing the first bytes of a connection. `peer` is the client that the header names; undefined where it names
 * none: the proxy speaks for itself (LOCAL), or does not know the client (UNKNOWN, AF_UNSPEC). A client on a Unix socket has an
 * empty address.
 */
export type ProxyHeaderReading =
  | { readonly kind: 'more' }
  | { readonly kind: 'header'; readonly peer: Peer | undefined; readonly sizeBytes: number }
  | { readonly kind: 'malformed'; readonly reason: string };

const startOfV1 = Buffer.from('PROXY ', 'latin1');
const startOfV2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');

/** Maximum length of a version 1 header, CRLF included. */
const longestLineBytes = 107;

/** The fixed part of version 2: signature, version and command, family and transport, length. */
const fixedBytes = 16;

/** Maximum length of the rest of version 2: Unix socket addresses, and TLVs that may contain certificates. */
const longestRestBytes = 16_384;

/**
 * Parses the header at the start of the received bytes, in either version. Skips the TLVs of version 2. Any deviation from the
 * specification is malformed.
 */
export function readProxyHeader(bytes: Buffer): ProxyHeaderReading {
  if (beginsLike(bytes, startOfV2)) return bytes.length < fixedBytes ? more : readV2(bytes);
  if (beginsLike(bytes, startOfV1)) return readV1(bytes);
  return malformed('no PROXY protocol');
}

/** Checks whether the bytes begin with `start`, or are a prefix of it. */
function beginsLike(bytes: Buffer, start: Buffer): boolean {
  const compared = Math.min(bytes.length, start.length);
  return bytes.compare(start, 0, compared, 0, compared) === 0;
}

/** Parses `PROXY TCP4 192.0.2.1 198.51.100.7 56324 443`, or `PROXY UNKNOWN` followed by any text. */
function readV1(bytes: Buffer): ProxyHeaderReading {
  const end = bytes.subarray(0, longestLineBytes).indexOf('\r\n', 0, 'latin1');
  if (end < 0) return bytes.length < longestLineBytes ? more : malformed('a line of version 1 without an end');
  const sizeBytes = end + 2;
  const [, family = '', ...rest] = bytes.toString('latin1', 0, end).split(' ');
  if (family === 'UNKNOWN') return { kind: 'header', peer: undefined, sizeBytes };
  const [source = '', destination = '', sourcePort = '', destinationPort = ''] = rest;
  const isAddress = addressTests.get(family);
  const isValid =
    rest.length === 4 &&
    isAddress?.(source) === true &&
    isAddress(destination) &&
    isPort(sourcePort) &&
    isPort(destinationPort);
  if (!isValid) return malformed('a line of version 1 without valid addresses and ports');
  return { kind: 'header', peer: peerAt(source, Number(sourcePort)), sizeBytes };
}

/** Address families of version 1. IPv6 zones are refused: they have a meaning only on the machine that wrote them. */
const addressTests: ReadonlyMap<string, (text: string) => boolean> = new Map([
  ['TCP4', isIPv4],
  ['TCP6', (text) => isIPv6(text) && !text.includes('%')],
]);

function isPort(text: string): boolean {
  return /^(?:0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65_535;
}

/** Address families of version 2 (unspecified, IPv4, IPv6, Unix), and the bytes that their addresses take. */
const addressBytes: ReadonlyMap<number, number> = new Map([
  [0, 0],
  [1, 12],
  [2, 36],
  [3, 216],
]);

function readV2(bytes: Buffer): ProxyHeaderReading {
  const versionAndCommand = bytes.readUInt8(12);
  const familyAndTransport = bytes.readUInt8(13);
  const restBytes = bytes.readUInt16BE(14);
  if (versionAndCommand >> 4 !== 2) return malformed(`version ${versionAndCommand >> 4} in the form of version 2`);
  const command = versionAndCommand & 0x0f;
  if (command > 1) return malformed(`command ${command} of version 2`);
  if (restBytes > longestRestBytes) return malformed(`a header of ${restBytes} bytes`);
  if (bytes.length < fixedBytes + restBytes) return more;
  const sizeBytes = fixedBytes + restBytes;
  // LOCAL: the proxy's own connection. Its addresses are ignored.
  if (command === 0) return { kind: 'header', peer: undefined, sizeBytes };

  const family = familyAndTransport >> 4;
  const neededBytes = addressBytes.get(family);
  if (neededBytes === undefined || (familyAndTransport & 0x0f) > 2) {
    return malformed(`family and transport 0x${familyAndTransport.toString(16)} of version 2`);
  }
  if (restBytes < neededBytes) return malformed('a header that is too short for its addresses');
  return { kind: 'header', peer: peerInV2(family, bytes.subarray(fixedBytes)), sizeBytes };
}

function peerInV2(family: number, block: Buffer): Peer | undefined {
  switch (family) {
    case 1:
      return peerAt(block.subarray(0, 4).join('.'), block.readUInt16BE(8));
    case 2:
      return peerAt(formatIPv6(block), block.readUInt16BE(32));
    case 3:
      return { address: '', port: 0 };
    default:
      return undefined;
  }
}

function formatIPv6(block: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, at) => block.readUInt16BE(2 * at).toString(16));
  return groups.join(':');
}

/** Returns the peer with a normalised address: RFC 5952, and IPv4-mapped IPv6 as IPv4. */
function peerAt(address: string, port: number): Peer {
  const family = isIPv4(address) ? 'ipv4' : 'ipv6';
  return { address: plainAddress(new SocketAddress({ address, family }).address), port };
}

const more: ProxyHeaderReading = { kind: 'more' };

function malformed(reason: string): ProxyHeaderReading {
  return { kind: 'malformed', reason };
}
