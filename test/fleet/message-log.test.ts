/** Messages between the members of a fleet over a real engine: order, acknowledgement, gaps, and an engine that is away. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { InvalidationMessage } from '../../src/cache/fleet.ts';
import { MessageLog, nameMember } from '../../src/fleet/engine/message-log.ts';
import { monotonicClock } from '../../src/setup/system.ts';
import { createSeal, type Seal } from '../../src/store/redis/seal.ts';
import { describeWithEngine } from '../support/engines/redis-server.ts';
import { TestEngine } from '../support/engines/test-engine.ts';

let engine: TestEngine;
let members: Member[];
beforeAll(async () => {
  engine = await TestEngine.start();
});
beforeEach(async () => {
  members = [];
  await engine.flush();
});
afterEach(async () => {
  await Promise.all(members.map(({ log }) => log.close()));
});
afterAll(async () => {
  await engine[Symbol.asyncDispose]();
});

const keys = { log: '{t}:log', members: '{t}:members' };
const news = (key: string): InvalidationMessage => ({ kind: 'invalidated', keys: [key], prefixes: [], tags: [] });
const untold = 'Other nodes may not have applied it yet';
const everything = [
  { kind: 'invalidated', keys: [], prefixes: [''], tags: [] },
  { kind: 'store', change: { kind: 'fresh' } },
];

interface Member {
  readonly log: MessageLog;
  /** What is marked as invalid, before it counts as applied. */
  readonly marked: InvalidationMessage[];
  readonly applied: InvalidationMessage[];
  readonly states: boolean[];
  /** While set, messages are marked, and not applied. */
  held: Promise<void> | undefined;
  /** Milliseconds that its clock has gone on while the process was suspended. */
  suspendedMs: number;
  /** The number of messages that were not authentic. */
  forged: number;
  /** Calls of scripts with this text fail. */
  failing: string | undefined;
  /** While set, calls to the engine wait for it. */
  hanging: Promise<void> | undefined;
  /** Whether the connection to the engine is cut. */
  isCut: boolean;
}

const seal = createSeal(['the secret of the fleet']);

async function join(name: string, trustMs = 60_000, own: Seal = seal): Promise<Member> {
  const connection = await engine.connect();
  const member: Member = {
    marked: [],
    applied: [],
    states: [],
    held: undefined,
    suspendedMs: 0,
    hanging: undefined,
    failing: undefined,
    forged: 0,
    isCut: false,
    log: new MessageLog({
      engine: {
        run: async (...call) => {
          await member.hanging;
          const fails = member.failing !== undefined && call[0].includes(member.failing);
          return member.isCut || fails ? Promise.reject(new Error('cut')) : connection.run(...call);
        },
        untilAppended: async (...call) => {
          await member.hanging;
          return await (member.isCut ? Promise.reject(new Error('cut')) : connection.untilAppended(...call));
        },
      },
      keys,
      instance: `${nameMember(own)}.${name}`,
      seal: own,
      onForged: () => {
        member.forged += 1;
      },
      clock: { ...monotonicClock, now: () => monotonicClock.now() + member.suspendedMs },
      apply: async (message) => {
        member.marked.push(message);
        await member.held;
        member.applied.push(message);
      },
      trustMs,
      onChange: (isAway) => member.states.push(isAway),
    }),
  };
  members.push(member);
  await member.log.begin();
  return member;
}

/** Cuts the connection of a member, and waits until it knows. */
async function cut(member: Member): Promise<void> {
  member.isCut = true;
  member.log.noteFailure();
  await expect.poll(() => member.log.isAway).toBe(true);
}

