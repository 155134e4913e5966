/** Options of an origin for tests. */

import type { UndiciOriginOptions } from '../../src/origin/undici-origin.ts';

/** Returns the options for a URL, with timeouts that never strike. A test of a timeout sets a short one. */
export function originOptions(overrides: Partial<UndiciOriginOptions> & { url: string }): UndiciOriginOptions {
  return {
    connectTimeoutMs: 15_000,
    headersTimeoutMs: 15_000,
    bodyTimeoutMs: 15_000,
    connections: 8,
    connectionsPerClient: 8,
    keepAliveTimeoutMs: 60_000,
    requiresCloseNotify: true,
    tls: { rejectUnauthorized: true },
    ...overrides,
  };
}
