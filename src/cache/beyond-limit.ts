/** Refusals to ask the origin, which say nothing of it and concern the one who asked. */

import type { ProxyError } from '../http/proxy-error.ts';

const codes: ReadonlySet<string> = new Set(['origin_share_spent', 'origin_busy', 'too_many_requests']);

/**
 * Whether an exchange was refused, or ended, because of a limit of the client that it was for. Others who wanted what it was
 * to bring are not refused by that: they ask for themselves.
 */
export function isBeyondLimit({ code }: ProxyError): boolean {
  return codes.has(code);
}
