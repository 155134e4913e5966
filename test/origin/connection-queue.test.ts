/** Which request gets a connection when: each row is a story of requests by several clients, in the order of their arrival. */

import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { ConnectionQueue, type QueueRules, type Turn } from '../../src/origin/connection-queue.ts';
import type { ChargedClients } from '../../src/origin/origin.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';

/** Creates a queue. `begun` lists the requests that have begun: `a1` is the first of client `a`. */
function setUp(connections: number, perClient: number) {
  const queue = new ConnectionQueue({ connections, perClient: () => perClient });
  const begun: string[] = [];
  const turns = new Map<string, Turn>();
  const charges = new Map<string, ChargedClients>();
  const ask = (name: string, more: Partial<ChargedClients> = {}) => {
    const charged: ChargedClients = { client: name.charAt(0), bodyClients: undefined, ...more };
    const turn = queue.join(name.startsWith('-') ? undefined : charged);
    turns.set(name, turn);
    charges.set(name, charged);
    turn.begin(() => begun.push(name));
  };
  const leave = async (name: string) => {
    turns.get(name)?.leave();
    await Promise.resolve();
  };
  const want = (name: string, client: string) => charges.get(name)?.onWanted?.(client);
  return { ask, leave, want, begun, queue, charges };
}

/** In a story, `a1` joins the queue, and `!a1` is over or leaves. `begun` lists the requests that have begun in the end. */
const rows: [name: string, connections: number, perClient: number, story: string, begun: string][] = [
  ['requests begin as they come while there are connections', 4, 4, 'a1 b1 a2', 'a1 b1 a2'],
  ['a client has at most its share, though others are idle', 4, 2, 'a1 a2 a3', 'a1 a2'],
  ['other clients get the connections that exceed the share of one', 4, 2, 'a1 a2 a3 a4 a5 b1 b2', 'a1 a2 b1 b2'],
  ['a client gets another connection when it gives one back', 4, 2, 'a1 a2 a3 a4 !a1', 'a1 a2 a3'],
  [
    'waiting clients take turns, however many requests one of them has',
    1,
    1,
    'x1 a1 a2 a3 b1 c1 !x1 !a1 !b1 !c1',
    'x1 a1 b1 c1 a2',
  ],
  ['a client that was served waits behind the others', 1, 1, 'a1 a2 b1 !a1 !a2 !b1', 'a1 a2 b1'],
  ['a client below its share comes before one that has it', 3, 2, 'a1 a2 a3 b1 b2 !b1', 'a1 a2 b1 b2'],
  ['a request that leaves while it waits is not sent', 1, 1, 'a1 b1 c1 !b1 !a1', 'a1 c1'],
  ['a request that leaves twice gives one connection back', 1, 1, 'a1 b1 b2 !a1 !a1', 'a1 b1'],
  ['requests that no client has caused have no share', 3, 1, '-1 -2 -3 -4 !-1', '-1 -2 -3 -4'],
  ['a client without requests is forgotten', 2, 1, 'a1 !a1 a2 !a2 a3', 'a1 a2 a3'],
];

it.each(rows)('%s', async (_name, connections, perClient, story, expected) => {
  const { ask, leave, begun } = setUp(connections, perClient);
  for (const step of story.split(' ')) {
    if (step.startsWith('!')) await leave(step.slice(1));
    else ask(step);
  }
  expect(begun.join(' ')).toBe(expected);
});

describe('a line of 10,000 requests', () => {
  it('has room for half of them by one client, and always for one more client; the rest is refused at once', () => {
    const queue = new ConnectionQueue({ connections: 1, perClient: () => 1 });
    const refused: ProxyError[] = [];
    const turns: Turn[] = [];
    const ask = (client: string, count: number): void => {
      for (let at = 0; at < count; at += 1) {
        const turn = queue.join({ client, bodyClients: undefined });
        turns.push(turn);
        turn.begin((refusal) => {
          if (refusal !== undefined) refused.push(refusal);
        });
      }
    };
    ask('x', 1);
    ask('a', 5001);
    expect(refused).toHaveLength(1);
    expect(refused[0]).toMatchObject({ code: 'origin_busy', fields: [['retry-after', '1']] });
    ask('b', 2500);
    expect(refused).toHaveLength(1);
    ask('b', 1);
    expect(refused).toHaveLength(2);
    expect(queue.use.waiting).toBe(7500);
    for (const turn of turns.slice(1)) turn.leave();
    expect(queue.use.waiting).toBe(0);
    ask('a', 1);
    expect(refused).toHaveLength(2);
  });
});

