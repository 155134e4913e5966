/** Who a request is from: the peer itself, or whom a trusted proxy speaks for. */

import type { ProxyRequest } from '../http/message.ts';
import { type PeerList, plainAddress } from './peers.ts';

/** The client of a request. */
export interface Client {
  /** Its IP address without a zone; empty where nothing tells it, as for a peer of a Unix socket. */
  readonly address: string;
  /** What trusted proxies have told of the way to here, nearest to the client first: the client itself and the proxies after it, without the peer. */
  readonly forwardedFor: readonly string[];
}

/** Who is believed, and what. */
export interface ForwardingTrust {
  readonly isTrusted: PeerList;
  /** The fields that trusted proxies speak with. */
  readonly fields: 'x-forwarded' | 'forwarded';
}

/** A request as its client has sent it, and that client. */
export interface Identified {
  readonly request: ProxyRequest;
  readonly client: Client;
}

/** Finds out who sent a request, and with which scheme and authority. */
export function identify(request: ProxyRequest, _trust: ForwardingTrust): Identified {
  return { request, client: { address: plainAddress(request.peer.address), forwardedFor: [] } };
}
