/** Redirects clients to the same URI with the scheme https. */

import { Journey } from '../delivery/journey.ts';
import type { Clock } from '../http/clock.ts';
import type { Handler, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { hostOf, normaliseAuthority } from '../routing/target.ts';
import type { Emit, StartEvent } from '../telemetry/events.ts';

/** Options of the redirect handler. */
export interface HttpsRedirectOptions {
  /** The https port that clients connect to. */
  readonly port: number;
  readonly clock: Clock;
  readonly emit: Emit;
}

const begun: StartEvent = { kind: 'begun', what: 'request' };

/**
 * Creates a handler that answers 308 (RFC 9110 §15.4.9). Unlike 301, it does not allow a client to turn POST into GET, and all
 * clients with a secure TLS version know it. The response has `no-store`, so that clients do not keep a port that was configured
 * wrongly. A request without a host gets 400.
 */
export function createHttpsRedirect({ port, clock, emit }: HttpsRedirectOptions): Handler {
  return (request) => {
    emit(begun);
    const journey = new Journey(request, clock, emit);
    const location = httpsLocation(request, port);
    if (location !== undefined) return journey.respond(redirect(location));
    return journey.respondWithError(new ProxyError('malformed_request', { detail: 'no host to redirect to' }));
  };
}

/** Returns the target URI of a request with the scheme https and this port; undefined when the request has no valid host. */
export function httpsLocation(
  { authority, target }: Pick<ProxyRequest, 'authority' | 'target'>,
  port: number,
): string | undefined {
  const normal = normaliseAuthority(authority, 'http');
  if (normal === undefined) return undefined;
  // The target URI of `OPTIONS *` has no path (RFC 9112 §3.2.4).
  return `https://${hostOf(normal)}${port === 443 ? '' : `:${port}`}${target === '*' ? '' : target}`;
}

function redirect(location: string): ProxyResponse {
  return {
    status: 308,
    fields: [
      ['location', location],
      ['cache-control', 'no-store'],
    ],
    body: { kind: 'none' },
  };
}
