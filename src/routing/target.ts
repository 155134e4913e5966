/**
 * Targets as clients send them, and the forms in which routes and origins may read them. Also the normal form of authorities,
 * the only form that routing, keys and origins see.
 */

/** A target in its two parts: `path + query` is the target in origin-form. */
export interface Target {
  /** Begins with `/`, or is `*` (OPTIONS). Holds no `?`. */
  readonly path: string;
  /** Empty, or begins with `?`. `?` alone differs from no query (RFC 3986 §6.2.3). */
  readonly query: string;
}

/** Splits a target into its parts, byte for byte as the origin gets them (RFC 9110 §7.7). */
export function splitTarget(target: string): Target {
  const mark = target.indexOf('?');
  return mark < 0 ? { path: target, query: '' } : { path: target.slice(0, mark), query: target.slice(mark) };
}

/**
 * Returns the normal form of a target (RFC 3986 §6.2.2): hexadecimal digits in upper case, unreserved characters decoded, dot
 * segments removed, also those written as `%2e`. Everything that may have a meaning for an origin stays: letter case, `%2F`,
 * repeated slashes, the order of a query, a percent sign that begins no valid sequence. The normal form of a normal form is
 * itself. Never throws.
 */
export function normaliseTarget(target: string): Target {
  const { path, query } = splitTarget(target);
  return { path: normalisePath(path), query: decodeUnreserved(query) };
}

/**
 * Checks whether every reader interprets a path as it is written: it has no encoded byte, backslash or parameter, and no
 * segment that is empty or begins with a dot.
 */
export function hasOneReading(path: string): boolean {
  return !/[%\\;]|\/[./]/.test(path);
}

/**
 * Matches a target, a path with or without a query, that every reader interprets as it is written and that is its own normal
 * form: no encoded byte, backslash, parameter or fragment, and no segment that is empty or begins with a dot.
 */
