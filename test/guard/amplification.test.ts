/** What may come from the origin for what is delivered: the accounts of clients and entries. */

import { describe, expect, it } from 'vitest';
import { OriginShare, type ShareRules } from '../../src/guard/origin-share.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { Errand, Reach } from '../../src/origin/origin.ts';

/** A client or an entry may owe 2000 bytes; 10 of them are forgotten in a second, and a delivered one pays for 10. */
const rules: ShareRules = { factor: 10, freeBytes: 2000, windowMs: 200_000 };

function createShare(of = rules) {
  const clock = { ms: 5 };
  const share = new OriginShare(of, () => clock.ms);
  const charge = (client: string, bytes: number, key = `of ${client}`) => share.charge(errand(client, key), bytes);
  return { clock, share, charge };
}

function errand(client: string, key = `of ${client}`, wanters?: readonly string[]): Errand {
  return { client, key, wanters: wanters && (() => wanters), reach: undefined };
}

/** When to come back and why, or on whose account more may come. */
function settled(share: OriginShare, of: Errand, decision: 'begin' | 'goOn' = 'begin'): string {
  try {
    share[decision](of);
    return of.client;
  } catch (thrown) {
    if (!(thrown instanceof ProxyError) || thrown.code !== 'origin_share_spent') throw thrown;
    return `${thrown.fields.find(([name]) => name === 'retry-after')?.[1]} s, ${thrown.detail}`;
  }
}

const spent = (seconds: number, of: 'client' | 'entry') => `${seconds} s, the share of the ${of}`;

describe('who asks for more', () => {
  it.each<[owedBytes: number, want: string]>([
    [0, 'a'],
    [500, 'a'],
    [1000, 'a'],
    [1001, spent(1, 'client')],
    [1010, spent(1, 'client')],
    [1011, spent(2, 'client')],
    [6000, spent(500, 'client')],
  ])('and owes %i bytes: %s', (owedBytes, want) => {
    const { share, charge } = createShare();
    charge('a', owedBytes, 'another');
    expect(settled(share, errand('a'))).toBe(want);
    expect(settled(share, errand('b', 'a third'))).toBe('b');
  });

  it('for an entry that owes too much gets nothing of it, whoever it is', () => {
    const { share, charge } = createShare();
    for (const client of ['a', 'b', 'c']) charge(client, 400, 'one');
    expect(settled(share, errand('d', 'one'))).toBe(spent(20, 'entry'));
    expect(settled(share, errand('d', 'one', ['d', 'e']))).toBe(spent(20, 'entry'));
    expect(settled(share, errand('a', 'another'))).toBe('a');
  });

  it('gets it again when what was delivered has paid for it', () => {
    const { share, charge } = createShare();
    charge('a', 2000);
    share.repay('a', 'of a', 99);
    expect(settled(share, errand('a'))).toBe(spent(1, 'entry'));
    share.repay('a', 'of a', 1);
    expect(settled(share, errand('a'))).toBe('a');
  });

  it('gets it again when time has passed', () => {
    const { clock, share, charge } = createShare();
    charge('a', 2000);
    clock.ms += 99_999;
    expect(settled(share, errand('a'))).toBe(spent(1, 'entry'));
    clock.ms += 1;
    expect(settled(share, errand('a'))).toBe('a');
  });

  it('cannot save up what was delivered before', () => {
    const { share, charge } = createShare();
    share.repay('a', 'of a', 1_000_000);
    charge('a', 1);
    share.repay('a', 'of a', 1_000_000);
    charge('a', 1001);
    expect(settled(share, errand('a'))).toBe(spent(1, 'entry'));
  });

  it('pays for an entry with a long key as with a short one, and for no other', () => {
    const { share, charge } = createShare();
    const keys = ['k'.repeat(10_000), `${'k'.repeat(9_999)}j`] as const;
    charge('a', 1500, keys[0]);
    charge('b', 10, keys[1]);
    expect(settled(share, errand('c', keys[0]))).toBe(spent(50, 'entry'));
    expect(settled(share, errand('c', keys[1]))).toBe('c');
    share.repay('d', keys[0], 50);
    expect(settled(share, errand('c', keys[0]))).toBe('c');
  });
});

