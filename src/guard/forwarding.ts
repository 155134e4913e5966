/** Which fields of a message are passed on, and which are ours to set. */

import { type Field, type Fields, fieldValue, withField, withoutFields } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { hostOfOrigin } from '../origin/place.ts';
import { normaliseAuthority, portOf } from '../routing/authority.ts';
import type { Route, RouteCaching } from '../routing/route.ts';
import { normaliseAcceptEncoding } from '../semantics/accept-encoding.ts';
import { withCdnLoop } from '../semantics/cdn-loop.ts';
import { withoutConnectionFields } from '../semantics/end-to-end.ts';
import { formatForwarded } from '../semantics/forwarded.ts';
import { isMethodOverride } from '../semantics/method.ts';
import { surrogateCapability, surrogateControlField } from '../semantics/surrogate-control.ts';
import { withVia } from '../semantics/via.ts';
import { claimOf, withHyphens } from './claims.ts';
import type { Client } from './client.ts';
import { withOneForwardLess } from './max-forwards.ts';
import { isAddress, plainAddress } from './peers.ts';

/** What of a route decides the fields of its requests. */
export type ForwardingRules = Pick<Route, 'host' | 'originUrl' | 'toOrigin'> & {
  readonly cache: Pick<RouteCaching, 'acceptEncoding' | 'targetedFields'>;
};

/** The parts of a request that are passed on as fields. */
export type ForwardedRequest = Pick<ProxyRequest, 'method' | 'scheme' | 'authority' | 'version' | 'fields' | 'peer'>;

/** What we say ourselves (Host by policy, framing by the origin's own connection), and what is said to us. */
const ownFields: ReadonlySet<string> = new Set(['host', 'content-length', 'expect', 'proxy-authorization']);

/** The methods whose responses a cache may give to others: an override of them would poison it. */
const sharedMethods: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/**
 * Framing is the listener's; Alt-Svc (RFC 7838) would lead clients around this proxy; Proxy-* is for our own connection.
 */
const ownResponseFields: ReadonlySet<string> = new Set([
  'alt-svc',
  'content-length',
  'proxy-authenticate',
  'proxy-authentication-info',
]);

/**
 * The fields that an origin gets of a request (RFC 9110 §7.6): what goes from end to end, in order, then Via, CDN-Loop and who
 * is there (X-Forwarded-For, -Host, -Port, -Proto, X-Real-IP, Forwarded). What no cache key holds and may yet decide the
 * response is taken out: forwarding fields of the client, rewritten URLs, and overrides of a method whose response is shared. What
 * says who the client is (Remote-User, Client-Cert) is passed on from trusted proxies only.
 * By the route's rules Accept-Encoding is reduced to a few values, Surrogate-Capability added, and what the operator wants out
 * taken out; what the operator adds is added on the way to the origin, so that the cache does not take it for the client's.
 *
 * The authority is passed on in its normal form, the one that routing and the cache key know, so that its spelling cannot
 * decide a stored response either.
 */
export function forwardedRequestFields(
  request: ForwardedRequest,
  client: Client,
  rules: ForwardingRules,
  pseudonym: string,
): Fields {
  const fields = requestFields(request, client, rules, pseudonym);
  const removed = rules.toOrigin?.removedFromShared;
  return removed === undefined || !sharedMethods.has(request.method) ? fields : withoutFields(fields, removed);
}

/** The fields that an origin gets of a request for a tunnel, whose response is nobody else's; the operator's among them. */
export function tunnelRequestFields(
  request: ForwardedRequest,
  client: Client,
  rules: ForwardingRules,
  pseudonym: string,
): Fields {
  return [...requestFields(request, client, rules, pseudonym), ...(rules.toOrigin?.constant ?? [])];
}

/**
 * The fields that a client gets of an origin's response, interim or final, without the framing that the listener adds.
 * `version` is that of the message as received. Upgrade is a field of the connection, but a 426 must have it (RFC 9110
 * §15.5.22): the origin answers no request without that protocol, whichever connection the request comes over.
 */
