/** Options of an origin for tests: short timeouts, everything else as a caller wants it. */

import type { UndiciOriginOptions } from '../../src/origin/undici-origin.ts';

/** The options for a URL; timeouts that a test waits for are short, the others never strike. */
export function originOptions(given: Partial<UndiciOriginOptions> & { url: string }): UndiciOriginOptions {
  return {
    connectTimeoutMs: 5_000,
    headersTimeoutMs: 300,
    bodyTimeoutMs: 300,
    connections: 8,
    keepAliveTimeoutMs: 60_000,
    tls: { rejectUnauthorized: true },
    ...given,
  };
}
