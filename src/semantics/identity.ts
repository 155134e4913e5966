/** Finds which parts of a request identify its client, and which responses are for all clients (RFC 9111 §3, §7.1). */

import { type Fields, fieldLines, fieldValue } from '../http/fields.ts';
import { type CacheControl, readCacheControl } from './cache-control.ts';
import { parseCookies } from './cookies.ts';
import { type DatedResponse, type Freshness, type FreshnessPolicy, freshnessLifetime } from './freshness.ts';
import { isListed } from './query.ts';

/** The operator's rules for which parts of a request identify its client. In all lists `x-app-*` matches every name with that prefix. */
export interface IdentityRules {
  /** Fields that do not identify the client, in lower case. */
  readonly ignore: readonly string[];
  /** Cookies that do not identify the client; case-sensitive. */
  readonly ignoreCookies: readonly string[];
  /** Fields that identify the client although they are neutral by default, in lower case. */
  readonly include: readonly string[];
  /** Cookies that identify the client although they are neutral by default; case-sensitive. */
  readonly includeCookies: readonly string[];
}

/** The rules where `cache.identityFields` is not configured. */
export const defaultIdentityRules: IdentityRules = { ignore: [], ignoreCookies: [], include: [], includeCookies: [] };

/** A field or, as `cookie:name`, a cookie of a request, with its value. */
export type IdentityPart = readonly [name: string, value: string];

/**
 * Neutral fields: they do not identify a client, so requests that differ in them share responses without a stated lifetime.
 * Every field that is not listed distinguishes clients. Names are listed one by one where a family has members that are
 * credentials: `Sec-Session-Response` and `Sec-Token-Binding` are in no list.
 */
const neutralFields: ReadonlySet<string> = new Set(
  [
    // The resource, its conditions and its form (RFC 9110 §12.5, §13.1, §14.2; RFC 9530, RFC 3229, RFC 7089).
    'host range if-match if-modified-since if-none-match if-range if-unmodified-since ' +
      'accept accept-charset accept-datetime accept-encoding accept-features accept-language accept-profile accept-signature ' +
      'a-im available-dictionary dictionary-id negotiate want-content-digest want-digest want-repr-digest want-unencoded-digest',
    // The client program and its purpose (RFC 9110 §10.1; Fetch; RFC 8942 and earlier client hints).
    'user-agent referer origin x-requested-with purpose x-purpose x-moz x-wap-profile x-unity-version x-ucbrowser-ua ' +
      'sec-fetch-dest sec-fetch-mode sec-fetch-site sec-fetch-user sec-fetch-storage-access sec-purpose sec-gpc ' +
      'sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform sec-required-csp sec-required-document-policy sec-speculation-tags ' +
      'sec-websocket-extensions sec-websocket-version service-worker service-worker-navigation-preload ' +
      'upgrade-insecure-requests dnt save-data device-memory downlink dpr ect rtt viewport-width width ' +
      'priority early-data alt-used x-http2-stream-weight',
    // The connection, and content that is not there (RFC 9110 §7.6, §8; RFC 9112 §9.6).
    'connection proxy-connection keep-alive te trailer transfer-encoding upgrade http2-settings expect max-forwards ' +
      'content-length content-type cache-control pragma',
    // Players, downloaders and television sets.
    'icy-metadata x-playback-session-id cmcd-object cmcd-request cmcd-session cmcd-status cast-device-capabilities ' +
      'getcontentfeatures.dlna.org transfermode.dlna.org realtimeinfo.dlna.org getavailableseekrange.dlna.org ' +
      'getmediainfo.sec getcaptioninfo.sec friendlyname.dlna.org scid.dlna.org contentfeatures.dlna.org ' +
      'x-roku-reserved-session-id flatpak-ref flatpak-upgrade-from',
    // Proxies on the way, this one included (RFC 7239, RFC 8586; W3C Edge Architecture).
    'via cdn-loop forwarded x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-proto x-forwarded-server x-real-ip ' +
      'surrogate-capability cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 cf-ray cf-visitor cf-ew-via true-client-ip ' +
      'fastly-client-ip fastly-ff x-amz-cf-id x-azure-ref x-varnish x-timer x-request-start x-queue-start ' +
      'x-envoy-attempt-count x-envoy-expected-rq-timeout-ms x-envoy-external-address x-scheme x-arr-log-id',
    // Tracing (W3C Trace Context and its predecessors).
    'traceparent tracestate b3 x-b3-traceid x-b3-spanid x-b3-parentspanid x-b3-sampled x-b3-flags uber-trace-id ' +
      'x-ot-span-context x-request-id request-id x-correlation-id correlation-id correlation-context x-trace-id x-span-id ' +
      'x-amzn-trace-id x-cloud-trace-context sentry-trace newrelic elastic-apm-traceparent ms-cv client-request-id ' +
      'x-client-request-id x-ms-client-request-id x-client-trace-id ' +
      'x-datadog-trace-id x-datadog-parent-id x-datadog-sampling-priority x-datadog-origin',
  ]
    .join(' ')
    .split(' '),
);

