/** Random traffic on two roads that differ in one thing: on one of them precedents are followed. Nobody can tell them apart. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createFieldChange } from '../../src/guard/field-rules.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { createMemoryTier } from '../../src/store/memory/memory-tier.ts';
import type { Store } from '../../src/store/store.ts';
import { createTieredStore } from '../../src/store/tiered-store.ts';
import { createAnsweringOrigin } from '../support/answering-origin.ts';
import { patternBytes } from '../support/pattern-body.ts';
import { type Asked, PrecedentGround, trustedPeer } from '../support/precedent-ground.ts';
import { turn } from '../support/turn.ts';

const { RANGEWAY_TEST_RUNS = '200' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);

const size = 3000;
const blockSizeBytes = 512;
const targets = ['/a', '/language', '/short', '/lasting', '/guess', '/tagged'];
const lifetimes: Readonly<Record<string, string>> = {
  '/short': 'max-age=2',
  '/lasting': 'max-age=1, stale-while-revalidate=5',
  '/tagged': 'max-age=3',
};

type Step =
  | { readonly kind: 'ask'; readonly asked: Asked; readonly ranges: readonly string[] }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'change' | 'reload' }
  | { readonly kind: 'purge'; readonly mode: 'hard' | 'soft'; readonly target: string }
  | { readonly kind: 'purge tag'; readonly mode: 'hard' | 'soft' }
  | { readonly kind: 'remove'; readonly target: string };

const target = fc.constantFrom(...targets);
const range = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(fc.nat(size), fc.nat(700)).map(([first, length]) => `bytes=${first}-${first + length}`),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('bytes=0-', 'bytes=-5', 'Bytes= 7-9', 'bytes=9-8', 'bytes=0-1,5-6', 'x=1-2'),
  },
);
const fields = fc.constantFrom<Readonly<Record<string, string>>>(
  ...Array.from({ length: 12 }, () => ({})),
  { 'accept-language': 'de' },
  { 'accept-language': 'en' },
  { 'x-forwarded-for': '203.0.113.5' },
  { 'if-none-match': '"v1"' },
  { 'cache-control': 'max-age=1' },
);
const peer = fc.constantFrom('192.0.2.7', '192.0.2.7', '192.0.2.8', '::ffff:192.0.2.8', '203.0.113.9', '', trustedPeer);
const mode = fc.constantFrom('hard' as const, 'soft' as const);

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('ask' as const),
      asked: fc.record({ target, fields, peer, method: fc.constantFrom('GET', 'GET', 'GET', 'GET', 'GET', 'HEAD') }),
      ranges: fc.oneof(fc.constant([]), fc.array(range, { minLength: 1, maxLength: 8 })),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('wait' as const),
      ms: fc.constantFrom(1, 1, 10, 400, 900, 999, 1000, 2500, -1, -700),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('change' as const, 'reload' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('purge' as const), mode, target }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('purge tag' as const), mode }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), target }) },
);

interface Plan {
  readonly steps: readonly Step[];
  readonly store: 'small' | 'large' | 'tiered';
  readonly isByAddress: boolean;
}
const plans: fc.Arbitrary<Plan> = fc.record({
  steps: fc.array(step, { minLength: 5, maxLength: 40 }),
  store: fc.constantFrom('small' as const, 'large' as const, 'tiered' as const),
  isByAddress: fc.boolean(),
});

const keyOf = (path: string) => `http://origin.example/ http://files.example${path}`;

/** One of the two roads, with an origin of its own. */
class Road {
  readonly ground: PrecedentGround;
  #version = 1;
  #reloads = 0;

