/** Transfers that break off at one of two origins and go on at the other: the client notices nothing, or is cut off. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createOriginGroup } from '../../src/origin/group/origin-group.ts';
import { OriginError } from '../../src/origin/origin-error.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { turn } from '../support/clocks/turn.ts';
import { createFakeOrigin, type FakeOrigin } from '../support/origins/fake-origin.ts';
import { createRangeOrigin, type OriginFile, type RangeOrigin } from '../support/origins/range-origin.ts';
import { type Client, createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

/** An origin of the group, and the file that it has. */
interface Replica {
  readonly fake: FakeOrigin;
  readonly origin: RangeOrigin;
  /** Whether connections to it are refused. */
  isDown: boolean;
}

let a: Replica;
let b: Replica;
let proxy: WholeProxy;

beforeEach(() => open('first'));
afterEach(async () => {
  expect([a.fake.untaken, b.fake.untaken]).toEqual([0, 0]);
  await proxy.close();
});

function createReplica(): Replica {
  const fake = createFakeOrigin();
  return { fake, origin: createRangeOrigin(fake), isDown: false };
}

function open(choice: 'first' | 'spread'): void {
  a = createReplica();
  b = createReplica();
  const members = [a, b].map((replica, index) => ({
    url: new URL(`http://${'ab'[index]}.example`),
    host: undefined,
    origin: {
      fetch: (request: Parameters<FakeOrigin['fetch']>[0]) =>
        replica.isDown
          ? Promise.reject(new OriginError('origin_refused', { isUnsent: true }))
          : replica.fake.fetch(request),
      close: async () => undefined,
    },
  }));
  const group = createOriginGroup({
    members,
    choice,
    retries: { attempts: 2, budgetPercent: 100 },
    health: { failures: 3, restMs: 10_000 },
    clock: createFakeClock(),
    random: () => 0.5,
    onHealth: () => undefined,
  });
  proxy = createWholeProxy({ origin: group, originRanges: 'auto', fill: { resumeAttempts: 3 } });
}

function put(replica: Replica, file: Partial<OriginFile>): void {
  replica.origin.file = { ...replica.origin.file, ...file };
}

/** Lets the pause before the next attempt pass. */
async function pause(): Promise<void> {
  await proxy.clock.whenPending(1);
  proxy.clock.advance(10_000);
  await turn();
}

const expectCut = (client: Client) => expect(client.bytes()).rejects.toMatchObject({ code: 'generation_changed' });

/** Returns a client that has 5000 bytes from the first origin, which then goes down. */
async function breakOff(): Promise<Client> {
  const client = proxy.send();
  const first = await a.origin.begin();
  expect(await client.status()).toBe(200);
  first.cutAt(5000);
  await expectUntil(client, 5000);
  a.isDown = true;
  await pause();
  return client;
}

const tagged = (etag: string) => ({ 'cache-control': 'max-age=60', etag });

describe('a transfer that breaks off', () => {
  it('goes on at the other origin under the same strong tag, and the client does not notice', async () => {
    const client = await breakOff();
    await b.origin.give();
    await expectWhole(client);
    expect(b.origin.asked).toEqual(['bytes=5000- if "v1"']);
    await proxy.fillsEnded(1);
    await expectWhole(proxy.send());
    expect(b.fake.requests).toBe(1);
  });

  it('is cut off where the other origin has another strong tag', async () => {
    put(b, { fields: tagged('"v2"'), seed: 9 });
    const client = await breakOff();
    await b.origin.give();
    await expectCut(client);
    expect(b.origin.asked).toEqual(['bytes=5000- if "v1"']);
  });

  it('is cut off where the other origin sends a part of another representation', async () => {
    put(b, { fields: tagged('"v2"'), seed: 9 });
    const client = await breakOff();
    await b.origin.give(({ seed }) => ({
      status: 206,
      fields: { ...tagged('"v2"'), 'content-range': 'bytes 5000-9999/10000' },
      span: { start: 5000, end: 10_000 },
      seed,
    }));
    await expectCut(client);
  });

  it('is not resumed by a weak tag: the whole is fetched and compared, and goes on where the bytes are the same', async () => {
    for (const replica of [a, b]) put(replica, { fields: tagged('W/"v1"') });
    const client = await breakOff();
    await b.origin.give();
    await expectWhole(client);
    expect(b.origin.asked).toEqual(['whole']);
  });

  it('is cut off where the weak tags are the same and the bytes are not', async () => {
    for (const replica of [a, b]) put(replica, { fields: tagged('W/"v1"') });
    put(b, { seed: 9 });
    const client = await breakOff();
    const transfer = await b.origin.begin();
    void transfer.sendTo(10_000);
    await expectCut(client);
  });

  it('is cut off where the other origin has another length', async () => {
    for (const replica of [a, b]) put(replica, { fields: { 'cache-control': 'max-age=60' } });
    put(b, { sizeBytes: 10_001 });
    const client = await breakOff();
    const transfer = await b.origin.begin();
    void transfer.sendTo(1024);
    await expectCut(client);
  });

  it('is cut off when no origin is left', async () => {
    const client = await breakOff();
    b.isDown = true;
    let failure: unknown;
    const ended = client.bytes().catch((thrown: unknown) => {
      failure = thrown;
    });
    (await b.origin.begin()).cutAt(5000);
    while (failure === undefined) {
      await Promise.race([ended, proxy.clock.whenPending(1)]);
      proxy.clock.advance(10_000);
      await turn();
    }
    expect(failure).toMatchObject({ source: 'origin' });
    expect(b.fake.requests).toBe(1);
  });

  it('is resumed at the same origin as long as that origin answers', async () => {
    put(b, { fields: tagged('"v2"'), seed: 9 });
    const client = proxy.send();
    const first = await a.origin.begin();
    first.cutAt(5000);
    await expectUntil(client, 5000);
    await pause();
    await a.origin.give();
    await expectWhole(client);
    expect(b.fake.requests).toBe(0);
  });

  it('is resumed at the other origin when it breaks off again at the first', async () => {
    const client = proxy.send();
    (await a.origin.begin()).cutAt(5000);
    await expectUntil(client, 5000);
    await pause();
    (await a.origin.begin()).cutAt(5000);
    await pause();
    await b.origin.give();
    await expectWhole(client);
    expect([a.origin.asked, b.origin.asked]).toEqual([['whole', 'bytes=5000- if "v1"'], ['bytes=5000- if "v1"']]);
  });
});

describe('origins with different tags for the same file', () => {
  it('are not asked in turn for the parts of one representation, which would never be complete', async () => {
    open('spread');
    put(b, { fields: tagged('"other"') });
    for (const replica of [a, b]) replica.origin.serve();
    for (const first of [9000, 3000, 6000, 0]) {
      await expectPart(proxy.send({ fields: { range: `bytes=${first}-${first + 9}` } }), first, first + 10);
      await turn();
    }
    const [asked, idle] = a.fake.requests > 0 ? [a, b] : [b, a];
    expect(asked.fake.requests).toBeGreaterThan(1);
    expect(idle.fake.requests).toBe(0);
  });
});

describe('before the first byte', () => {
  it('a client gets the response of another origin', async () => {
    a.isDown = true;
    const client = proxy.send();
    await b.origin.give();
    await expectWhole(client);
  });

  it('a client gets the error of the last origin where all origins fail', async () => {
    a.isDown = true;
    b.isDown = true;
    const client = proxy.send();
    expect(await client.status()).toBe(502);
  });
});