describe('a spare request', () => {
  /** Spare requests and others on a queue; `needed` lists the spare ones that were told to give up their connection. */
  function withSpare(connections: number, perClient: number) {
    const needed: string[] = [];
    const queue = setUp(connections, perClient);
    const spare = (name: string) => queue.ask(name, { isSpare: true, onNeeded: () => needed.push(name) });
    return { ...queue, spare, needed };
  }

  it('gives up its connection where the share of its client is used up: the latest first, one for each request', async () => {
    const { ask, spare, leave, begun, needed } = withSpare(100, 4);
    for (const name of ['a1', 'a2']) spare(name);
    for (const name of ['b1', 'b2']) spare(name);
    for (const name of ['a3', 'a4']) ask(name);
    expect(needed).toEqual([]);
    ask('a5');
    expect(needed).toEqual(['a2']);
    ask('a6');
    ask('a7');
    expect(needed).toEqual(['a2', 'a1']);
    await leave('a2');
    expect(begun.at(-1)).toBe('a5');
    await leave('a1');
    expect(begun.at(-1)).toBe('a6');
    await leave('a3');
    expect(begun.at(-1)).toBe('a7');
  });

  it('gives up its connection to any client where all are in use', async () => {
    const { ask, spare, leave, begun, needed } = withSpare(4, 4);
    for (const name of ['a1', 'b1']) spare(name);
    for (const name of ['c1', 'c2']) ask(name);
    ask('d1');
    expect(needed).toEqual(['b1']);
    await leave('b1');
    expect(begun.at(-1)).toBe('d1');
  });

  it('that is over is not told', async () => {
    const { ask, spare, leave, needed } = withSpare(2, 2);
    spare('a1');
    await leave('a1');
    for (const name of ['a2', 'a3', 'a4']) ask(name);
    expect(needed).toEqual([]);
  });
});

describe('a transfer that nobody reads any more', () => {
  it('gives up its connection before a spare one does, once and for a request that needs it', () => {
    const { ask, charges } = setUp(3, 3);
    const needed: string[] = [];
    ask('s1', { isSpare: true, onNeeded: () => needed.push('s1') });
    ask('a1');
    ask('b1');
    const charged = charges.get('a1') as ChargedClients;
    charged.onNeeded = () => {
      needed.push('a1');
      charged.onNeeded = undefined;
    };
    expect(needed).toEqual([]);
    ask('c1');
    expect(needed).toEqual(['a1']);
    ask('c2');
    expect(needed).toEqual(['a1', 's1']);
  });

  it('keeps its connection while the share of another client is used up', () => {
    const { ask, charges } = setUp(10, 1);
    const needed: string[] = [];
    ask('a1');
    ask('b1');
    Object.assign(charges.get('a1') as ChargedClients, { onNeeded: () => needed.push('a1') });
    ask('b2');
    expect(needed).toEqual([]);
    ask('a2');
    expect(needed).toEqual(['a1']);
  });
});