describeWithEngine('a message', () => {
  it('has been applied by all other members when its announcement resolves, in order', async () => {
    const [a, b, c] = [await join('a'), await join('b'), await join('c')];
    await a.log.announce(news('1'));
    expect([a.applied, b.applied, c.applied]).toEqual([[], [news('1')], [news('1')]]);
    await Promise.all([a.log.append(news('2')), a.log.append(news('3'))]);
    await b.log.announce(news('4'));
    expect(c.applied).toEqual(['1', '2', '3', '4'].map(news));
    expect(a.applied).toEqual([news('4')]);
  });

  it('is waited for until the slowest member has applied it', async () => {
    const [a, b, c] = [await join('a'), await join('b'), await join('c')];
    const held = Promise.withResolvers<void>();
    b.held = held.promise;
    let isOver = false;
    const announced = a.log.announce(news('1')).then(() => {
      isOver = true;
    });
    await a.log.append(news('2'));
    await expect.poll(() => c.applied).toEqual([news('1'), news('2')]);
    await a.log.append(news('3'));
    expect(isOver).toBe(false);
    held.resolve();
    await announced;
    expect(b.applied[0]).toEqual(news('1'));
  });

  it('is waited for where the engine does not say whether others have applied it', async () => {
    const [a, b] = [await join('a'), await join('b')];
    const held = Promise.withResolvers<void>();
    b.held = held.promise;
    a.failing = 'HGETALL';
    let isOver = false;
    const announced = a.log.announce(news('1')).then(() => {
      isOver = true;
    });
    await expect.poll(() => b.marked).toEqual([news('1')]);
    await a.log.append(news('2'));
    await expect.poll(() => b.marked).toEqual([news('1'), news('2')]);
    expect(isOver).toBe(false);
    a.failing = undefined;
    held.resolve();
    await announced;
    expect(b.applied[0]).toEqual(news('1'));
  });

  it('is in the log behind all that waited, when an announcement after a loss resolves', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await cut(b);
    const before = Array.from({ length: 250 }, (_, count) => news(`before ${count}`));
    for (const message of before) await b.log.append(message);
    b.isCut = false;
    // Some announcements fail while it returns. One that does not has reached the other member.
    for (let count = 0, told = 0; told < 20; count += 1) {
      const message = news(`after ${count}`);
      const isTold = await b.log.announce(message).then(
        () => true,
        () => false,
      );
      if (isTold) told += 1;
      if (isTold) expect(a.applied).toContainEqual(message);
      else await engine.server.command('PING');
    }
    expect(a.applied.slice(0, before.length)).toEqual(before);
  });

  it('is waited for as long as a silent member where the log and the list of members are new', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await a.log.announce(news('0'));
    const going = Promise.withResolvers<void>();
    b.hanging = going.promise;
    await engine.flush();
    let isOver = false;
    const announced = a.log.announce(news('1')).then(() => {
      isOver = true;
    });
    await expect.poll(() => a.applied).toEqual(everything);
    for (let looks = 0; looks < 5; looks += 1) await a.log.append(news('2'));
    expect(isOver).toBe(false);
    a.suspendedMs += 6_000;
    await announced;
    going.resolve();
  });

  it('is not waited for once a member that was killed has been silent for six seconds', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await cut(b);
    await a.log.announce(news('1'));
    expect([a.log.isAway, b.applied]).toEqual([false, []]);
  });

  it('is not waited for by a member that has left, nor sent to one that joins later', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await b.log.close();
    await a.log.announce(news('1'));
    const late = await join('late');
    await a.log.announce(news('2'));
    expect(late.applied).toEqual([news('2')]);
  });

  const foreign = ['{', 'null', '{"kind":"invalidated"}', '{"kind":"store","change":{"kind":"keys","keys":1}}'];
  for (const text of foreign) {
    it(`that is no message of Rangeway empties the memory: ${text}`, async () => {
      const [a, b] = [await join('a'), await join('b')];
      const [last] = (await engine.server.command('XREVRANGE', keys.log, '+', '-', 'COUNT', '1')) as [
        [string, string[]],
      ];
      const epoch = last[1][last[1].indexOf('epoch') + 1] ?? '';
      const parts = [
        'after',
        last[0],
        'from',
        'x',
        'news',
        text,
        'tag',
        seal.sign('message', 'x', text),
        'epoch',
        epoch,
      ];
      await engine.server.command('XADD', keys.log, '*', ...parts);
      await expect.poll(() => a.applied).toEqual(everything);
      await b.log.announce(news('1'));
      expect([a.applied.at(-1), a.forged]).toEqual([news('1'), 0]);
    });
  }

  it('that no member has signed empties the memory, and is counted', async () => {
    const [a, stranger] = [await join('a'), await join('b', 60_000, createSeal(['another secret']))];
    await stranger.log.append(news('1'));
    await expect.poll(() => [a.applied, a.forged]).toEqual([everything, 1]);
    await a.log.append(news('2'));
    await expect.poll(() => [stranger.applied, stranger.forged]).toEqual([everything, 1]);
  });

  it('of a member that signs by the next secret is applied where that is known', async () => {
    const changing = createSeal(['the secret of the fleet', 'another secret']);
    const [a, b] = [await join('a', 60_000, changing), await join('b', 60_000, createSeal(['another secret']))];
    await b.log.announce(news('1'));
    expect([a.applied, a.forged, await a.log.countStrangers()]).toEqual([[news('1')], 0, 0]);
  });
});

