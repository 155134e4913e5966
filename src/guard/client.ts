/** Who a request is from: the peer itself, or whom a trusted proxy speaks for. */

import { changedRequest } from '../http/changed-request.ts';
import type { ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { normaliseAuthority } from '../routing/authority.ts';
import { isAddress, type PeerList, plainAddress } from './peers.ts';
import { readToldWay, type ToldWay, type TrustedFields } from './told-way.ts';

/** The client of a request. */
export interface Client {
  /** Its IP address without a zone; empty where nothing tells it, as for a peer of a Unix socket. */
  readonly address: string;
  /**
   * What trusted proxies have told of the way to here, nearest to the client first: the client itself and the proxies after
   * it, without the peer. Addresses, and `unknown` or a name that hides the address (RFC 7239 §6) where it is not told.
   */
  readonly forwardedFor: readonly string[];
  /** Whether a trusted proxy has sent the request: what it says about who the client is, is passed on (see `claims.ts`). */
  readonly isVouchedFor?: boolean | undefined;
}

/** Who is believed, and what. */
export interface ForwardingTrust {
  readonly isTrusted: PeerList;
  /** The fields that trusted proxies speak with. */
  readonly fields: TrustedFields;
}

/** A request as its client has sent it, and that client. */
export interface Identified {
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
  const way = readToldWay(request.fields, trust.fields, trust.isTrusted);
  const [first = peer] = way.senders;
  const client = { address: isAddress(first) ? first : '', forwardedFor: way.senders, isVouchedFor: true };
  return { request: asAsked(request, way), client };
}

/** The request with the scheme and the authority that the client asked for. */
function asAsked(request: ProxyRequest, way: ToldWay): ProxyRequest {
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
