/** Options of an origin for tests. */

import type { UndiciOriginOptions } from '../../src/origin/undici-origin.ts';

/** The options for a URL, with timeouts that never strike; a test that waits for one gives a short one. */
export function originOptions(given: Partial<UndiciOriginOptions> & { url: string }): UndiciOriginOptions {
  return {
    connectTimeoutMs: 15_000,
    headersTimeoutMs: 15_000,
    bodyTimeoutMs: 15_000,
    connections: 8,
    connectionsPerClient: 8,
    keepAliveTimeoutMs: 60_000,
    requiresCloseNotify: true,
    tls: { rejectUnauthorized: true },
    ...given,
  };
}