describeWithEngine('a member with another secret', () => {
  it('is noticed while it lives', async () => {
    const a = await join('a');
    const stranger = await join('b', 60_000, createSeal(['another secret']));
    expect(await a.log.countStrangers()).toBe(1);
    await cut(stranger);
    expect(await a.log.countStrangers()).toBe(0);
  });
});

describeWithEngine('a member that was cut off', () => {
  it('applies what it has missed before it counts as back, and sends what waited', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await cut(b);
    await expect(b.log.announce(news('of b'))).rejects.toThrow(untold);
    await a.log.append(news('1'));
    await a.log.append(news('2'));
    expect(b.applied).toEqual([]);
    b.isCut = false;
    await expect.poll(() => b.states).toEqual([true, false]);
    expect(b.applied).toEqual([news('1'), news('2')]);
    await expect.poll(() => a.applied).toEqual([news('of b')]);
  });

  const gaps: readonly (readonly [string, readonly (readonly string[])[]])[] = [
    ['trimmed', [['XTRIM', keys.log, 'MAXLEN', '1']]],
    ['lost', [['DEL', keys.log]]],
    [
      'begun again',
      [
        ['DEL', keys.log],
        ['XADD', keys.log, '*', 'after', '0-0', 'from', 'x', 'news', '{}'],
      ],
    ],
  ];
  for (const [name, commands] of gaps) {
    it(`empties its memory, and stores nothing of what is in flight, where the log was ${name}`, async () => {
      const [a, b] = [await join('a'), await join('b')];
      await a.log.announce(news('0'));
      await cut(b);
      for (const key of ['1', '2', '3']) await a.log.append(news(key));
      for (const command of commands) await engine.server.command(...command);
      b.isCut = false;
      await expect.poll(() => b.states).toEqual([true, false]);
      expect(b.applied).toEqual([news('0'), ...everything]);
      // Where the log is new, others are waited for as long as they could be silent.
      const announced = a.log.announce(news('4'));
      await expect.poll(() => b.applied.at(-1)).toEqual(news('4'));
      a.suspendedMs += 6_001;
      await announced;
    });
  }

  it('notices that a log was lost that had nothing when it joined', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await cut(b);
    await a.log.append(news('1'));
    await engine.flush();
    b.isCut = false;
    await expect.poll(() => b.applied).toEqual(everything);
  });

  it('empties its memory while it is away, again and again', async () => {
    const a = await join('a', 0);
    await cut(a);
    await expect.poll(() => a.applied).toEqual([everything[1], everything[1]]);
  });

  it('keeps a bounded number of messages, and invalidates all where there were more', async () => {
    const [a, b] = [await join('a'), await join('b')];
    await cut(b);
    for (let count = 0; count <= 1_000; count += 1) await b.log.append(news(`${count}`));
    b.isCut = false;
    await expect.poll(() => a.applied).toEqual(everything);
  });
});

