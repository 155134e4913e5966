/** Properties of request methods. */

/** Value of Allow in responses of our own (RFC 9110 §10.2.1): the methods of RFC 9110 that are passed on, and PATCH. */
export const allowedMethods = 'GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE';

/** The safe methods of the registry (RFC 9110 §16.1), without PRI, which is no request. */
const safeMethods: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'OPTIONS',
  'PROPFIND',
  'QUERY',
  'REPORT',
  'SEARCH',
  'TRACE',
]);

/**
 * Checks whether a method is safe (RFC 9110 §9.2.1; PROPFIND: RFC 4918 §9.1, QUERY: RFC 10008 §2, REPORT: RFC 3253 §3.6, SEARCH: RFC 5323 §2).
 * Methods are case-sensitive; unknown ones are unsafe.
 */
export function isSafeMethod(method: string): boolean {
  return safeMethods.has(method);
}

/** Checks whether a method is idempotent (RFC 9110 §9.2.2). Such a request may be sent again when it is not known whether it arrived. */
export function isIdempotentMethod(method: string): boolean {
  return isSafeMethod(method) || method === 'PUT' || method === 'DELETE';
}

/** Request fields that make some origins treat a request as one of another method. */
const overrideFields: ReadonlySet<string> = new Set(['x-http-method', 'x-http-method-override', 'x-method-override']);

/** Checks whether a request field (its name in lower case) can override the method. */
export function isMethodOverride(name: string): boolean {
  // Old gateways read `_` and `-` in a name as the same character.
  return overrideFields.has(name.replaceAll('_', '-'));
}
