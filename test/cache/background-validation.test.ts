/** The lease of a background revalidation is released, however the revalidation ends. */

import { describe, expect, it } from 'vitest';
import type { Flights } from '../../src/cache/collapse/flights.ts';
import type { ExchangeContext } from '../../src/cache/context.ts';
import { BackgroundRevalidation, type Validate } from '../../src/cache/fetch/background-revalidation.ts';
import type { Inquiry } from '../../src/cache/inquiry.ts';
import { HitForPassKeys } from '../../src/cache/lookup/hit-for-pass.ts';
import type { StoredEntry } from '../../src/store/store.ts';

const entry = { generation: 'g' } as StoredEntry;
const inquiry = { key: 'k', originFields: [], policy: { fill: {} } } as unknown as Inquiry;
const flights = { of: () => [] } as unknown as Flights;
const fail = (): never => {
  throw new Error('broken');
};

/** Creates a background revalidation whose leases are granted at once or later. */
function createGround(isAtOnce: boolean, validate: Validate = fail) {
  const leases = { asked: 0, released: 0 };
  const release = () => {
    leases.released += 1;
  };
  const acquire = () => {
    leases.asked += 1;
    const right = { kind: 'ours', lease: { release } } as const;
    return isAtOnce ? right : Promise.resolve(right);
  };
  const context = {
    fleet: { acquire },
    store: { find: async () => fail() },
    clock: { now: () => 0 },
    hitForPass: new HitForPassKeys(),
  } as unknown as ExchangeContext;
  return { validation: new BackgroundRevalidation(context, flights, validate), leases };
}

describe('the lease of a background revalidation', () => {
  it('is released when the entry cannot be looked up, and is not asked for again at once', async () => {
    const { validation, leases } = createGround(false);
    validation.begin(entry, inquiry);
    await expect.poll(() => leases.released).toBe(1);
    validation.begin(entry, inquiry);
    expect(leases.asked).toBe(1);
  });

  it('is released when no flight can be started', () => {
    const { validation, leases } = createGround(true);
    expect(() => validation.begin(entry, inquiry)).toThrow('broken');
    expect(leases.released).toBe(1);
  });
});
