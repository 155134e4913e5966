import { describe, expect, it } from 'vitest';
import { ShortLivedMap, ShortLivedSet } from '../../src/http/collections.ts';

describe('ShortLivedMap', () => {
  it('holds the last value of each key, in the order in which keys were added', () => {
    const map = new ShortLivedMap<string, number>();
    map.set('a', 1);
    map.set('b', 2);
    map.set('a', 3);
    expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([3, 2, undefined]);
    expect([map.has('a'), map.has('c'), map.size]).toEqual([true, false, 2]);
    expect([...map.keys()]).toEqual(['a', 'b']);
    expect(map.values).toEqual([3, 2]);
  });

  it('forgets deleted keys, and reuses their places', () => {
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

  it('lists the entries as they were, even if they change meanwhile', () => {
    const map = new ShortLivedMap<string, number>();
    map.set('a', 1);
    map.set('b', 2);
    const told: number[] = [];
    for (const [key, value] of map.entries) {
      map.delete(key);
      map.set(`${key} again`, value + 2);
      told.push(value);
    }
    expect(told).toEqual([1, 2]);
    expect(map.values).toEqual([3, 4]);
  });
});

describe('ShortLivedSet', () => {
  it('keeps members in the order in which they came, and deletes each by its place', () => {
    const set = new ShortLivedSet<string>();
    const [a, b, other] = ['a', 'b', 'a'].map((member) => set.add(member));
    expect([set.all, set.size]).toEqual([['a', 'b', 'a'], 3]);
    expect(b && [set.delete(b), set.delete(b)]).toEqual([true, false]);
    expect([set.all, set.size]).toEqual([['a', 'a'], 2]);
    expect(a && set.delete(a)).toBe(true);
    set.add('c');
    expect(set.all).toEqual(['a', 'c']);
    expect(set.places[0]).toBe(other);
  });

  it('is empty when the last member is deleted, and may be filled again', () => {
    const set = new ShortLivedSet<number>();
    for (const member of [1, 2]) set.delete(set.add(member));
    expect([set.all, set.size]).toEqual([[], 0]);
    set.add(3);
    expect(set.all).toEqual([3]);
  });

  it('lists the entries as they were, even if they change meanwhile', () => {
    const set = new ShortLivedSet<number>();
    for (const member of [1, 2, 3]) set.add(member);
    const told: number[] = [];
    for (const place of set.places) {
      set.delete(place);
      set.add(place.member + 3);
      told.push(place.member);
    }
    expect([told, set.all]).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
  });
});