describeWithEngine('an engine that is paused', () => {
  it('counts as away within seconds, and as back when it goes on', async () => {
    const [a, b] = [await join('a'), await join('b')];
    engine.server.signal('SIGSTOP');
    await expect.poll(() => a.states).toEqual([true]);
    await expect.poll(() => b.states).toEqual([true]);
    await expect(a.log.announce(news('1'))).rejects.toThrow(untold);
    engine.server.signal('SIGCONT');
    await expect.poll(() => b.applied).toEqual([news('1')]);
    await expect.poll(() => b.states).toEqual([true, false]);
  });
});

describeWithEngine('an engine that takes no writes', () => {
  const states: readonly (readonly [string, readonly string[], readonly string[]])[] = [
    ['is full', ['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0']],
    ['is a replica', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE']],
  ];
  for (const [name, begin, end] of states) {
    it(`because it ${name} fails an announcement, is read on, and takes the message later`, async () => {
      const [a, b] = [await join('a'), await join('b')];
      await a.log.announce(news('1'));
      await engine.server.command(...begin);
      try {
        await expect(a.log.announce(news('2'))).rejects.toThrow(untold);
        a.suspendedMs += 10_000;
        expect(a.log.isMemoryCurrent).toBe(false);
        await a.log.current();
        expect([a.log.isMemoryCurrent, a.log.isAway, b.log.isAway]).toEqual([true, false, false]);
      } finally {
        await engine.server.command(...end);
      }
      await expect.poll(() => b.applied).toEqual([news('1'), news('2')]);
    });
  }
});

describeWithEngine('the memory of a member', () => {
  it('is not current after five seconds without a look at the log, until the next look', async () => {
    const a = await join('a');
    expect(a.log.isMemoryCurrent).toBe(true);
    a.suspendedMs += 5_000;
    expect(a.log.isMemoryCurrent).toBe(false);
    await a.log.current();
    expect(a.log.isMemoryCurrent).toBe(true);
  });

  it('is current for the configured time after the last look where the engine is away, and then emptied', async () => {
    const a = await join('a', 60_000);
    await cut(a);
    a.suspendedMs += 50_000;
    expect(a.log.isMemoryCurrent).toBe(true);
    a.suspendedMs += 10_000;
    expect(a.log.isMemoryCurrent).toBe(false);
  });

  it('is emptied, and the engine counts as away, where a look took longer than others wait for it', async () => {
    const a = await join('a');
    a.suspendedMs += 2_000;
    const current = a.log.current();
    a.suspendedMs += 7_000;
    expect(a.log.isBehind).toBe(true);
    await current;
    expect(a.marked).toEqual(everything);
    await expect.poll(() => a.states).toEqual([true, false]);
    expect(a.log.isBehind).toBe(false);
  });

  it('does not count where a message has taken longer to apply than others wait for it', async () => {
    const [a, b] = [await join('a'), await join('b')];
    const stored = Promise.withResolvers<void>();
    b.held = stored.promise;
    await a.log.append(news('1'));
    await expect.poll(() => b.marked).toEqual([news('1')]);
    expect(b.log.isBehind).toBe(false);
    b.suspendedMs += 6_001;
    expect(b.log.isBehind).toBe(true);
    stored.resolve();
    await expect.poll(() => b.applied).toEqual([news('1')]);
    await expect.poll(() => b.log.isBehind).toBe(false);
  });
});

describeWithEngine('the present', () => {
  it('does not wait for what is being stored, for which the application of a message waits', async () => {
    const [a, b] = [await join('a'), await join('b')];
    const stored = Promise.withResolvers<void>();
    b.held = stored.promise;
    await a.log.append(news('1'));
    await expect.poll(() => b.marked).toEqual([news('1')]);
    b.suspendedMs += 2_000;
    await a.log.append(news('2'));
    await b.log.current();
    expect([b.marked, b.applied]).toEqual([[news('1'), news('2')], []]);
    stored.resolve();
    await expect.poll(() => b.applied).toEqual([news('1'), news('2')]);
  });

  it('is known at once where the log was read a moment ago', async () => {
    expect((await join('a')).log.current()).toBeUndefined();
  });
});
