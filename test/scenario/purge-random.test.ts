/**
 * Requests, answers, purges and steps of the store in any order. A request after a hard purge gets no response that was fetched
 * before the purge was called. A request after a soft purge gets no response that was not validated since.
 */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { namesOfResource, prefixesOf } from '../../src/routing/cache-key.ts';
import { storedTag } from '../../src/semantics/invalidation.ts';
import { createSteeredProxy, settled } from '../support/clients/conversation.ts';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import type { WholeProxy } from '../support/proxies/whole-proxy.ts';
import type { Held, SteeredStore, Step } from '../support/stores/steered-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

type Mode = 'hard' | 'soft';
type By = 'key' | 'prefix' | 'tag';

type Move =
  | { readonly kind: 'ask'; readonly target: string }
  | { readonly kind: 'answer'; readonly at: number; readonly how: 'whole' | 'half' | 'unchanged' }
  | { readonly kind: 'finish' }
  | { readonly kind: 'purge'; readonly by: By; readonly mode: Mode }
  | { readonly kind: 'hold'; readonly step: Step }
  | { readonly kind: 'release' }
  | { readonly kind: 'pass'; readonly ms: number };

/** The purged targets, and the requested ones. The last requested target is another spelling of the second. */
const targets = ['/a', '/b'];
const askedTargets = [...targets, '/%62'];
const size = 2500;
const bodyOf = (version: number) => patternBytes(0, size, version);

const move: fc.Arbitrary<Move> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('ask' as const), target: fc.constantFrom(...askedTargets) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('answer' as const),
      at: fc.nat(3),
      how: fc.constantFrom('whole' as const, 'half' as const, 'unchanged' as const),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ kind: 'finish' as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('purge' as const),
      by: fc.constantFrom<By>('key', 'prefix', 'tag'),
      mode: fc.constantFrom<Mode>('hard', 'soft'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('hold' as const),
      step: fc.constantFrom<Step>('openWriter', 'writeBlock', 'publish', 'commit', 'removeKey', 'removeTagged'),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: 'release' as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.constantFrom(1, 1000, 100_001) }) },
);

class Story {
  readonly #proxy: WholeProxy;
  readonly #store: SteeredStore;
  readonly #held: Held[] = [];
  /** Numbers of the exchanges, in the order in which they were begun, from 1. */
  readonly #numbers = new Map<FakeExchange, number>();
  readonly #finishing: (() => void)[] = [];
  readonly #reading: Promise<void>[] = [];
  readonly #purging: Promise<unknown>[] = [];
  /** By version: the number of the last exchange that has confirmed it. */
  readonly #confirmed = new Map<number, number>();
  /** By mode of the last purge: a response served now must come from an exchange with a higher number. */
  readonly #above: Record<Mode, number> = { hard: 0, soft: 0 };

  constructor(processes: number) {
    const { proxy, store } = createSteeredProxy({ processes });
    this.#proxy = proxy;
    this.#store = store;
  }

  async make(next: Move): Promise<void> {
    switch (next.kind) {
      case 'ask':
        this.#reading.push(this.#ask(next.target));
        break;
      case 'answer':
        if (this.#proxy.origin.untaken > 0) this.#answer(await this.#proxy.origin.next(next.at), next.how);
        break;
      case 'finish':
        this.#finishing.shift()?.();
        break;
      case 'purge':
        this.#purging.push(this.#purge(next.by, next.mode));
        break;
      case 'hold':
        this.#held.push(this.#store.hold(next.step));
        break;
      case 'release':
        this.#held.shift()?.release();
        break;
      case 'pass':
        this.#proxy.clock.advance(next.ms);
        break;
    }
    await settled();
    this.#number();
  }

  /** Finishes all that was begun. */
  async end(): Promise<void> {
    // A released step may be held again, and an answer may cause another request.
    for (let round = 0; round < 20; round += 1) {
      for (const held of this.#held.splice(0)) held.release();
      for (const finish of this.#finishing.splice(0)) finish();
      while (this.#proxy.origin.untaken > 0) this.#answer(await this.#proxy.origin.next(), 'whole');
      await settled();
      this.#number();
    }
    await Promise.all([...this.#purging, ...this.#reading]);
    await this.#proxy.close();
    expect(this.#store.held).toBe(0);
  }

  #number(): void {
    for (const exchange of this.#proxy.origin.waiting) this.#numberOf(exchange);
  }

  #numberOf(exchange: FakeExchange): number {
    const number = this.#numbers.get(exchange) ?? this.#numbers.size + 1;
    this.#numbers.set(exchange, number);
    return number;
  }

  async #ask(target: string): Promise<void> {
    const above = { ...this.#above };
    const client = this.#proxy.send({ target });
    const version = Number(/\d+/.exec((await client.field('etag')) ?? '')?.[0]);
    const bytes = await client.bytes();
    expect(Buffer.from(bytes).equals(bodyOf(version))).toBe(true);
    expect(version, 'after a hard purge').toBeGreaterThan(above.hard);
    const known = Math.max(version, this.#confirmed.get(version) ?? 0);
    expect(known, 'after a soft purge').toBeGreaterThan(above.soft);
  }

  #answer(exchange: FakeExchange, how: 'whole' | 'half' | 'unchanged'): void {
    const number = this.#numberOf(exchange);
    const condition = exchange.request.fields.find(([name]) => name === 'if-none-match')?.[1];
    const fields = { 'cache-control': 'max-age=100', 'surrogate-key': 'tag', etag: `"v${number}"` };
    if (how === 'unchanged' && condition !== undefined) {
      const version = Number(/\d+/.exec(condition)?.[0]);
      this.#confirmed.set(version, Math.max(number, this.#confirmed.get(version) ?? 0));
      exchange.respond({ status: 304, fields: { ...fields, etag: condition } }, new Uint8Array());
      return;
    }
    if (how !== 'half') {
      exchange.respond({ fields }, bodyOf(number));
      return;
    }
    exchange.head({ fields: { ...fields, 'content-length': String(size) } });
    void exchange.send(bodyOf(number).subarray(0, 1500));
    this.#finishing.push(() => {
      void exchange.send(bodyOf(number).subarray(1500));
      exchange.end();
    });
  }

  async #purge(by: By, mode: Mode): Promise<void> {
    const { route } = this.#proxy;
    const begun = this.#numbers.size;
    const places = targets.map((target) => ({ authority: 'files.example', target }));
    const names = places.map((place) => namesOfResource(place, [route]));
    await this.#proxy.cache.purge({
      keys: by === 'key' ? names.flatMap(({ keys }) => keys) : [],
      prefixes: by === 'prefix' ? prefixesOf({ authority: 'files.example', target: '/' }, [route]) : [],
      tags: by === 'tag' ? [storedTag('tag')] : by === 'key' ? names.flatMap(({ tags }) => tags) : [],
      mode,
    });
    this.#above[mode] = Math.max(this.#above[mode], begun);
    // A hard purge leaves no older response that could be validated.
    if (mode === 'hard') this.#above.soft = Math.max(this.#above.soft, begun);
  }
}

/** More runs than the default find rarer failures. */
const { RANGEWAY_TEST_RUNS = '150' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);

it.each([
  [1, runs],
  [3, Math.ceil(runs / 2)],
])(
  'purges apply to all older responses in %i processes, in whatever state they are',
  { timeout: 60_000 + 100 * runs },
  async (count, numRuns) => {
    await fc.assert(
      fc.asyncProperty(fc.array(move, { maxLength: 30 }), async (moves) => {
        const story = new Story(count);
        for (const next of moves) await story.make(next);
        await story.end();
      }),
      { numRuns },
    );
  },
);
