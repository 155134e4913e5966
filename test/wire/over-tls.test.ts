/** All that holds of HTTP/1 on the wire holds over TLS. */

import { describe } from 'vitest';
import { carryBy } from '../support/open-listener.ts';

carryBy('tls');

describe('over TLS', async () => {
  await import('./closing.test.ts');
  await import('./expect.test.ts');
  await import('./http10.test.ts');
  await import('./interim.test.ts');
  await import('./pipelining.test.ts');
  await import('./refusals.test.ts');
  await import('./refusals-midway.test.ts');
  await import('./request-bodies.test.ts');
  await import('./requests.test.ts');
  await import('./responses.test.ts');
  await import('./streams.test.ts');
  await import('./trailers.test.ts');
  await import('./tunnel.test.ts');
  await import('./tunnel-answers.test.ts');
});