describe('a request that several clients want', () => {
  it('waits in the lines of all clients that want it when it joins', () => {
    const { ask, begun } = setUp(4, 1);
    ask('a1');
    ask('a2', { bodyClients: () => ['a', 'b'] });
    expect(begun).toEqual(['a1', 'a2']);
    ask('b1');
    expect(begun).toEqual(['a1', 'a2']);
  });

  it('waits in the lines of the clients that wait for its head', () => {
    const { ask, begun } = setUp(4, 1);
    ask('a1');
    ask('a2', { headClients: () => ['a', 'b'] });
    expect(begun).toEqual(['a1', 'a2']);
  });

  it('begins as soon as a client below its share wants it', async () => {
    const { ask, want, leave, begun } = setUp(4, 1);
    ask('a1');
    ask('b1');
    ask('a2');
    want('a2', 'b');
    expect(begun).toEqual(['a1', 'b1']);
    want('a2', 'c');
    expect(begun).toEqual(['a1', 'b1', 'a2']);
    // The connection counts for client `c`, whose turn came.
    ask('c1');
    expect(begun).toEqual(['a1', 'b1', 'a2']);
    await leave('a2');
    expect(begun).toEqual(['a1', 'b1', 'a2', 'c1']);
  });

  it('begins once, and leaves all lines when it is given up', async () => {
    const { ask, want, leave, begun } = setUp(1, 1);
    ask('x1');
    ask('a1');
    want('a1', 'b');
    ask('b1');
    await leave('a1');
    await leave('x1');
    expect(begun).toEqual(['x1', 'b1']);
  });

  it('is refused at its turn where its client may not begin it any more', async () => {
    const refusal = new ProxyError('origin_share_spent');
    const queue = new ConnectionQueue({ connections: 1, perClient: () => 1 });
    const first = queue.join();
    first.begin(() => {});
    const sent: unknown[] = [];
    const whyNotBegin = (client: string) => (client === 'a' ? refusal : undefined);
    const turns = ['a', 'b'].map((client) => queue.join({ client, bodyClients: undefined, whyNotBegin }));
    for (const turn of turns) turn.begin((why) => sent.push(why));
    first.leave();
    await Promise.resolve();
    expect(sent).toEqual([refusal]);
    turns[0]?.leave();
    await Promise.resolve();
    expect(sent).toEqual([refusal, undefined]);
  });
});

describe('a queue with limits of its own', () => {
  /** Lets clients ask by a story as above; `?a1` is the arrival of the head of the response to `a1`. */
  function tell(rules: Partial<QueueRules>, story: string) {
    const clock = createFakeClock();
    const shortages: string[] = [];
    const queue = new ConnectionQueue({
      connections: 8,
      perClient: () => 2,
      patience: { waitMs: 10_000, clock },
      onWait: ({ limit, most, use }) => {
        expect(use().waiting).toBeGreaterThan(0);
        shortages.push(`${limit} ${most}`);
      },
      ...rules,
    });
    const begun: string[] = [];
    const refused: ProxyError[] = [];
    const turns = new Map<string, Turn>();
    for (const step of story.split(' ')) {
      const name = step.replace(/^[!?]/, '');
      if (step.startsWith('!')) turns.get(name)?.leave();
      else if (step.startsWith('?')) turns.get(name)?.answered();
      else {
        const turn = queue.join({ client: name.charAt(0), bodyClients: undefined });
        turns.set(name, turn);
        turn.begin((refusal) => (refusal === undefined ? begun.push(name) : refused.push(refusal)));
      }
    }
    return { clock, queue, begun, refused, shortages };
  }

  it('lets a client exceed its share while enough connections are free, and others take the rest', () => {
    const { begun, shortages } = tell({ beyondShares: () => 6 }, 'a1 a2 a3 a4 a5 a6 a7 b1 b2 a8');
    expect(begun.join(' ')).toBe('a1 a2 a3 a4 a5 a6 b1 b2');
    expect(shortages).toEqual(['connectionsPerClient 2', 'connections 8']);
  });

  it('does not count a response whose head has come as unanswered, however long it takes', () => {
    const { begun, queue, shortages } = tell({ unanswered: 2, perClient: () => 8 }, 'a1 a2 b1 ?a1 ?a2 c1');
    expect(begun).toEqual(['a1', 'a2', 'b1', 'c1']);
    expect(shortages).toEqual(['unansweredRequests 2']);
    expect(queue.use).toEqual({ streams: 2, fills: 0, unanswered: 2, waiting: 0 });
  });

  it('refuses a request that has waited for long enough, with Retry-After, and keeps no timer for others', () => {
    const { clock, refused, queue } = tell({}, 'a1 a2 a3 a4 !a4');
    expect(clock.pending).toBe(1);
    clock.advance(9_999);
    expect(refused).toEqual([]);
    clock.advance(1);
    expect(refused).toMatchObject([{ code: 'origin_busy', status: 503, fields: [['retry-after', '10']] }]);
    expect(refused[0]?.detail).toContain('connectionsPerClient is 2');
    expect(queue.use.waiting).toBe(0);
    expect(clock.pending).toBe(0);
  });

  it('gives a request that gets its turn no error later', async () => {
    const { clock, refused } = tell({ connections: 1 }, 'a1 b1 !a1');
    await Promise.resolve();
    clock.advance(20_000);
    expect(refused).toEqual([]);
  });
});
