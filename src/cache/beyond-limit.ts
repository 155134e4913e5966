/** Refusals to ask the origin, which say nothing of it and concern the one who asked. */

import type { ProxyError } from '../http/proxy-error.ts';

const codes: ReadonlySet<string> = new Set(['origin_share_spent', 'origin_busy', 'too_many_requests']);

/** Whether an exchange was refused, or ended, because of a limit: of the route, or of the client that it was for. */
export function isBeyondLimit({ code }: ProxyError): boolean {
  return codes.has(code);
}

/**
 * Whether such a refusal, which one client got, holds for another request too that has waited for the same. A limit of the
 * route is one for all of them; a limit of a client is one for its own requests, and others ask for themselves.
 */
export function isRefusedTo(client: string, refusal: ProxyError, refused: string): boolean {
  return refusal.code === 'origin_busy' || client === refused;
}
