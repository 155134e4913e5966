/** The leases of one process: counted, asked for once, given back with the last use. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Lease, Right } from '../../src/cache/fleet.ts';
import { ChannelGone, type LeaseReply } from '../../src/fleet/channel.ts';
import { LeaseClient } from '../../src/fleet/leases.ts';

const never = new AbortController().signal;
const held: LeaseReply = { kind: 'theirs', instance: 'b', socket: '/peers/b' };

/** A supervisor that answers when it is told to. */
function createGround() {
  const asked: { key: string; lost: string | undefined; answer: PromiseWithResolvers<LeaseReply> }[] = [];
  const released: string[] = [];
  const leases = new LeaseClient({
    supervisor: {
      acquireLease: (key, lost) => {
        const answer = Promise.withResolvers<LeaseReply>();
        asked.push({ key, lost, answer });
        return answer.promise;
      },
      releaseLease: async (key) => void released.push(key),
    },
    reach: (instance, socket) => ({ instance, answer: async () => Promise.reject(new Error(socket)) }),
  });
  return { leases, asked, released };
}

async function leaseOf(right: Right | Promise<Right>): Promise<Lease> {
  const told = await right;
  if (told.kind === 'theirs') throw new Error('it is theirs');
  return told.lease;
}

describe('a lease that this process has', () => {
  it('is had again in the same tick, and given back with its last use, once', async () => {
    const { leases, asked, released } = createGround();
    const first = leaseOf(leases.acquire('k', never));
    asked[0]?.answer.resolve({ kind: 'ours' });
    const lease = await first;
    const again = leases.acquire('k', never);
    expect(again).not.toBeInstanceOf(Promise);
    const hold = leases.hold('k');
    expect(hold).not.toBeInstanceOf(Promise);
    lease.release();
    lease.release();
    (await leaseOf(again)).release();
    expect(released).toEqual([]);
    (hold as Lease).release();
    expect(released).toEqual(['k']);
    expect(leases.size).toBe(0);
    expect(asked).toHaveLength(1);
  });

  it('is asked for once by all who want it meanwhile, and is theirs until the last one gives it back', async () => {
    const { leases, asked, released } = createGround();
    const rights = [1, 2, 3].map(() => leaseOf(leases.acquire('k', never)));
    const hold = leases.hold('k');
    asked[0]?.answer.resolve({ kind: 'ours' });
    for (const right of rights) (await right).release();
    expect(released).toEqual([]);
    (await hold)?.release();
    expect(released).toEqual(['k']);
    expect(asked).toHaveLength(1);
  });

  it('is given back where all who have asked for it have left', async () => {
    const { leases, asked, released } = createGround();
    const leaving = new AbortController();
    const right = leases.acquire('k', leaving.signal);
    leaving.abort(new Error('gone'));
    await expect(right).rejects.toThrow('gone');
    asked[0]?.answer.resolve({ kind: 'ours' });
    await Promise.resolve();
    await Promise.resolve();
    expect(released).toEqual(['k']);
    expect(leases.size).toBe(0);
  });
});

describe('a lease that another process has', () => {
  it('is told with who that is, and not held', async () => {
    const { leases, asked, released } = createGround();
    const right = leases.acquire('k', never);
    const hold = leases.hold('k');
    asked[0]?.answer.resolve(held);
    expect(await right).toMatchObject({ kind: 'theirs', holder: { instance: 'b' } });
    expect(await hold).toBeUndefined();
    expect(leases.hold('k')).toBeUndefined();
    expect([leases.size, released]).toEqual([0, []]);
  });

  it('is asked for again with the name of who is lost', async () => {
    const { leases, asked } = createGround();
    const right = leases.acquire('k', never);
    asked[0]?.answer.resolve(held);
    const told = await right;
    if (told.kind === 'ours') throw new Error('it is ours');
    void leases.acquire('k', never, told.holder);
    expect(asked.map(({ lost }) => lost)).toEqual([undefined, 'b']);
  });
});

it('rejects where the supervisor is gone, and keeps nothing', async () => {
  const { leases, asked } = createGround();
  const right = leases.acquire('k', never);
  const hold = leases.hold('k');
  asked[0]?.answer.reject(new ChannelGone());
  await expect(right).rejects.toThrow(ChannelGone);
  expect(await hold).toBeUndefined();
  expect(leases.size).toBe(0);
});

it('keeps nothing of many keys that are over', async () => {
  let released = 0;
  const count = () => {
    released += 1;
  };
  const leases = new LeaseClient({
    supervisor: { acquireLease: async () => ({ kind: 'ours' }), releaseLease: async () => count() },
    reach: () => ({ instance: 'b', answer: async () => undefined }),
  });
  for (let key = 0; key < 200_000; key += 1000) {
    const batch = Array.from({ length: 1000 }, (_, at) => leaseOf(leases.acquire(`key ${key + at}`, never)));
    for (const lease of await Promise.all(batch)) lease.release();
  }
  expect([leases.size, released]).toEqual([0, 200_000]);
});

const step = fc.record({
  kind: fc.constantFrom('acquire' as const, 'hold' as const, 'reply' as const, 'abort' as const, 'release' as const),
  isOurs: fc.boolean(),
  at: fc.nat(20),
});
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** Those who use one lease, and the supervisor that gives it. */
class Users {
  readonly #ground = createGround();
  readonly #got: Lease[] = [];
  readonly #leaving: AbortController[] = [];
  #answered = 0;
  granted = 0;

  get ground() {
    return this.#ground;
  }

  take({ kind, isOurs, at }: Step): void {
    const { leases } = this.#ground;
    if (kind === 'acquire') this.#acquire();
    if (kind === 'hold') void Promise.resolve(leases.hold('k')).then((lease) => lease && this.#got.push(lease));
    if (kind === 'reply') this.#reply(isOurs);
    if (kind === 'abort') this.#leaving[at % Math.max(1, this.#leaving.length)]?.abort();
    if (kind === 'release') this.#got.splice(at % Math.max(1, this.#got.length), 1)[0]?.release();
  }

  async end(): Promise<void> {
    while (this.#answered < this.#ground.asked.length) {
      this.#reply(true);
      await settled();
    }
    await settled();
    for (const lease of this.#got) lease.release();
  }

  #acquire(): void {
    const controller = new AbortController();
    this.#leaving.push(controller);
    void leaseOf(this.#ground.leases.acquire('k', controller.signal)).then(
      (lease) => this.#got.push(lease),
      () => {},
    );
  }

  #reply(isOurs: boolean): void {
    const next = this.#ground.asked[this.#answered];
    if (next === undefined) return;
    this.#answered += 1;
    if (isOurs) this.granted += 1;
    next.answer.resolve(isOurs ? { kind: 'ours' } : held);
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

it('gives back each lease that it was given, whoever came and left when', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const users = new Users();
      for (const each of steps) {
        users.take(each);
        if (each.at % 3 === 0) await settled();
      }
      await users.end();
      await settled();
      expect(users.ground.leases.size).toBe(0);
      expect(users.ground.released).toHaveLength(users.granted);
    }),
  );
});
