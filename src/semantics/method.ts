/** What is known of request methods. */

/** What Allow says where the origin is not asked (RFC 9110 §10.2.1): the methods of the RFCs that are passed on. */
export const allowedMethods = 'GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE';

const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'PROPFIND', 'REPORT', 'SEARCH', 'TRACE']);

/**
 * Whether a method asks for nothing to be changed (RFC 9110 §9.2.1; PROPFIND: RFC 4918 §9.1, REPORT: RFC 3253 §3.6,
 * SEARCH: RFC 5323 §2). Methods are case-sensitive; unknown ones are
 * unsafe.
 */
export function isSafeMethod(method: string): boolean {
  return safeMethods.has(method);
}

/**
 * Whether doing it twice is doing it once (RFC 9110 §9.2.2), so that it may be sent again when it is not known whether it
 * arrived.
 */
export function isIdempotentMethod(method: string): boolean {
  return isSafeMethod(method) || method === 'PUT' || method === 'DELETE';
}

/** Request fields by which some origins take a request for one of another method. */
const overrideFields: ReadonlySet<string> = new Set(['x-http-method', 'x-http-method-override', 'x-method-override']);

/** Whether a request field (its name in lower case) turns a request into one of another method. */
export function isMethodOverride(name: string): boolean {
  // Old gateways read `_` and `-` in a name as the same sign.
  return overrideFields.has(name.replaceAll('_', '-'));
}
