/** Sends clients to the same place over https. */

import { Journey } from '../delivery/journey.ts';
import type { Clock } from '../http/clock.ts';
import type { Handler, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { hostOf, normaliseAuthority } from '../routing/target.ts';
import type { Emit } from '../telemetry/events.ts';

/** What redirects are made with. */
export interface HttpsRedirectOptions {
  /** The port of https, as clients reach it. */
  readonly port: number;
  readonly clock: Clock;
  readonly emit: Emit;
}

/**
 * Creates a handler that answers 308 (RFC 9110 §15.4.9): unlike 301 it lets no client make a GET of a POST, and whoever
 * speaks TLS that is safe to use knows it. It is not to be stored, so that a port that was wrong once is not wrong for ever.
 * A request that names no host gets 400.
 */
export function createHttpsRedirect({ port, clock, emit }: HttpsRedirectOptions): Handler {
  return (request) => {
    const journey = new Journey(request, clock, emit);
    const location = httpsLocation(request, port);
    if (location !== undefined) return journey.arrive(redirect(location));
    return journey.fail(new ProxyError('malformed_request', { detail: 'no host to redirect to' }));
  };
}

/** The target URI of a request with another scheme and port; undefined when it has no host. */
export function httpsLocation(
  { authority, target }: Pick<ProxyRequest, 'authority' | 'target'>,
  port: number,
): string | undefined {
  const normal = normaliseAuthority(authority, 'http');
  if (normal === undefined) return undefined;
  // `OPTIONS *` asks for a URI without a path (RFC 9112 §3.2.4).
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
