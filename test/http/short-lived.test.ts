import { describe, expect, it } from 'vitest';
import { ShortLivedMap, ShortLivedSet } from '../../src/http/collections.ts';

describe('ShortLivedMap', () => {
  it('holds what was set last for a key, in the order in which the keys came', () => {
    const map = new ShortLivedMap<string, number>();
    map.set('a', 1);
    map.set('b', 2);
    map.set('a', 3);
    expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([3, 2, undefined]);
    expect([map.has('a'), map.has('c'), map.size]).toEqual([true, false, 2]);
    expect([...map.keys()]).toEqual(['a', 'b']);
    expect(map.values).toEqual([3, 2]);
  });

  it('forgets what was deleted, and uses its place again for another key', () => {
    const map = new ShortLivedMap<string, number>();
    for (const [at, key] of ['a', 'b', 'c'].entries()) map.set(key, at);
    expect([map.delete('b'), map.delete('b')]).toEqual([true, false]);
    map.set('d', 9);
    expect([map.get('b'), map.size]).toEqual([undefined, 3]);
    expect(map.entries).toEqual([
      ['a', 0],
      ['c', 2],
      ['d', 9],
    ]);
  });

  it('tells what was there, whatever comes and goes meanwhile', () => {
    const map = new ShortLivedMap<number, string>();
    map.set(1, 'one');
    map.set(2, 'two');
    const told: string[] = [];
    for (const [key, value] of map.entries) {
      map.delete(key);
      map.set(key + 2, `${value} again`);
      told.push(value);
    }
    expect(told).toEqual(['one', 'two']);
    expect(map.values).toEqual(['one again', 'two again']);
  });
});

describe('ShortLivedSet', () => {
  it('gives each member a number, by which it is deleted', () => {
    const set = new ShortLivedSet<string>();
    const numbers = ['a', 'b', 'a'].map((member) => set.add(member));
    expect(set.all).toEqual(['a', 'b', 'a']);
    expect(set.delete(numbers[0] ?? 0)).toBe(true);
    expect(set.delete(numbers[0] ?? 0)).toBe(false);
    expect([set.all, set.size]).toEqual([['b', 'a'], 2]);
    expect(set.numbered).toEqual([
      [numbers[1], 'b'],
      [numbers[2], 'a'],
    ]);
  });
});
