/**
 * Which client a request is from: the peer itself, or the client that a trusted proxy names in X-Forwarded-* or Forwarded (RFC
 * 7239). Also lists of peers by address, and the name by which the requests of one client are counted together.
 */

import { BlockList, isIP, isIPv6, SocketAddress } from 'node:net';
import { type Fields, fieldLines, fieldValue, listMembers } from '../http/fields.ts';
import { changedRequest, type ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { normaliseAuthority } from '../routing/target.ts';
import { type ForwardedElement, isHiddenNode, nodeName, parseForwarded } from '../semantics/message-forwarding.ts';

/** The client of a request. */
export interface Client {
  /** Its IP address without a zone; empty where nothing tells it, as for a peer of a Unix socket. */
  readonly address: string;
  /**
   * What trusted proxies have told of the way to here, nearest to the client first: the client itself and the proxies after
   * it, without the peer. Addresses, and `unknown` or a name that hides the address (RFC 7239 §6) where it is not told.
   */
  readonly forwardedFor: readonly string[];
  /** Whether a trusted proxy has sent the request: what it says about who the client is, is passed on (see `fields/forwarding.ts`). */
  readonly isVouchedFor?: boolean | undefined;
}

/** Who is believed, and what. */
export interface ForwardingTrust {
  readonly isTrusted: PeerList;
  /** The fields that trusted proxies speak with. */
  readonly fields: TrustedFields;
}

/** A request as its client has sent it, and that client. */
interface Identified {
  readonly request: ProxyRequest;
  readonly client: Client;
}

/** The way of all who are not trusted. */
const untold: readonly string[] = [];

/**
 * Finds out who sent a request, and with which scheme and authority: routing, the key, redirects and the origin all see what
 * the client asked for. A trusted peer that tells of nobody is the client itself; where it tells of somebody without an
 * address, the client is unknown, and never taken for the peer, which may be let in where clients are not. Throws `ProxyError`
 * `malformed_request` where a trusted peer tells an authority that is none, or what cannot be read.
 */
export function identify(request: ProxyRequest, trust: ForwardingTrust): Identified {
  const peer = plainAddress(request.peer.address);
  if (!trust.isTrusted(peer)) return { request, client: { address: peer, forwardedFor: untold } };
  const way = readForwardedChain(request.fields, trust.fields, trust.isTrusted);
  const [first = peer] = way.senders;
  const client = { address: isAddress(first) ? first : '', forwardedFor: way.senders, isVouchedFor: true };
  return { request: asAsked(request, way), client };
}

/** The request with the scheme and the authority that the client asked for. */
function asAsked(request: ProxyRequest, way: ForwardedChain): ProxyRequest {
  const scheme = readScheme(way.scheme) ?? request.scheme;
  const authority = withPort(way.host || request.authority, way.port, scheme);
  if (authority !== '' && normaliseAuthority(authority, scheme) === undefined) {
    throw new ProxyError('malformed_request', { detail: 'a proxy tells an authority that is not valid' });
  }
  if (scheme === request.scheme && authority === request.authority) return request;
  return changedRequest(request, { scheme, authority });
}

function readScheme(text: string | undefined): 'http' | 'https' | undefined {
  const scheme = text?.toLowerCase();
  return scheme === 'http' || scheme === 'https' ? scheme : undefined;
}

/** The port that browsers leave out of the other scheme: told with this one, it is that of a connection between proxies. */
const foreignPorts = { http: '443', https: '80' } as const;

/** An authority with the port that is told besides, where it has none itself. */
function withPort(authority: string, port: string | undefined, scheme: 'http' | 'https'): string {
  const hasPort = /:\d*$/.test(authority.replace(/^\[[^\]]*\]/, ''));
  const isPort = port !== undefined && /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535;
  if (authority === '' || hasPort || !isPort || port === foreignPorts[scheme]) return authority;
  return `${authority}:${port}`;
}

/** The fields that trusted proxies speak with. */
type TrustedFields = 'x-forwarded' | 'forwarded';

/** The way of a request as far as those who are trusted tell it. */
interface ForwardedChain {
  /**
   * Who sent the request to each trusted proxy, nearest to the client first: addresses, `unknown` and names that hide one. Only
   * the first may be none of a trusted proxy: the client.
   */
  readonly senders: readonly string[];
  /** What the client's request was, in the words of the proxy that is nearest to it; not checked. */
  readonly scheme: string | undefined;
  readonly host: string | undefined;
  readonly port: string | undefined;
}

/** A way has so many steps at most; what is said before them is not read. */
const MAX_STEPS = 100;

/**
 * Reads what a trusted peer tells, from the last step back to the first one that no trusted proxy took: what is told of
 * steps before that one is the client's own word. Throws `ProxyError` `malformed_request` for a Forwarded that cannot be read:
 * it begins with what the client has sent, and a client must not be able to hide itself by that.
 */
export function readForwardedChain(fields: Fields, trusted: TrustedFields, isTrusted: PeerList): ForwardedChain {
  return trusted === 'forwarded' ? readForwarded(fields, isTrusted) : readXForwarded(fields, isTrusted);
}

function readXForwarded(fields: Fields, isTrusted: PeerList): ForwardedChain {
  const list = (name: string) => listMembers(fieldValue(fields, name));
  const senders = walkBack(list('x-forwarded-for'), isTrusted);
  const told = (name: string) => list(name).at(-Math.max(1, senders.length)) ?? list(name)[0];
  return {
    senders,
    scheme: told('x-forwarded-proto'),
    host: told('x-forwarded-host'),
    port: told('x-forwarded-port'),
  };
}

function readForwarded(fields: Fields, isTrusted: PeerList): ForwardedChain {
  const elements = parseForwarded(fieldLines(fields, 'forwarded'));
  if (elements === undefined) throw new ProxyError('malformed_request', { detail: 'Forwarded is malformed' });
  const senders = walkBack(
    elements.map((element) => element.for ?? 'unknown'),
    isTrusted,
  );
  const told = elements.slice(-Math.max(1, senders.length));
  const first = (name: keyof ForwardedElement) => told.find((element) => element[name] !== undefined)?.[name];
  return { senders, scheme: first('proto'), host: first('host'), port: undefined };
}

/** The senders from the last one back to the first that is not trusted, or is no address. */
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
  return isAddress(name) || isHiddenNode(name) ? name : 'unknown';
}

/** All addresses that begin with the same bits. */
export interface PeerRange {
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
export function createPeerList(peers: readonly (PeerRange | 'unix')[]): PeerList {
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

/** All who are not told apart: peers of a Unix socket, and those of whom a trusted proxy does not tell the address. */
const unknownClient = 'unknown';

/**
 * The name of a client: its IPv4 address; of IPv6 the first 64 bits, for whoever has one address of such a network has all of
 * them (RFC 4291 §2.5.4, RFC 6177). Clients without an address share one name, as those do whom a proxy hides that is not
 * trusted: a limit that cannot tell clients apart holds for all of them together, and never for none.
 */
export function clientName(address: string): string {
  if (address === '') return unknownClient;
  return address.includes(':') ? networkOf(address) : address;
}

/** The first four groups, each in its shortest form, whatever form the address is written in (RFC 5952). */
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