export const plainTarget = /^(?:\/(?![./])[^%\\;#/]*)+$/;

/**
 * Checks whether a path hides a step up: a segment `..` next to an encoded slash or a backslash, or with a parameter. Some
 * origins read it as `..` once they have decoded the path. So `/public/..%2Fadmin` is of one route here and of another there,
 * and its response is stored under a name that looks harmless. A plain `..` hides nothing.
 */
export function hasHiddenDotDot(path: string): boolean {
  if (!/\.|%2e/i.test(path)) return false;
  const decoded = decodeUnreserved(path);
  return /(?:\\|%2F|%5C)\.\.(?:$|[/\\;]|%2F|%5C|%3B)|\/\.\.(?:[\\;]|%2F|%5C|%3B)/.test(decoded);
}

/**
 * Returns the forms in which origins may read a path, each once, the normal form first. Some readers compare the text as it was
 * sent (with hexadecimal digits in upper case), some decode it first, and some remove dot segments before or after that. The
 * most lenient readers treat encoded slashes and backslashes as slashes, ignore the parameters of a segment, and merge repeated
 * slashes; each of these may come alone. `path` must hide no step up.
 */
export function pathReadings(path: string): readonly string[] {
  const sent = withUpperDigits(path);
  const decoded = decodeUnreserved(path);
  const readings = new Set([normalisePath(path), sent, withoutDotSegments(sent)]);
  const lenient = new Set([decoded]);
  for (const read of lenientReaders) for (const form of [...lenient]) lenient.add(read(form));
  for (const form of lenient) {
    readings.add(form);
    const plain = withoutDotSegments(form);
    readings.add(plain).add(plain.replace(repeatedSlashes, '/'));
  }
  return [...readings];
}

/**
 * Checks whether the steps up (`..`) of a path may lead out of its prefix for some reader; with prefix `/`, above the root. A
 * segment that some readers ignore counts as none. Without its dot segments, also encoded ones, the path must begin with
 * `prefix`, and it must hide no step up.
 */
export function mayLeavePrefix(path: string, prefix: string): boolean {
  const decoded = decodeUnreserved(path);
  if (!decoded.includes('/..')) return false;
  let depth = 0;
  for (const segment of decoded.slice(prefix.length).split('/')) {
    if (segment === '..') depth -= 1;
    else if (lenientSegments(segment).some((part) => part !== '' && part !== '.')) depth += 1;
    if (depth < 0) return true;
  }
  return false;
}

/** Returns the path with the hexadecimal digits of encoded bytes in upper case (RFC 3986 §6.2.2.1); its length stays. */
export function withUpperDigits(path: string): string {
  return path.includes('%') ? path.replace(/%[0-9a-f]{2}/gi, (triplet) => triplet.toUpperCase()) : path;
}

const repeatedSlashes = /\/{2,}/g;
/** The steps of lenient readers on a decoded path, in this order. */
const lenientReaders: readonly ((path: string) => string)[] = [
  (path) => path.replace(/%2F/g, '/'),
  (path) => path.replace(/\\|%5C/g, '/'),
  (path) => path.replace(/(?:;|%3B)[^/]*/g, ''),
  (path) => path.replace(repeatedSlashes, '/'),
];

function lenientSegments(segment: string): readonly string[] {
  return segment.split(/\\|%5C|%2F/).map((part) => part.replace(/(?:;|%3B).*/, ''));
}

function normalisePath(path: string): string {
  return withoutDotSegments(decodeUnreserved(path));
}

/**
 * A stray percent sign must not form a sequence with characters that are decoded after it: `%%341` is not `%41`. So the two
 * characters after it keep their encoding.
 */
function decodeUnreserved(text: string): string {
  if (!text.includes('%')) return text;
  let normal = '';
  let strayAt = Number.NEGATIVE_INFINITY;
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    const digits = text.slice(at + 1, at + 3);
    if (character !== '%') {
      normal += character;
    } else if (/^[0-9a-f]{2}$/i.test(digits)) {
      const decoded = String.fromCharCode(Number.parseInt(digits, 16));
      const mayDecode = /[\w.~-]/.test(decoded) && normal.length - strayAt > 2;
      normal += mayDecode ? decoded : `%${digits.toUpperCase()}`;
      at += 2;
    } else {
      strayAt = normal.length;
      normal += character;
    }
  }
  return normal;
}

/** RFC 3986 §5.2.4. A target that is not a path (`*`) stays as it is. */
function withoutDotSegments(path: string): string {
  if (!path.startsWith('/') || !path.includes('/.')) return path;
  const kept: string[] = [];
  const segments = path.slice(1).split('/');
  for (const [index, segment] of segments.entries()) {
    const isDots = segment === '.' || segment === '..';
    if (segment === '..') kept.pop();
    if (!isDots) kept.push(segment);
    else if (index === segments.length - 1) kept.push('');
  }
  return `/${kept.join('/')}`;
}

/** Host and port: a name, an IPv6 address (which the URL parser checks), or IPvFuture (RFC 3986 §3.2.2). */
const authorityPattern = /^([a-z0-9._~-]+|\[(?:[0-9a-f:.]+|v[0-9a-f]+\.[\w.~!$&'()*+,;=:-]+)\])(?::(\d{0,5}))?$/;

const defaultPorts = { http: 80, https: 443 } as const;

/**
 * Returns the normal form of an authority (RFC 3986 §6.2.2.1, §6.2.3; RFC 9110 §4.2.3): lower case, without an empty port or
 * the scheme's default port; addresses are not rewritten. Undefined for an invalid authority, an empty text included: user
 * information (RFC 9110 §4.2.4), percent-encoded names, zone identifiers and ports out of range are refused.
 */
export function normaliseAuthority(authority: string, scheme: 'http' | 'https'): string | undefined {
  const [, host, portText] = authorityPattern.exec(authority.toLowerCase()) ?? [];
  if (host === undefined) return undefined;
  if (host.startsWith('[') && !host.startsWith('[v') && !URL.canParse(`http://${host}`)) return undefined;
  const port = portText === undefined || portText === '' ? defaultPorts[scheme] : Number(portText);
  if (port < 1 || port > 65_535) return undefined;
  return port === defaultPorts[scheme] ? host : `${host}:${port}`;
}

/** Returns the host of a normalised authority, brackets included, without the port. */
export function hostOf(authority: string): string {
  return authority.replace(/:\d+$/, '');
}

/** Checks whether a host in normal form, without a port, is an address, or a name of the machine itself (RFC 6761 §6.3). */
export function isAddressOrLoopback(host: string): boolean {
  return host.startsWith('[') || /^(?:\d+\.){3}\d+$/.test(host) || /^(?:.+\.)?localhost$/.test(host);
}

/** Returns the port of a normalised authority, or the scheme's default port. */
export function portOf(authority: string, scheme: 'http' | 'https'): number {
  const port = /:(\d+)$/.exec(authority)?.[1];
  return port === undefined ? defaultPorts[scheme] : Number(port);
}
