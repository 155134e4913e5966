/**
 * Identifies the client of a request: the peer itself, or the client that a trusted proxy names in X-Forwarded-* or Forwarded
 * (RFC 7239). Also lists of peers by address, and the name under which the requests of one client are counted.
 */

import { BlockList, isIP, isIPv6, SocketAddress } from 'node:net';
import { type Fields, fieldLines, fieldValue, hasField, listMembers } from '../http/fields.ts';
import { changedRequest, type ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { normaliseAuthority } from '../routing/target.ts';
import { type ForwardedElement, isHiddenNode, nodeName, parseForwarded } from '../semantics/message-forwarding.ts';

/** The client of a request. */
export interface Client {
  /** The IP address without a zone; empty where it is unknown, as for a peer of a Unix socket. */
  readonly address: string;
  /**
   * The senders that trusted proxies state, nearest to the client first: the client and the proxies after it, without the peer.
   * Each is an address, or `unknown` or an identifier that hides the address (RFC 7239 §6).
   */
  readonly forwardedFor: readonly string[];
  /** Whether a trusted proxy sent the request. Its claims about the client's identity are passed on (see `fields/forwarding.ts`). */
  readonly isVouchedFor?: boolean | undefined;
}

/** Which proxies are trusted, and which of their fields are read. */
export interface ForwardingTrust {
  readonly isTrusted: PeerList;
  /** The fields in which trusted proxies name the client. */
  readonly fields: TrustedFields;
  /** Called for each request in which a peer that is not trusted names its client: all its clients count as one. */
  readonly onUntrusted?: ((peer: string) => void) | undefined;
}

/** A request with the scheme and authority that its client sent, and that client. */
interface Identified {
  readonly request: ProxyRequest;
  readonly client: Client;
}

/** The senders that an untrusted peer states: they are not read. */
const noSenders: readonly string[] = [];

/**
 * Identifies the client of a request, and the scheme and authority that the client sent: routing, the key, redirects and the origin
 * all use these. A trusted peer that names no client is the client itself. Where it names a client without an address, the client
 * is unknown. It is then never taken for the peer, which may be admitted where clients are not. Throws `ProxyError`
 * `malformed_request` where a trusted peer states an invalid authority or a malformed Forwarded.
 */
export function identify(request: ProxyRequest, trust: ForwardingTrust): Identified {
  const peer = plainAddress(request.peer.address);
  if (!trust.isTrusted(peer)) {
    if (trust.onUntrusted !== undefined && hasField(request.fields, 'x-forwarded-for')) trust.onUntrusted(peer);
    return { request, client: { address: peer, forwardedFor: noSenders } };
  }
  const way = readForwardedChain(request.fields, trust.fields, trust.isTrusted);
  const [first = peer] = way.senders;
  const client = { address: isAddress(first) ? first : '', forwardedFor: way.senders, isVouchedFor: true };
  return { request: asClientSent(request, way), client };
}

/** The request with the scheme and the authority that the client sent. */
function asClientSent(request: ProxyRequest, way: ForwardedChain): ProxyRequest {
  const scheme = readScheme(way.scheme) ?? request.scheme;
  const authority = withPort(way.host || request.authority, way.port, scheme);
  if (authority !== '' && normaliseAuthority(authority, scheme) === undefined) {
    throw new ProxyError('malformed_request', { detail: 'a trusted proxy states an invalid authority' });
  }
  if (scheme === request.scheme && authority === request.authority) return request;
  return changedRequest(request, { scheme, authority });
}

function readScheme(text: string | undefined): 'http' | 'https' | undefined {
  const scheme = text?.toLowerCase();
  return scheme === 'http' || scheme === 'https' ? scheme : undefined;
}

/** The default port of the other scheme. Where it is stated with this one, it is the port of a connection between proxies. */
const foreignPorts = { http: '443', https: '80' } as const;

/** Adds the stated port to an authority without a port. */
function withPort(authority: string, port: string | undefined, scheme: 'http' | 'https'): string {
  const hasPort = /:\d*$/.test(authority.replace(/^\[[^\]]*\]/, ''));
  const isPort = port !== undefined && /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535;
  if (authority === '' || hasPort || !isPort || port === foreignPorts[scheme]) return authority;
  return `${authority}:${port}`;
}

/** The fields in which trusted proxies name the client. */
type TrustedFields = 'x-forwarded' | 'forwarded';

/** The path of a request, as far as trusted proxies state it. */
interface ForwardedChain {
  /**
   * The sender of the request to each trusted proxy, nearest to the client first: addresses, `unknown`, and identifiers that hide
   * an address. Only the first may be untrusted: the client.
   */
  readonly senders: readonly string[];
  /** The scheme, host and port of the client's request, as the proxy nearest to the client states them; not checked. */
  readonly scheme: string | undefined;
  readonly host: string | undefined;
  readonly port: string | undefined;
}

/** The maximum number of senders that are read, counted from the peer. */
const MAX_STEPS = 100;

