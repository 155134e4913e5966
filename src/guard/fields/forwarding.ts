/**
 * Decides which fields of a message are passed on, and which Rangeway sets itself. Fields that only a trusted proxy may set (about
 * the client, its identity, or its target) are dropped from other peers. Also answers and decrements Max-Forwards (RFC 9110
 * §7.6.2). Read this file first, then `presentation.ts`.
 */

import { memoizeByText } from '../../http/collections.ts';
import { type Field, type Fields, fieldValue, trimWhitespace, withField, withoutFields } from '../../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../../http/message.ts';
import { hostOfOrigin } from '../../origin/origin.ts';
import {
  isNameOfServer,
  type OriginFieldRules,
  type Route,
  type RouteCaching,
  referenceRules,
} from '../../routing/router.ts';
import { normaliseAuthority, portOf } from '../../routing/target.ts';
import { normaliseAcceptEncoding } from '../../semantics/accept.ts';
import { surrogateCapability, surrogateControlField } from '../../semantics/cache-control.ts';
import { formatForwarded, withCdnLoop, withoutConnectionFields, withVia } from '../../semantics/message-forwarding.ts';
import { allowedMethods, isMethodOverride } from '../../semantics/method.ts';
import { originReferences } from '../../semantics/references.ts';
import { type Client, isAddress, plainAddress } from '../client.ts';

/** The parts of a route that decide the fields of its requests. */
export type ForwardingRules = Pick<
  Route,
  'host' | 'originUrl' | 'toOrigin' | 'match' | 'stripPathPrefix' | 'listOrigins'
> & {
  readonly cache: Pick<RouteCaching, 'acceptEncoding' | 'targetedFields'>;
};

/** The parts of a request that are passed on as fields. */
type ForwardedRequest = Pick<ProxyRequest, 'method' | 'scheme' | 'authority' | 'version' | 'fields' | 'peer'>;

/** Fields that Rangeway sets (Host by policy, framing by the origin's connection), and fields that are addressed to it. */
const ownFields: ReadonlySet<string> = new Set(['host', 'content-length', 'expect', 'proxy-authorization']);

/** Fields in which clients write the name by which they know this server. */
const namingFields: ReadonlySet<string> = new Set(['origin', 'referer', 'destination']);

/** Methods whose responses a cache may give to other clients: an override of such a method would poison the cache. */
const sharedMethods: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** The listener sets the framing. Alt-Svc (RFC 7838) would lead clients around this proxy. Proxy-* is for our own connection. */
const ownResponseFields: ReadonlySet<string> = new Set([
  'alt-svc',
  'content-length',
  'proxy-authenticate',
  'proxy-authentication-info',
]);

/**
 * Returns the fields that an origin gets of a request (RFC 9110 §7.6): the end-to-end fields in order, then Via, CDN-Loop, and the
 * fields that name the client (X-Forwarded-For, -Host, -Port, -Proto, X-Real-IP, Forwarded).
 *
 * Fields that are in no cache key, and may yet decide the response, are removed: forwarding fields of the client, rewritten URLs, and
 * overrides of a method whose response is shared. Fields that state the client's identity (Remote-User, Client-Cert) are passed on
 * from trusted proxies only. By the rules of the route, Accept-Encoding is reduced to a few values, Surrogate-Capability is added,
 * and the fields that the operator removes are removed. Fields that the operator adds are added later, on the way to the origin, so
 * that the cache does not take them for the client's.
 *
 * The authority is passed on in the normal form of routing and of the cache key, so that its spelling cannot decide a stored
 * response.
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

/** Returns the fields that an origin gets of a request for a tunnel, whose response is never shared. Includes the operator's fields. */
export function tunnelRequestFields(
  request: ForwardedRequest,
  client: Client,
  rules: ForwardingRules,
  pseudonym: string,
): Fields {
  return [...requestFields(request, client, rules, pseudonym), ...(rules.toOrigin?.constant ?? [])];
}

/**
 * Returns the fields that a client gets of an origin's response, interim or final, without the framing that the listener adds.
 * `version` is that of the message as received. Upgrade is a hop-by-hop field, but a 426 must have it (RFC 9110 §15.5.22): the origin
 * refuses every request without that protocol, over any connection.
 */