/** Families of neutral fields without exceptions: metadata of fetches, and client hints. */
const neutralFamilies = ['sec-fetch-', 'sec-ch-'];

/**
 * Cookies that scripts set to measure traffic; origins do not read them. Each pattern is as its scripts write the name, because
 * the prefix `_ga` alone may belong to a session cookie: for an application `gateway`, Rails uses `_gateway_session` and
 * Phoenix `_gateway_key`.
 */
const countingCookie = new RegExp(
  `^(?:${[
    // Google Analytics, Ads and Tag Manager; Meta, Microsoft, TikTok, Snap, Pinterest.
    '_ga(?:_[A-Z0-9]+)?|_gid|_gat(?:_(?:gtag_)?UA[-_].*)?|_gac_(?:UA-|gb_).*|_gcl_(?:ag|au|aw|dc|gb|gf|gs|ha)|__gads|__gpi|_dc_gtm_UA-.*',
    '__utm(?:[abcktvz]|li|xx?|t_.*)|_fbp|_fbc|_clck|_clsk|_uetsid|_uetvid|_tt_enable_cookie|_ttp|_scid|_scid_r|_pin_unauth',
    // Matomo, Hotjar, Yandex.
    '_pk_(?:id|ses|ref|cvar|hsr)\\..*|_hj(?:id|[A-Z].*)|_ym_uid|_ym_d|_ym_isad|_ym_visorc(?:_\\d+w?)?',
  ].join('|')})$`,
);

/**
 * Returns the parts of a request that may identify its client, sorted by name: every field that is not neutral, and each member
 * of Cookie and `baggage` (W3C Baggage) by itself. Empty for an anonymous client. `request` are the fields that the origin is
 * sent.
 */
export function identityParts(request: Fields, rules: IdentityRules): readonly IdentityPart[] {
  const parts: IdentityPart[] = [];
  for (const name of new Set(request.map(([each]) => each))) {
    if (isNeutral(name, rules)) continue;
    if (name === 'cookie') parts.push(...cookieParts(request, rules));
    else if (name === 'baggage' && !rules.include.includes(name)) parts.push(...baggageParts(request));
    else parts.push([name, fieldValue(request, name) ?? '']);
  }
  // Not by locale. Members of one name keep their order.
  return parts.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** Checks whether no part of a request identifies its client. Equals an empty `identityParts`, but is cheaper. */
export function isAnonymous(request: Fields, rules: IdentityRules): boolean {
  for (const [name] of request) {
    if (isNeutral(name, rules)) continue;
    if (name !== 'cookie' && name !== 'baggage') return false;
    if (identityParts(request, rules).length > 0) return false;
  }
  return true;
}

function isNeutral(name: string, { ignore, include }: IdentityRules): boolean {
  if (include.length > 0 && isListed(name, include)) return false;
  if (neutralFields.has(name) || neutralFamilies.some((family) => name.startsWith(family))) return true;
  return ignore.length > 0 && isListed(name, ignore);
}

function cookieParts(request: Fields, { ignoreCookies, includeCookies }: IdentityRules): IdentityPart[] {
  const isCounted = (name: string) =>
    isListed(name, includeCookies) || !(countingCookie.test(name) || isListed(name, ignoreCookies));
  return parseCookies(request)
    .filter(({ name }) => isCounted(name))
    .map(({ name, pair }): IdentityPart => [`cookie:${name}`, pair]);
}

/** Error-reporting scripts add `sentry-` members to every request of a page; other members may identify a user. */
function baggageParts(request: Fields): IdentityPart[] {
  return fieldLines(request, 'baggage')
    .flatMap((line) => line.split(','))
    .map((member) => member.trim())
    .filter((member) => member !== '' && !member.startsWith('sentry-'))
    .map((member): IdentityPart => ['baggage', member]);
}

/**
 * Checks whether a response may be given to all clients, because it states that or the operator has set it.
 * - The response states it by `public`, by s-maxage (even 0), or by max-age or Expires, also of a targeted field, with a
 *   lifetime above 0 or with time to be served stale (RFC 5861).
 * - The operator sets it by a `defaultTtl…` or `overrideTtl…` above 0.
 *
 * A lifetime that is guessed from Last-Modified is not a statement (RFC 9111 §4.2.2).
 */
export function permitsSharing(
  response: DatedResponse,
  policy: Omit<FreshnessPolicy, 'rangeReuseSeconds'>,
  control: CacheControl = readCacheControl(response.fields, policy),
  { source, lifetimeMs }: Freshness = freshnessLifetime(response, policy, control),
): boolean {
  if (control.public) return true;
  switch (source) {
    case 's-maxage':
      return true;
    case 'max-age':
    case 'expires':
      return lifetimeMs > 0 || (control.staleWhileRevalidate ?? 0) > 0 || (control.staleIfError ?? 0) > 0;
    case 'default':
    case 'override':
      return lifetimeMs > 0;
    case 'heuristic':
    case 'none':
      return false;
  }
}
