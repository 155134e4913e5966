/** Which fields of a message are passed on, and which are ours to set. */

import { type Field, type Fields, fieldValue, withField, withoutFields } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { normaliseAuthority, portOf } from '../routing/authority.ts';
import type { Route, RouteCaching } from '../routing/route.ts';
import { normaliseAcceptEncoding } from '../semantics/accept-encoding.ts';
import { withoutConnectionFields } from '../semantics/end-to-end.ts';
import { isMethodOverride } from '../semantics/method.ts';
import { surrogateCapability, surrogateControlField } from '../semantics/surrogate-control.ts';
import { withVia } from '../semantics/via.ts';
import type { Client } from './client.ts';
import { withOneForwardLess } from './max-forwards.ts';

/** What of a route decides the fields of its requests. */
export type ForwardingRules = Pick<Route, 'host' | 'originUrl'> & {
  readonly cache: Pick<RouteCaching, 'acceptEncoding' | 'targetedFields'>;
};

/** The parts of a request that are passed on as fields. */
export type ForwardedRequest = Pick<ProxyRequest, 'method' | 'scheme' | 'authority' | 'version' | 'fields' | 'peer'>;

/**
 * What we say ourselves (Host by policy, framing by the origin's own connection), and what is said to us: Proxy-Authorization,
 * and Rangeway-Explain.
 */
const ownFields: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'expect',
  'proxy-authorization',
  'rangeway-explain',
]);

/**
 * What a client claims about itself or about the request where only a proxy before it should speak. No peer is trusted, so
 * none is believed: origins log, limit and admit by these, and build URLs from them that a cache would then give to
 * everybody. The `x-forwarded-` family and Forwarded (RFC 7239) are among them.
 */
const claimFields: ReadonlySet<string> = new Set([
  'cf-connecting-ip',
  'forwarded',
  'front-end-https',
  'surrogate-capability',
  'true-client-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-forwarded',
  'x-host',
  'x-http-host-override',
  'x-original-host',
  'x-original-url',
  'x-real-ip',
  'x-rewrite-url',
]);

/** The methods whose responses a cache may give to others: an override of them would poison it. */
const sharedMethods: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/**
 * Framing is the listener's; Alt-Svc (RFC 7838) would lead clients around this proxy; Proxy-* is for our own connection; what
 * explains a request comes from here.
 */
const ownResponseFields: ReadonlySet<string> = new Set([
  'alt-svc',
  'content-length',
  'proxy-authenticate',
  'proxy-authentication-info',
  'rangeway-explain',
]);

/**
 * The fields that an origin gets of a request (RFC 9110 §7.6): what goes from end to end, in order, then Via and who is
 * there (X-Forwarded-For, -Host, -Port, -Proto, X-Real-IP). What no cache key holds and may yet decide the response is
 * taken out: forwarding fields of the client, rewritten URLs, and overrides of a method whose response is shared. By the
 * route's rules Accept-Encoding is reduced to a few values, and Surrogate-Capability added.
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
  const authority = normaliseAuthority(request.authority, request.scheme);
  const passed = withoutConnectionFields(request.fields).filter(([name]) => !isDropped(name, request.method));
  const endToEnd = withOneForwardLess(request.method, withEncodings(passed, rules));
  return [
    ['host', hostFor(rules, authority)],
    ...withVia(endToEnd, request.version, pseudonym),
    ...forwardingFields(request, client, authority),
    ...capabilityFields(rules),
  ];
}

/**
 * The fields that a client gets of an origin's response, interim or final, without the framing that the listener adds.
 * `version` is that of the message as received.
 */
export function forwardedResponseFields(fields: Fields, version: string, pseudonym: string): Fields {
  return withVia(withoutFields(withoutConnectionFields(fields), ownResponseFields), version, pseudonym);
}

/** Whether a field is a claim that only a proxy before the client's request should make. */
export function isClaim(name: string): boolean {
  const plainName = withHyphens(name);
  return claimFields.has(plainName) || plainName.startsWith('x-forwarded-');
}

function isDropped(name: string, method: string): boolean {
  const plainName = withHyphens(name);
  if (ownFields.has(plainName) || isClaim(plainName)) return true;
  return sharedMethods.has(method) && isMethodOverride(name);
}

/** Old gateways read `_` and `-` in a name as the same sign, so that `x_forwarded_for` would be believed. */
function withHyphens(name: string): string {
  return name.replaceAll('_', '-');
}

function withEncodings(fields: Fields, { cache }: ForwardingRules): Fields {
  if (cache.acceptEncoding === 'asSent') return fields;
  return withField(fields, 'accept-encoding', normaliseAcceptEncoding(fieldValue(fields, 'accept-encoding')));
}

/** The origin's own authority is that of its URL. */
function hostFor({ host, originUrl }: ForwardingRules, authority: string | undefined): string {
  if (host === 'origin') return originUrl.host;
  return host === 'keep' ? (authority ?? originUrl.host) : host.name;
}

function forwardingFields(request: ForwardedRequest, { address }: Client, authority: string | undefined): Field[] {
  const fields: Field[] = [
    ['x-forwarded-for', address],
    ['x-forwarded-proto', request.scheme],
    ['x-real-ip', address],
  ];
  if (authority === undefined) return fields;
  return [...fields, ['x-forwarded-host', authority], ['x-forwarded-port', String(portOf(authority, request.scheme))]];
}

/** Origins use Surrogate-Control for those only who say that they read it. */
function capabilityFields({ cache }: ForwardingRules): Field[] {
  return cache.targetedFields.includes(surrogateControlField) ? [['surrogate-capability', surrogateCapability]] : [];
}