export function forwardedResponseFields(fields: Fields, version: string, pseudonym: string, status = 200): Fields {
  const upgrade = status === 426 ? fields.filter(([name]) => name === 'upgrade') : [];
  const passed = withoutFields(withoutConnectionFields(fields), ownResponseFields);
  return withVia(upgrade.length === 0 ? passed : [...passed, ...upgrade], version, pseudonym);
}

function requestFields(request: ForwardedRequest, client: Client, rules: ForwardingRules, pseudonym: string): Fields {
  const authority = normaliseAuthority(request.authority, request.scheme);
  const known = withoutConnectionFields(request.fields).filter(([name]) => isPassed(name, request.method, client));
  const passed = known.some(hasSession) ? known.flatMap(withoutSession) : known;
  const endToEnd = withDecrementedMaxForwards(request.method, withEncodings(passed, rules));
  const host = hostFor(rules, authority);
  const fields: Fields = [
    ['host', host],
    ...withCdnLoop(
      withVia(withReferences(endToEnd, request.scheme, authority, host, rules), request.version, pseudonym),
      pseudonym,
    ),
    ...forwardingFields(request, client, authority),
    ...capabilityFields(rules),
  ];
  return rules.toOrigin === undefined ? fields : withoutRemoved(fields, rules.toOrigin);
}

/** The fields, with the name that the origin sees in those that name the page that asks. */
function withReferences(
  fields: Fields,
  scheme: 'http' | 'https',
  authority: string | undefined,
  host: string,
  rules: ForwardingRules,
): Fields {
  if (authority === undefined || !fields.some(([name]) => namingFields.has(name))) return fields;
  const used = { scheme, authority, host, isNameOfServer: isNameOfServer(rules, authority) };
  return originReferences(fields, used, referenceRules(rules));
}

function withoutRemoved(fields: Fields, { removed, removedFamilies = [] }: OriginFieldRules): Fields {
  return fields.filter(([name]) => {
    const plainName = withHyphens(name);
    return !removed.has(plainName) && !removedFamilies.some((beginning) => plainName.startsWith(beginning));
  });
}

/** The name of the cookie of a browser that is logged in to the dashboard (`admin/sessions.ts`). */
export const sessionCookie = 'rangeway_session';

function hasSession([name, value]: Field): boolean {
  return name === 'cookie' && value.includes(sessionCookie);
}

/** Browsers send a cookie to every port of its host, so also here. No origin may get it: it is as good as the admin token. */
function withoutSession(field: Field): readonly Field[] {
  if (!hasSession(field)) return [field];
  const cookies = field[1].split(';').map(trimWhitespace);
  const kept = cookies.filter((cookie) => trimWhitespace(cookie.split('=', 1)[0] ?? '') !== sessionCookie);
  return kept.length === 0 ? [] : [['cookie', kept.join('; ')]];
}

/** Whether a field is passed on: always, never, from trusted proxies only, or with methods whose responses are not shared. */
type Passage = 'passed' | 'dropped' | 'vouched' | 'unshared';