export function forwardedResponseFields(fields: Fields, version: string, pseudonym: string, status = 200): Fields {
  const upgrade = status === 426 ? fields.filter(([name]) => name === 'upgrade') : [];
  const passed = withoutFields(withoutConnectionFields(fields), ownResponseFields);
  return withVia(upgrade.length === 0 ? passed : [...passed, ...upgrade], version, pseudonym);
}

function requestFields(request: ForwardedRequest, client: Client, rules: ForwardingRules, pseudonym: string): Fields {
  const authority = normaliseAuthority(request.authority, request.scheme);
  const passed = withoutConnectionFields(request.fields).filter(([name]) => isPassed(name, request.method, client));
  const endToEnd = withOneForwardLess(request.method, withEncodings(passed, rules));
  const fields: Fields = [
    ['host', hostFor(rules, authority)],
    ...withCdnLoop(withVia(endToEnd, request.version, pseudonym), pseudonym),
    ...forwardingFields(request, client, authority),
    ...capabilityFields(rules),
  ];
  const removed = rules.toOrigin?.removed;
  return removed === undefined ? fields : fields.filter(([name]) => !removed.has(withHyphens(name)));
}

/** Whether a field is passed on: always, never, from trusted proxies only, or where no response is shared. */
type Passage = 'passed' | 'dropped' | 'vouched' | 'unshared';

/** So many names are remembered: clients could invent any number. */
const MAX_REMEMBERED = 512;
const remembered = new Map<string, Passage>();

function isPassed(name: string, method: string, { isVouchedFor }: Client): boolean {
  switch (remembered.get(name) ?? remember(name, decidePassage(name))) {
    case 'passed':
      return true;
    case 'dropped':
      return false;
    case 'vouched':
      return isVouchedFor === true;
    case 'unshared':
      return !sharedMethods.has(method);
  }
}

function remember(name: string, passage: Passage): Passage {
  if (remembered.size < MAX_REMEMBERED) remembered.set(name, passage);
  return passage;
}

function decidePassage(name: string): Passage {
  const plainName = withHyphens(name);
  if (ownFields.has(plainName)) return 'dropped';
  const claim = claimOf(name);
  if (claim !== undefined) return claim === 'vouched' ? 'vouched' : 'dropped';
  return isMethodOverride(plainName) ? 'unshared' : 'passed';
}

function withEncodings(fields: Fields, { cache }: ForwardingRules): Fields {
  if (cache.acceptEncoding === 'asSent') return fields;
  return withField(fields, 'accept-encoding', normaliseAcceptEncoding(fieldValue(fields, 'accept-encoding')));
}

/** The origin's own authority is that of its URL. */
function hostFor({ host, originUrl }: ForwardingRules, authority: string | undefined): string {
  if (host === 'origin') return hostOfOrigin(originUrl);
  return host === 'keep' ? (authority ?? hostOfOrigin(originUrl)) : host.name;
}

/**
 * Who is there: the client, the proxies that spoke for it, and the peer, `unknown` where there is no address. Forwarded says
 * the same (RFC 7239 §5), and what the client asked for in its first element; not where this proxy was reached (`by`).
 */
function forwardingFields(request: ForwardedRequest, client: Client, authority: string | undefined): Field[] {
  const { address, forwardedFor } = client;
  const { scheme } = request;
  const peer = (forwardedFor.length === 0 ? address : plainAddress(request.peer.address)) || 'unknown';
  const senders = [...forwardedFor, peer];
  const fields: Field[] = [
    ['x-forwarded-for', senders.map((sender) => (isAddress(sender) ? sender : 'unknown')).join(', ')],
    ['x-forwarded-proto', scheme],
  ];
  if (address !== '') fields.push(['x-real-ip', address]);
  if (authority !== undefined) {
    fields.push(['x-forwarded-host', authority], ['x-forwarded-port', String(portOf(authority, scheme))]);
  }
  const elements = senders.map((sender, at) =>
    formatForwarded(at === 0 ? { for: sender, host: authority, proto: scheme } : { for: sender }),
  );
  fields.push(['forwarded', elements.join(', ')]);
  return fields;
}

/** Origins use Surrogate-Control for those only who say that they read it. */
function capabilityFields({ cache }: ForwardingRules): Field[] {
  return cache.targetedFields.includes(surrogateControlField) ? [['surrogate-capability', surrogateCapability]] : [];
}