  constructor({ store, isByAddress }: Plan, isFollowing: boolean) {
    const fieldsOf = (path: string): Record<string, string> => ({
      etag: `"v${this.#version}"`,
      date: new Date(this.ground.clock.now()).toUTCString(),
      ...(path === '/guess' ? {} : { 'cache-control': lifetimes[path] ?? 'max-age=600' }),
      ...(path === '/language' ? { vary: 'accept-language' } : {}),
      ...(path === '/tagged' ? { 'surrogate-key': 'one' } : {}),
    });
    const origin = createAnsweringOrigin({ bytes: patternBytes(0, size), fieldsOf, hasRanges: true, asked: [] });
    this.ground = new PrecedentGround({
      origin,
      isFollowing,
      createStore: (now, randomId) => createStoreOf(store, now, randomId),
      ...(isByAddress ? { access: { deny: (address) => address === '203.0.113.9' } } : {}),
    });
  }

  /** Takes a step, and tells what clients have got. */
  async take(taken: Step): Promise<unknown> {
    const { ground } = this;
    switch (taken.kind) {
      case 'ask': {
        const got: unknown[] = [];
        const asks = taken.ranges.length === 0 ? [{}, {}] : taken.ranges.map((each) => ({ range: each }));
        for (const selecting of asks) {
          const { isFollowed, ...told } = await ground.ask({
            ...taken.asked,
            fields: { ...taken.asked.fields, ...selecting },
          });
          if (isFollowed) followed += 1;
          got.push(told);
        }
        return got;
      }
      case 'wait':
        return ground.clock.advance(taken.ms);
      case 'change':
        this.#version += 1;
        return undefined;
      case 'reload': {
        this.#reloads += 1;
        const set = { 'x-site': String(this.#reloads) };
        return ground.reload({ change: createFieldChange({ remove: [], set, add: {} }) });
      }
      case 'purge':
        return await ground.cache.purge({ keys: [keyOf(taken.target)], prefixes: [], tags: [], mode: taken.mode });
      case 'purge tag':
        return await ground.cache.purge({ keys: [], prefixes: [], tags: ['key one'], mode: taken.mode });
      case 'remove':
        return await ground.store.removeKey(keyOf(taken.target));
    }
  }

  /** What is stored, each entry by its key, variant and name. */
  async stored(): Promise<readonly string[]> {
    const { entries } = await this.ground.store.list({ kind: 'prefix', prefix: '' }, 100);
    return entries.map(({ key, variant, generation }) => `${key} ${variant} ${generation}`).sort();
  }
}

/** How many requests have followed a precedent in all runs. */
let followed = 0;

function createStoreOf(kind: Plan['store'], now: () => number, randomId: () => string): Store {
  const entrySize = size + 3000;
  const maxSizeBytes = kind === 'small' ? 4 * entrySize : 100 * entrySize;
  const memory = createMemoryStore({ maxSizeBytes, maxEntryBytes: maxSizeBytes, blockSizeBytes, now, randomId });
  if (kind !== 'tiered') return memory;
  // What a disk would be: nothing of it is told in the same tick.
  const below = new Proxy(memory, {
    get: (store, name) => (name === 'peek' ? () => undefined : bound(store, Reflect.get(store, name))),
  });
  return createTieredStore(createMemoryTier({ maxSizeBytes: 32 * entrySize }), below, now);
}

function bound(store: Store, member: unknown): unknown {
  return typeof member === 'function' ? member.bind(store) : member;
}

async function expectSame(plan: Plan): Promise<void> {
  const [following, whole] = [new Road(plan, true), new Road(plan, false)];
  for (const taken of plan.steps) {
    const [got, want] = [await following.take(taken), await whole.take(taken)];
    await turn();
    expect(got).toEqual(want);
    expect(following.ground.events).toEqual(whole.ground.events);
  }
  expect(await following.stored()).toEqual(await whole.stored());
  await Promise.all([following.ground.close(), whole.ground.close()]);
}

describe('random traffic', () => {
  it('gets and tells the same whether precedents are followed or not', { timeout: 60_000 + 200 * runs }, async () => {
    await fc.assert(fc.asyncProperty(plans, expectSame), { numRuns: runs });
    expect(followed).toBeGreaterThan(runs);
  });
});
