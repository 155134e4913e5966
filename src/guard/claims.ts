/** Request fields that only a proxy in front of this one may say: about the client, who it is, or what it asks for. */

import type { Fields } from '../http/fields.ts';

/**
 * What becomes of a field that is a claim. `ours`: never passed on, not even from a trusted proxy, because the origin gets the same
 * in our own words, or because it would change which resource the origin answers for. `vouched`: passed on from a trusted proxy,
 * dropped from everybody else.
 */
export type Claim = 'ours' | 'vouched';

/**
 * Origins log, limit and admit by these, and build URLs from them that a cache would then give to everybody. The word of a trusted
 * proxy on the client's address, scheme and authority is read, and said again in our own fields. `proxy` is what CGI programs
 * would take for their HTTP_PROXY.
 */
const ourFields = {
  client:
    'cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 client-ip cloudfront-viewer-address fastly-client-ip fly-client-ip proxy proxy-client-ip real-ip ' +
    'remote-addr remote-host remote-port true-client-ip wl-proxy-client-ip x-appengine-remote-addr x-appengine-user-ip ' +
    'x-azure-clientip x-azure-socketip x-client-ip x-cluster-client-ip x-custom-ip-authorization x-envoy-external-address x-envoy-internal ' +
    'x-nf-client-connection-ip x-originating-ip x-proxyuser-ip x-real-ip ' +
    'x-real-port x-remote-addr x-remote-host x-remote-ip x-remote-port x-vercel-proxied-for',
  scheme:
    'cf-visitor cloudfront-forwarded-proto front-end-https https wl-proxy-ssl x-appengine-https x-arr-ssl x-https x-scheme x-ssl ' +
    'x-url-scheme',
  target:
    'base-url destination-url http-host http-url original-url proxy-host proxy-url request-uri rewrite-url x-backend-host ' +
    'x-base-url x-destination-url x-envoy-original-host x-envoy-original-path x-host x-http-destinationurl x-http-host ' +
    'x-http-host-override x-http-path-override x-matched-path x-ms-original-url x-now-route-matches x-original-host ' +
    'x-original-path x-original-uri x-original-url x-override-url x-proxy-host x-proxy-url x-real-host x-real-uri x-real-url ' +
    'x-request-uri x-rewrite-host x-rewrite-path x-rewrite-uri x-rewrite-url x-script-name',
  capability: 'surrogate-capability',
};

/**
 * The beginnings of such names: Forwarded (RFC 7239), X-Forwarded-For and all that was made after them; and the fields by which
 * parts of an application tell each other that a request has been checked and routed already (CVE-2025-29927).
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
 * Who the client is, as a proxy says that has authenticated it: by a certificate (RFC 9440) or by single sign-on; and what the proxy
 * itself can do. In the spelling that such proxies use.
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
  // What a proxy does with a file that an application names (Rack::Sendfile, CVE-2025-61780).
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

/** Fields by which proxies say that a request has passed through them (RFC 9110 §7.6.3, RFC 8586). */
const proxyFields: ReadonlySet<string> = new Set(['via', 'cdn-loop']);

/** Whether fields show that the peer speaks for another client. */
export function isForwarded(fields: Fields): boolean {
  return fields.some(([name]) => proxyFields.has(name) || isClaim(name));
}

/** Whether a field is a claim that only a proxy before the client's request should make. */
export function isClaim(name: string): boolean {
  return claimOf(name) !== undefined;
}

/**
 * What kind of claim a field is; undefined for one that any client may send. `name` is in lower case. A claim of who the client is in
 * another spelling than proxies use (`remote_user`) is `ours`: a proxy that overwrites its own field may have passed on a client's
 * under that name, and CGI programs read both as one.
 */
export function claimOf(name: string): Claim | undefined {
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

/**
 * A field name as old gateways read it: `_`, and other signs, as `-`, so that `x_forwarded_for` would be believed.
 */
export function withHyphens(name: string): string {
  return /[^a-z0-9-]/.test(name) ? name.replace(/[^a-z0-9]/g, '-') : name;
}

function namesOf(groups: Readonly<Record<string, string>>): ReadonlySet<string> {
  return new Set(Object.values(groups).flatMap((names) => names.split(' ')));
}