/**
 * Parses the senders that a trusted peer states, from the last one back to the first that is not a trusted proxy. Everything before
 * that one is the client's own claim. Throws `ProxyError` `malformed_request` for a malformed Forwarded: the field begins with what
 * the client sent, and a client must not be able to hide itself by breaking it.
 */
export function readForwardedChain(fields: Fields, trusted: TrustedFields, isTrusted: PeerList): ForwardedChain {
  return trusted === 'forwarded' ? readForwarded(fields, isTrusted) : readXForwarded(fields, isTrusted);
}

function readXForwarded(fields: Fields, isTrusted: PeerList): ForwardedChain {
  const list = (name: string) => listMembers(fieldValue(fields, name));
  const senders = walkBack(list('x-forwarded-for'), isTrusted);
  const stated = (name: string) => list(name).at(-Math.max(1, senders.length)) ?? list(name)[0];
  return {
    senders,
    scheme: stated('x-forwarded-proto'),
    host: stated('x-forwarded-host'),
    port: stated('x-forwarded-port'),
  };
}

function readForwarded(fields: Fields, isTrusted: PeerList): ForwardedChain {
  const elements = parseForwarded(fieldLines(fields, 'forwarded'));
  if (elements === undefined) throw new ProxyError('malformed_request', { detail: 'Forwarded is malformed' });
  const senders = walkBack(
    elements.map((element) => element.for ?? 'unknown'),
    isTrusted,
  );
  const stated = elements.slice(-Math.max(1, senders.length));
  const first = (name: keyof ForwardedElement) => stated.find((element) => element[name] !== undefined)?.[name];
  return { senders, scheme: first('proto'), host: first('host'), port: undefined };
}

/** The senders from the last one back to the first that is untrusted or has no address. */
function walkBack(nodes: readonly string[], isTrusted: PeerList): readonly string[] {
  const senders: string[] = [];
  for (const node of nodes.slice(-MAX_STEPS).toReversed()) {
    const sender = senderName(node);
    senders.push(sender);
    if (!isAddress(sender) || !isTrusted(sender)) break;
  }
  return senders.toReversed();
}

function senderName(node: string): string {
  const name = plainAddress(nodeName(node));
  // RFC 5952: one form of an address, by which access rules, limits and origins know it.
  if (isIPv6(name)) return new SocketAddress({ address: name, family: 'ipv6' }).address;
  return isAddress(name) || isHiddenNode(name) ? name : 'unknown';
}

/** A block of addresses: all that begin with the same bits. */
export interface PeerRange {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  /** The number of leading bits of `address` that count: at most 32 or 128. */
  readonly prefixLength: number;
}

/** Checks whether the peer with this address is on a list. */
export type PeerList = (address: string) => boolean;

/**
 * Creates a list. IPv4-mapped addresses, as a socket that also listens on IPv6 reports them, count as IPv4. `unix` stands for the
 * empty address, that of peers of Unix sockets. Any other text that is not an address is on no list.
 */
export function createPeerList(peers: readonly (PeerRange | 'unix')[]): PeerList {
  if (peers.length === 0) return () => false;
  // One list for each family, because in one list `::/0` would contain IPv4 addresses too.
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
 * Returns an address without its zone. An IPv4-mapped address becomes the IPv4 address, in whatever form it is written
 * (RFC 4291 §2.5.5.2).
 */
export function plainAddress(address: string): string {
  const plain = withoutMapping(address).replace(/%.*$/, '');
  if (!/^[0:]+:ffff:/i.test(plain) || !isIPv6(plain)) return plain;
  return withoutMapping(new SocketAddress({ address: plain, family: 'ipv6' }).address);
}

/** Handles the form that sockets report. */
function withoutMapping(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Checks whether a text is an IP address. */
export function isAddress(text: string): boolean {
  return isIP(text) !== 0;
}

/** One name for all clients without an address: peers of Unix sockets, and clients whose address a trusted proxy does not state. */
const unknownClient = 'unknown';

/**
 * Returns the name of a client in the limits: its IPv4 address, or the first 64 bits of its IPv6 address, because a client with one
 * address of such a network has all of them (RFC 4291 §2.5.4, RFC 6177). Clients without an address share one name, and so do
 * clients behind an untrusted proxy. A limit that cannot tell clients apart applies to all of them together, never to none.
 */
export function clientName(address: string): string {
  if (address === '') return unknownClient;
  return address.includes(':') ? networkOf(address) : address;
}

/** The first four groups, each in its shortest form (RFC 5952), so that every form of an address gives the same name. */
function networkOf(address: string): string {
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    const last = tail === '' ? [] : tail.split(':');
    // An IPv4 address at the end stands for two groups.
    const lastCount = last.length + (tail.includes('.') ? 1 : 0);
    const absent = Math.max(0, 8 - groups.length - lastCount);
    for (let index = 0; index < absent; index += 1) groups.push('0');
    groups.push(...last);
  }
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}
