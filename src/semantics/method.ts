/** What is known of request methods. */

const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/**
 * Whether a method asks for nothing to be changed (RFC 9110 §9.2.1). Methods are case-sensitive; unknown ones are
 * unsafe.
 */
export function isSafeMethod(method: string): boolean {
  return safeMethods.has(method);
}
