/** An origin that forgives an idle connection for having been closed under a request. */

import { ProxyError } from '../http/proxy-error.ts';
import type { Origin, OriginRequest } from './origin.ts';

/** The idempotent methods (RFC 9110 §9.2.2) whose requests have no body to send twice. */
const retriedMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Sends a request once more when its connection was closed before any response came (RFC 9112 §9.3.1): an origin closes
 * idle connections when it likes, also in the moment in which they are used again. One retry; its outcome stands.
 */
export function createRetryingOrigin(origin: Origin): Origin {
  return {
    async fetch(request) {
      let answered = false;
      const onInterim: OriginRequest['onInterim'] = (interim) => {
        answered = true;
        request.onInterim?.(interim);
      };
      try {
        return await origin.fetch({ ...request, onInterim });
      } catch (error) {
        if (answered || !mayRetry(request, error)) throw error;
        return origin.fetch(request);
      }
    },
    close: () => origin.close(),
  };
}

function mayRetry(request: OriginRequest, error: unknown): boolean {
  if (request.body !== undefined || !retriedMethods.has(request.method) || request.signal.aborted) return false;
  return error instanceof ProxyError && error.code === 'origin_reset';
}