describe('a transfer', () => {
  it.each<[owedBytes: number, wanters: readonly string[] | undefined, begin: string, goOn: string]>([
    [1000, [], 'a', 'a'],
    [1001, [], spent(1, 'client'), '1 s, nobody reads it'],
    [2500, [], spent(150, 'client'), '150 s, nobody reads it'],
    [1001, undefined, spent(1, 'client'), 'a'],
    [2000, undefined, spent(100, 'client'), 'a'],
    [2001, undefined, spent(101, 'client'), spent(101, 'client')],
    [2000, ['a'], spent(100, 'client'), 'a'],
    [2001, ['a'], spent(101, 'client'), spent(101, 'client')],
    [2001, ['a', 'b'], 'b', 'b'],
    [2001, ['b'], 'b', 'b'],
    [2001, ['c', 'a', 'c'], spent(101, 'client'), 'c'],
    [2001, ['c', 'a', 'c', 'b'], 'b', 'c'],
  ])('of a client that owes %i bytes, wanted by %j, begins: %s; goes on: %s', (owedBytes, wanters, begin, goOn) => {
    const { share, charge } = createShare();
    charge('a', owedBytes, 'another');
    charge('c', 1001, 'yet another');
    expect(settled(share, errand('a', 'one', wanters))).toBe(begin);
    expect(settled(share, errand('a', 'one', wanters), 'goOn')).toBe(goOn);
  });

  it.each<[reach: Reach, isPaid: boolean, want: string]>([
    ['near', true, 'go'],
    ['near', false, 'go'],
    ['behind', true, 'wait'],
    ['behind', false, 'refused'],
    ['far', true, 'refused'],
  ])('whose readers are %s, when something was paid (%j): %s', (reach, isPaid, want) => {
    const { share, charge } = createShare();
    charge('a', 2001);
    const decide = () => share.goOn({ ...errand('a', 'of a', ['a']), reach: () => reach }, isPaid);
    if (want === 'refused') expect(decide).toThrow('Too much was fetched');
    else expect(decide()).toBe(want);
  });

  it('of an entry that owes too much is ended, whoever wants it', () => {
    const { share, charge } = createShare();
    for (const client of ['a', 'b', 'c']) charge(client, 666, 'one');
    expect(settled(share, errand('d', 'one', ['d']), 'goOn')).toBe('d');
    charge('d', 12, 'one');
    expect(settled(share, errand('d', 'one', ['d', 'e']), 'goOn')).toBe(spent(101, 'entry'));
  });

  it('that another client pays for from now on is charged to that one', () => {
    const { share, charge } = createShare();
    charge('a', 2001, 'another');
    const passedOn = errand('a', 'one', ['b']);
    share.goOn(passedOn);
    share.charge(passedOn, 1001);
    expect(settled(share, errand('b', 'a third'))).toBe(spent(1, 'client'));
  });
});

describe('amounts', () => {
  it.each([1e6, 100e9, 1e15])('are exact to the byte in thousands where %i bytes are free, for days', (freeBytes) => {
    const { clock, share, charge } = createShare({ factor: 1, freeBytes, windowMs: 600_000 });
    clock.ms = 10 * 86_400_000;
    const chunk = Math.ceil(freeBytes / 1000);
    for (let at = 0; at < 1000; at += 1) charge('a', chunk);
    share.repay('a', 'of a', 1000 * chunk - freeBytes / 2);
    expect(settled(share, errand('a'), 'goOn')).toBe('a');
    charge('a', freeBytes / 1000);
    expect(settled(share, errand('a', 'of a', []), 'goOn')).toMatch(/nobody reads it$/);
  });
});