function isPassed(name: string, method: string, { isVouchedFor }: Client): boolean {
  switch (passageOf(name)) {
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

const passageOf = memoizeByText(512, (name): Passage => {
  const plainName = withHyphens(name);
  if (ownFields.has(plainName)) return 'dropped';
  const claim = claimOf(name);
  if (claim !== undefined) return claim === 'vouched' ? 'vouched' : 'dropped';
  return isMethodOverride(plainName) ? 'unshared' : 'passed';
});

function withEncodings(fields: Fields, { cache }: ForwardingRules): Fields {
  switch (cache.acceptEncoding) {
    case 'asSent':
      return fields;
    case 'normalise':
      return withField(fields, 'accept-encoding', normaliseAcceptEncoding(fieldValue(fields, 'accept-encoding')));
    case 'identity':
      return withField(fields, 'accept-encoding', 'identity');
  }
}

/** A request without an authority gets that of the origin's URL. */
function hostFor({ host, originUrl }: ForwardingRules, authority: string | undefined): string {
  if (host === 'origin') return hostOfOrigin(originUrl);
  return host === 'keep' ? (authority ?? hostOfOrigin(originUrl)) : host.name;
}

/**
 * The fields that name the client, the proxies after it, and the peer; `unknown` where there is no address. Forwarded states the same
 * (RFC 7239 §5), and the client's host and scheme in its first element. It does not state the interface of this proxy (`by`).
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

/** Origins send Surrogate-Control only to recipients that announce support for it. */
function capabilityFields({ cache }: ForwardingRules): Field[] {
  return cache.targetedFields.includes(surrogateControlField) ? [['surrogate-capability', surrogateCapability]] : [];
}

/**
 * The kinds of claims about a request. `ours`: never passed on, not even from a trusted proxy, because the origin gets the same in
 * our own fields, or because it would change the resource that the origin selects. `vouched`: passed on from a trusted proxy,
 * dropped from other peers.
 */
type Claim = 'ours' | 'vouched';

/**
 * Origins log, limit and admit by these fields, and build URLs from them that a cache would then give to all clients. What a trusted
 * proxy states about the client's address, scheme and authority is read, and stated again in our own fields. CGI programs would
 * take `proxy` for HTTP_PROXY.
 */
const ourFields = {
  client:
    'cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 client-ip cloudfront-viewer-address fastly-client-ip fly-client-ip proxy proxy-client-ip real-ip ' +
    'http-proxy remote-addr remote-host remote-port true-client-ip wl-proxy-client-ip x-appengine-remote-addr x-appengine-user-ip ' +
    'x-azure-clientip x-azure-socketip x-client-ip x-cluster-client-ip x-custom-ip-authorization x-envoy-external-address x-envoy-internal ' +
    'x-nf-client-connection-ip x-originating-ip x-proxyuser-ip x-real-ip ' +
    'x-real-port x-remote-addr x-remote-host x-remote-ip x-remote-port x-vercel-proxied-for',
  scheme:
    'cf-visitor cloudfront-forwarded-proto front-end-https https wl-proxy-ssl x-appengine-https x-arr-ssl x-https x-scheme x-ssl ' +
    'x-url-scheme',
  target:
    'base-url destination-url host-override http-host http-url original-url proxy-host proxy-url request-uri rewrite-url x-backend-host ' +
    'x-base-url x-destination-url x-envoy-original-host x-envoy-original-path x-host x-http-destinationurl x-http-host ' +
    'x-host-override x-http-host-override x-http-path-override x-matched-path x-ms-original-url x-now-route-matches x-original-host x-original-method ' +
    'x-original-path x-original-uri x-original-url x-override-url x-proxy-host x-proxy-url x-real-host x-real-uri x-real-url ' +
    'x-request-uri x-rewrite-host x-rewrite-path x-rewrite-uri x-rewrite-url x-script-name x-waws-unencoded-url',
  capability: 'surrogate-capability',
};

/**
 * The beginnings of further such names: Forwarded (RFC 7239), X-Forwarded-For and their many variants. Also the fields by which parts
 * of an application tell each other that a request is already checked and routed (CVE-2025-29927).
 */
const ourFamilies = [
  'fly-forwarded-',
  'forwarded',
  'x-forwarded',
  'x-forward-',
  'x-forwarder-',
  'x-invoke-',
  'x-middleware-',
  'x-original-forwarded-',
  'x-originally-forwarded-',
  'x-vercel-forwarded-',
];

/**
 * The identity of the client, as stated by a proxy that has authenticated it, by a certificate (RFC 9440) or by single sign-on. Also
 * abilities of the proxy itself. In the spelling that such proxies use.
 */
const vouchedFields = {
  user: 'iv-creds iv-groups iv-user sm_universalid sm_user sm_userdn x-authenticated-user x-endpoint-api-userinfo x-userinfo',
  certificate:
    'client-cert client-cert-chain x-arr-clientcert x-client-cert x-client-certificate x-client-dn x-client-i-dn x-client-s-dn ' +
    'x-client-serial x-client-verified x-client-verify',
  forwarded:
    'x-forwarded-access-token x-forwarded-client-cert x-forwarded-email x-forwarded-groups x-forwarded-preferred-username ' +
    'x-forwarded-tls-client-cert x-forwarded-tls-client-cert-info x-forwarded-user',
  cloud:
    'cf-access-authenticated-user-email cf-access-jwt-assertion x-apigateway-api-userinfo x-azure-fdid ' +
    'x-goog-iap-jwt-assertion x-ms-client-principal teleport-jwt-assertion',
  // How a proxy sends a file that the application names (Rack::Sendfile, CVE-2025-61780).
  sendfile: 'x-accel-mapping x-sendfile-type',
};
const vouchedFamilies = [
  'mellon_',
  'oidc_',
  'remote-',
  'shib-',
  'ssl-',
  'tailscale-',
  'x-amzn-mtls-',
  'x-amzn-oidc-',
  'x-appengine-',
  'x-auth-request-',
  'x-authenticated-',
  'x-authentik-',
  'x-client-cert-',
  'x-client-ssl-',
  'x-consumer-',
  'x-goog-authenticated-user-',
  'x-ms-client-principal-',
  'x-ms-token-aad-',
  'x-pomerium-',
  'x-remote-',
  'x-ssl-',
  'x-tls-client-',
  'x-vouch-',
  'x-webauth-',
];

const ourNames: ReadonlySet<string> = namesOf(ourFields);
const vouchedSpellings: ReadonlySet<string> = namesOf(vouchedFields);
const vouchedNames: ReadonlySet<string> = new Set([...vouchedSpellings].map(withHyphens));
const vouchedBeginnings = vouchedFamilies.map(withHyphens);

/** Fields that a request gets from each proxy that it passes through (RFC 9110 §7.6.3, RFC 8586). */
const proxyFields: ReadonlySet<string> = new Set(['via', 'cdn-loop']);

/** Checks whether fields show that the peer forwards for another client. */
export function isForwarded(fields: Fields): boolean {
  return fields.some(([name]) => proxyFields.has(name) || isClaim(name));
}

/** Whether a field is a claim that only a proxy should make. */
function isClaim(name: string): boolean {
  return claimOf(name) !== undefined;
}

/**
 * The kind of claim that a field makes; undefined for a field that any client may send. `name` is in lower case. An identity in a
 * spelling that proxies do not use (`remote_user`) is `ours`: a proxy that overwrites the usual spelling may have passed on this one
 * from a client, and CGI programs read both as one.
 */
function claimOf(name: string): Claim | undefined {
  const plainName = withHyphens(name);
  if (ourNames.has(plainName)) return 'ours';
  if (vouchedNames.has(plainName) || vouchedBeginnings.some((family) => plainName.startsWith(family))) {
    return isSpeltAsVouched(name) ? 'vouched' : 'ours';
  }
  return ourFamilies.some((family) => plainName.startsWith(family)) ? 'ours' : undefined;
}

function isSpeltAsVouched(name: string): boolean {
  if (vouchedSpellings.has(name)) return true;
  const family = vouchedFamilies.find((beginning) => name.startsWith(beginning));
  return family !== undefined && (family.endsWith('_') ? /^[a-z0-9_]+$/ : /^[a-z0-9-]+$/).test(name);
}

/** Returns a field name as old gateways read it, with `-` for `_` and other signs: they would believe `x_forwarded_for`. */
export function withHyphens(name: string): string {
  return /[^a-z0-9-]/.test(name) ? name.replace(/[^a-z0-9]/g, '-') : name;
}

function namesOf(groups: Readonly<Record<string, string>>): ReadonlySet<string> {
  return new Set(Object.values(groups).flatMap((names) => names.split(' ')));
}

/**
 * Returns the answer to an OPTIONS request that is not forwarded: one with Max-Forwards 0, and one for `*`, which is about the
 * server that it reaches, not about a resource of an origin (RFC 9110 §9.3.7). Undefined for every other request.
 */
export function answerUnforwarded(
  request: Pick<ProxyRequest, 'method' | 'target' | 'fields'>,
): ProxyResponse | undefined {
  if (request.target !== '*' && forwardsLeft(request.method, request.fields) !== 0) return undefined;
  return { status: 204, fields: [['allow', allowedMethods]], body: { kind: 'none' } };
}

/** Returns the fields for the next recipient, with Max-Forwards decremented. */
export function withDecrementedMaxForwards(method: string, fields: Fields): Fields {
  const left = forwardsLeft(method, fields);
  return left === undefined ? fields : withField(fields, 'max-forwards', String(Math.max(0, left - 1)));
}

/** Undefined where the field is absent or malformed, or the method is not OPTIONS: it may then be ignored. */
function forwardsLeft(method: string, fields: Fields): number | undefined {
  const value = method === 'OPTIONS' ? fieldValue(fields, 'max-forwards') : undefined;
  return value !== undefined && /^[0-9]{1,9}$/.test(value) ? Number(value) : undefined;
}
