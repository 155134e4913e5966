/** The request target in its normal form, the only one that routing, the key and the origin see. */

/** A normalised target: `path + query` is the target in origin-form. */
export interface Target {
  /** Begins with `/`, or is `*` (OPTIONS). Holds no `?`. */
  readonly path: string;
  /** Empty, or begins with `?`. `?` alone is another target than none (RFC 3986 §6.2.3). */
  readonly query: string;
}

/**
 * The normal form of a target (RFC 3986 §6.2.2): hexadecimal digits in upper case, unreserved characters decoded, dot segments
 * removed, those that were written `%2e` too. What might mean something to an origin stays: case, `%2F`, repeated slashes, the
 * order of a query, a percent sign that begins no valid sequence. Normalising twice is normalising once. Never throws.
 */
export function normaliseTarget(target: string): Target {
  const mark = target.indexOf('?');
  const path = decodeUnreserved(mark < 0 ? target : target.slice(0, mark));
  const query = mark < 0 ? '' : decodeUnreserved(target.slice(mark));
  return { path: path.startsWith('/') ? removeDotSegments(path) : path, query };
}

/**
 * Whether a normalised path hides a step up: a segment `..` beside an encoded slash or a backslash, or with a parameter. Some
 * origins take it for one after they have decoded the path, so that `/public/..%2Fadmin` is of one route here and of another
 * there, and what it brings is kept under a name that looks harmless.
 */
export function hidesStepUp(path: string): boolean {
  return path.includes('..') && /(?:[/\\]|%2F|%5C)\.\.(?:$|[/\\;]|%2F|%5C|%3B)/.test(path);
}

/**
 * A normalised path as the most lenient origins read it, after they have decoded it: slashes that are encoded or turned round
 * separate segments, those that are repeated count as one, and parameters of a segment count as nothing. `path` hides no
 * step up.
 */
export function lenientPath(path: string): string {
  if (!/[\\;]|\/\/|%2F|%5C|%3B/.test(path)) return path;
  const plain = path.replace(/\\|%2F|%5C/g, '/').replace(/(?:;|%3B)[^/]*/g, '');
  return removeDotSegments(plain).replace(/\/{2,}/g, '/');
}

/**
 * A stray percent sign must not be completed by what is decoded after it: `%%341` is no `%41`. So the digits after one keep
 * their encoding.
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

/** RFC 3986 §5.2.4, for a path that begins with `/`. */
function removeDotSegments(path: string): string {
  if (!path.includes('/.')) return path;
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
