/** The leases of one process: each is requested once, and released with its last use. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Lease, LeaseResult } from '../../src/cache/fleet.ts';
import { ChannelGone, type LeaseReply } from '../../src/fleet/channel.ts';
import { LeaseClient } from '../../src/fleet/leases.ts';

const never = new AbortController().signal;
const held: LeaseReply = { kind: 'theirs', instance: 'b', socket: '/peers/b' };

/** Creates a client whose supervisor answers when the test says so. */
function createGround() {
  const requests: { key: string; lost: string | undefined; answer: PromiseWithResolvers<LeaseReply> }[] = [];
  const released: string[] = [];
  const leases = new LeaseClient({
    supervisor: {
      acquireLease: (key, lost) => {
        const answer = Promise.withResolvers<LeaseReply>();
        requests.push({ key, lost, answer });
        return answer.promise;
      },
      releaseLease: async (key) => void released.push(key),
    },
    reach: (instance, socket) => ({ instance, answer: async () => Promise.reject(new Error(socket)) }),
  });
  return { leases, requests, released };
}

async function leaseOf(right: LeaseResult | Promise<LeaseResult>): Promise<Lease> {
  const reply = await right;
  if (reply.kind === 'theirs') throw new Error('it is theirs');
  return reply.lease;
}

describe('a lease that this process holds', () => {
  it('is granted again in the same tick, and released once, with its last use', async () => {
    const { leases, requests, released } = createGround();
    const first = leaseOf(leases.acquire('k', never));
    requests[0]?.answer.resolve({ kind: 'ours' });
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
    expect(requests).toHaveLength(1);
  });

  it('is requested once for all concurrent users, and held until the last one releases it', async () => {
    const { leases, requests, released } = createGround();
    const rights = [1, 2, 3].map(() => leaseOf(leases.acquire('k', never)));
    const hold = leases.hold('k');
    requests[0]?.answer.resolve({ kind: 'ours' });
    for (const right of rights) (await right).release();
    expect(released).toEqual([]);
    (await hold)?.release();
    expect(released).toEqual(['k']);
    expect(requests).toHaveLength(1);
  });

  it('is released where all its users have left before the reply', async () => {
    const { leases, requests, released } = createGround();
    const leaving = new AbortController();
    const right = leases.acquire('k', leaving.signal);
    leaving.abort(new Error('gone'));
    await expect(right).rejects.toThrow('gone');
    requests[0]?.answer.resolve({ kind: 'ours' });
    await Promise.resolve();
    await Promise.resolve();
    expect(released).toEqual(['k']);
    expect(leases.size).toBe(0);
  });
});

describe('a lease that another process holds', () => {
  it('is answered with its holder, and not held here', async () => {
    const { leases, requests, released } = createGround();
    const right = leases.acquire('k', never);
    const hold = leases.hold('k');
    requests[0]?.answer.resolve(held);
    expect(await right).toMatchObject({ kind: 'theirs', holder: { instance: 'b' } });
    expect(await hold).toBeUndefined();
    expect(leases.hold('k')).toBeUndefined();
    expect([leases.size, released]).toEqual([0, []]);
  });

  it('is requested again with the name of the lost holder', async () => {
    const { leases, requests } = createGround();
    const right = leases.acquire('k', never);
    requests[0]?.answer.resolve(held);
    const reply = await right;
    if (reply.kind === 'ours') throw new Error('it is ours');
    void leases.acquire('k', never, reply.holder);
    expect(requests.map(({ lost }) => lost)).toEqual([undefined, 'b']);
  });
});

it('the client rejects where the supervisor is gone, and keeps nothing', async () => {
  const { leases, requests } = createGround();
  const right = leases.acquire('k', never);
  const hold = leases.hold('k');
  requests[0]?.answer.reject(new ChannelGone());
  await expect(right).rejects.toThrow(ChannelGone);
  expect(await hold).toBeUndefined();
  expect(leases.size).toBe(0);
});

it('the client keeps nothing of many released leases', async () => {
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

/** Users of one lease, and the supervisor that grants it. */
class Users {
  readonly #ground = createGround();
  readonly #leases: Lease[] = [];
  readonly #leaving: AbortController[] = [];
  #answered = 0;
  granted = 0;

  get ground() {
    return this.#ground;
  }

  take({ kind, isOurs, at }: Step): void {
    const { leases } = this.#ground;
    if (kind === 'acquire') this.#acquire();
    if (kind === 'hold') void Promise.resolve(leases.hold('k')).then((lease) => lease && this.#leases.push(lease));
    if (kind === 'reply') this.#reply(isOurs);
    if (kind === 'abort') this.#leaving[at % Math.max(1, this.#leaving.length)]?.abort();
    if (kind === 'release') this.#leases.splice(at % Math.max(1, this.#leases.length), 1)[0]?.release();
  }

  async end(): Promise<void> {
    while (this.#answered < this.#ground.requests.length) {
      this.#reply(true);
      await settled();
    }
    await settled();
    for (const lease of this.#leases) lease.release();
  }

  #acquire(): void {
    const controller = new AbortController();
    this.#leaving.push(controller);
    void leaseOf(this.#ground.leases.acquire('k', controller.signal)).then(
      (lease) => this.#leases.push(lease),
      () => {},
    );
  }

  #reply(isOurs: boolean): void {
    const next = this.#ground.requests[this.#answered];
    if (next === undefined) return;
    this.#answered += 1;
    if (isOurs) this.granted += 1;
    next.answer.resolve(isOurs ? { kind: 'ours' } : held);
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

it('the client releases each lease that it was granted, in any order of users', async () => {
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
