/** The query parameters that distinguish resources, and the name patterns by which an operator lists them. */

/**
 * Which query parameters count: all, none, only those listed, or all but those listed. Names are listed in percent-decoded
 * form. `utm_*` matches every name that begins with `utm_`.
 */
export type QuerySelection =
  | 'all'
  | 'none'
  | { readonly keep: readonly string[] }
  | { readonly ignore: readonly string[] };

/**
 * Returns the part of a query that counts, order and bytes unchanged; empty when no parameter counts. `query` is empty or
 * begins with `?`. Except with `none`, a parameter that contains `;` always counts, because origins disagree on whether `;`
 * separates parameters. Otherwise `?ignored=1;id=2` would have the key of a request without a query, and one origin's response
 * for `id=2` would be stored under it.
 */
export function selectParameters(query: string, selection: QuerySelection): string {
  if (selection === 'all' || query === '') return query;
  if (selection === 'none') return '';
  const parameters = query.slice(1).split('&');
  const kept = parameters.filter(
    (parameter) => parameter.includes(';') || doesCount(parameterName(parameter), selection),
  );
  return kept.length === 0 ? '' : `?${kept.join('&')}`;
}

/** Checks whether a query has a parameter with one of these names. `;` separates parameters here too, as some origins read it. */
export function hasParameter(query: string, names: readonly string[]): boolean {
  return query
    .slice(1)
    .split(/[&;]/)
    .some((parameter) => isListed(parameterName(parameter), names));
}

function doesCount(name: string, selection: Exclude<QuerySelection, string>): boolean {
  return 'keep' in selection ? isListed(name, selection.keep) : !isListed(name, selection.ignore);
}

/** Decoded once (RFC 3986 §2.4). A name that is not percent-encoded UTF-8 stays as it is. */
function parameterName(parameter: string): string {
  const end = parameter.indexOf('=');
  const name = end < 0 ? parameter : parameter.slice(0, end);
  if (!name.includes('%')) return name;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Checks whether a name is in the list. `utm_*` matches every name that begins with `utm_`. Case-sensitive. */
export function isListed(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => (pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern));
}

/** Names of query parameters that carry a signature, its expiry or a token, in lower case; a prefix where it ends with `-`. */
const signatureNames = new Set([
  'access_token',
  'auth',
  'auth_key',
  'authkey',
  'authorization',
  'code',
  'download_token',
  'exp',
  'expire',
  'expires',
  'expiry',
  'hash',
  'hdnea',
  'hdnts',
  'hmac',
  'jwt',
  'key',
  'key-pair-id',
  'md5',
  'nonce',
  'once',
  'otp',
  'policy',
  'se',
  'sig',
  'sign',
  'signature',
  'st',
  'ticket',
  'tk',
  'token',
  'txsecret',
  'txtime',
  'verify',
  'wssecret',
  'wstime',
]);
const signaturePrefixes = ['x-amz-', 'x-goog-', 'x-oss-', 'ossaccesskeyid', 'awsaccesskeyid', 'google', 'hdn'];

/** A value that nobody chose: at least 20 characters of Base64, Base64url or hexadecimal, with a digit and a letter. */
const randomValue = /^(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_\-+/.~%]{20,}={0,2}$/;

/**
 * Whether a query looks as if it held a token or a signature, so that its URL may be answered only once, or for a short time. A
 * guess by the usual names of parameters, and by values that look random.
 */
export function looksSigned(query: string): boolean {
  return query.split('&').some((parameter) => {
    const [rawName = '', ...rest] = parameter.split('=');
    const name = rawName.toLowerCase();
    return (
      signatureNames.has(name) ||
      signaturePrefixes.some((prefix) => name.startsWith(prefix)) ||
      name.endsWith('token') ||
      name.endsWith('signature') ||
      randomValue.test(rest.length === 0 ? rawName : rest.join('='))
    );
  });
}
