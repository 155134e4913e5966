/** What proxies before this one tell of the way of a request: X-Forwarded-*, or Forwarded (RFC 7239). */

import { type Fields, fieldLines, fieldValue, listMembers } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { type ForwardedElement, isHiddenNode, nodeName, parseForwarded } from '../semantics/forwarded.ts';
import { isAddress, type PeerList, plainAddress } from './peers.ts';

/** The fields that trusted proxies speak with. */
export type TrustedFields = 'x-forwarded' | 'forwarded';

/** The way of a request as far as those who are trusted tell it. */
export interface ToldWay {
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
export function readToldWay(fields: Fields, trusted: TrustedFields, isTrusted: PeerList): ToldWay {
  return trusted === 'forwarded' ? readForwarded(fields, isTrusted) : readXForwarded(fields, isTrusted);
}

function readXForwarded(fields: Fields, isTrusted: PeerList): ToldWay {
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

function readForwarded(fields: Fields, isTrusted: PeerList): ToldWay {
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
