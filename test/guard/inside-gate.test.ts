/** Rangeway's own requests need no credentials and are not counted, but the limits of the origin apply. */

import { expect, it } from 'vitest';
import { createAccess } from '../../src/guard/access/access.ts';
import { plainPresentation } from '../../src/guard/fields/presentation.ts';
import { createGate, createInternalGate } from '../../src/guard/gate.ts';
import { createAllowances } from '../../src/guard/limits/allowances.ts';
import { ended, settled, storedBody } from '../support/clients/conversation.ts';
import { noLimits } from '../support/proxies/open-gate.ts';
import { createWholeProxy } from '../support/proxies/whole-proxy.ts';

const fresh = { 'cache-control': 'max-age=100', etag: '"v1"' };
const clock = { now: () => 0, after: () => () => {} };

/** Returns the gate of a route that admits no address. */
function closedGate(limits: Partial<typeof noLimits>) {
  const access = createAccess({ allow: () => false, deny: undefined, credentials: undefined });
  const allowances = createAllowances({ ...noLimits, ...limits }, clock);
  return createGate({ access, allowances, presentation: plainPresentation });
}

it('admits a request although the route admits no address, and does not count it', async () => {
  const outside = closedGate({ requestsPerClient: 1, rate: { requests: 1, perSeconds: 60, burst: 1 } as never });
  const proxy = createWholeProxy({ gate: createInternalGate(outside, '1') });
  for (const target of ['/a', '/b', '/c']) {
    const client = proxy.send({ target });
    (await proxy.origin.next()).respond({ fields: fresh }, storedBody);
    expect(await client.status()).toBe(200);
    await client.bytes();
  }
  await ended(proxy);
});

it('applies the limit of concurrent fills', async () => {
  const outside = closedGate({ fills: 1 });
  const proxy = createWholeProxy({ gate: createInternalGate(outside, '1') });
  const first = proxy.send({ target: '/a' });
  const exchange = await proxy.origin.next();
  expect(await proxy.send({ target: '/b' }).status()).toBe(503);
  exchange.respond({ fields: fresh }, storedBody);
  await first.bytes();
  await settled();
  const second = proxy.send({ target: '/b' });
  (await proxy.origin.next()).respond({ fields: fresh }, storedBody);
  expect((await second.bytes()).length).toBe(storedBody.length);
  await ended(proxy);
});

it('pays back the bytes that it reads', async () => {
  const outside = closedGate({ amplification: { factor: 1, freeBytes: 3000, windowMs: 1000 } });
  const proxy = createWholeProxy({ gate: createInternalGate(outside, '1') });
  for (let count = 0; count < 5; count += 1) {
    const client = proxy.send({ target: `/${count}` });
    (await proxy.origin.next()).respond({ fields: fresh }, storedBody);
    expect((await client.bytes()).length).toBe(storedBody.length);
    await settled();
  }
  await ended(proxy);
});
