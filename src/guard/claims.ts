/** What a client says about itself, or about what it asks for, where only a proxy before it should speak. */

/**
 * Origins log, limit and admit by these, and build URLs from them that a cache would then give to everybody. None of it is
 * passed on, not even of trusted proxies: their word on the client is read, and said again in our own.
 */
const claims = {
  client:
    'cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 client-ip fastly-client-ip proxy-client-ip real-ip remote-addr ' +
    'true-client-ip wl-proxy-client-ip x-client-ip x-cluster-client-ip x-custom-ip-authorization x-originating-ip x-real-ip ' +
    'x-remote-addr x-remote-ip',
  scheme:
    'cf-visitor cloudfront-forwarded-proto front-end-https https wl-proxy-ssl x-arr-ssl x-https x-scheme x-ssl x-url-scheme',
  target:
    'base-url destination-url http-host http-url original-url proxy-host proxy-url request-uri rewrite-url x-backend-host ' +
    'x-base-url x-destination-url x-envoy-original-host x-envoy-original-path x-host x-http-destinationurl x-http-host ' +
    'x-http-host-override x-http-path-override x-original-host x-original-path x-original-uri x-original-url x-override-url ' +
    'x-proxy-host x-proxy-url x-request-uri x-rewrite-host x-rewrite-path x-rewrite-uri x-rewrite-url x-script-name',
  capability: 'surrogate-capability',
};
const claimFields: ReadonlySet<string> = new Set(Object.values(claims).flatMap((names) => names.split(' ')));

/** The beginnings of names that are such claims: Forwarded (RFC 7239), X-Forwarded-For and all that was made after them. */
const claimFamilies = [
  'forwarded',
  'x-forwarded',
  'x-forward-',
  'x-forwarder-',
  'x-original-forwarded-',
  'x-originally-forwarded-',
];

/** Whether a field is a claim that only a proxy before the client's request should make. */
export function isClaim(name: string): boolean {
  const plainName = withHyphens(name);
  return claimFields.has(plainName) || claimFamilies.some((family) => plainName.startsWith(family));
}

/**
 * A field name as old gateways read it: `_`, and other signs, as `-`, so that `x_forwarded_for` would be believed.
 */
export function withHyphens(name: string): string {
  return /[^a-z0-9-]/.test(name) ? name.replace(/[^a-z0-9]/g, '-') : name;
}
