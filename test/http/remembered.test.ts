import { describe, expect, it } from 'vitest';
import { ExpiringMap, memoizeByText, RecentResults } from '../../src/http/collections.ts';

const texts = (count: number, prefix: string) => Array.from({ length: count }, (_, at) => `${prefix}${at}`);

describe('a remembered result', () => {
  it('is found by its text', () => {
    const remembered = new RecentResults<{ readonly of: string }>(1024);
    remembered.keep('a', { of: 'a' });
    expect([remembered.find('a'), remembered.find('b')]).toEqual([{ of: 'a' }, undefined]);
  });

  it('is the last one of its text', () => {
    const remembered = new RecentResults<{ readonly of: number }>(1024);
    remembered.keep('a', { of: 1 });
    for (const text of texts(1024, 'x')) remembered.keep(text, { of: 0 });
    remembered.keep('a', { of: 2 });
    expect(remembered.find('a')).toEqual({ of: 2 });
  });

  it('stays while it is looked up, and is dropped after many others', () => {
    const remembered = new RecentResults<object>(1024);
    for (const text of ['used', 'unused']) remembered.keep(text, {});
    for (const text of texts(4096, 'other')) {
      remembered.keep(text, {});
      expect(remembered.find('used')).toBeDefined();
    }
    expect(remembered.find('unused')).toBeUndefined();
    expect(texts(4096, 'other').filter((text) => remembered.find(text) !== undefined).length).toBeLessThan(2049);
  });

  it('is not kept for long texts', () => {
    const remembered = new RecentResults<object>(1024);
    for (const length of [1024, 1025]) remembered.keep('x'.repeat(length), {});
    expect([1024, 1025].map((length) => remembered.find('x'.repeat(length)) !== undefined)).toEqual([true, false]);
  });
});

describe('a function that remembers results by text', () => {
  it('computes each recent text once, and goes on remembering however many others there were', () => {
    const worked: string[] = [];
    const length = memoizeByText(2, (text) => {
      worked.push(text);
      return text.length;
    });
    for (const text of ['one', 'one', ...texts(100, 'other'), 'three', 'three']) expect(length(text)).toBe(text.length);
    expect(worked.filter((text) => !text.startsWith('other'))).toEqual(['one', 'three']);
  });

  it('computes long texts each time', () => {
    let works = 0;
    const count = memoizeByText(2, () => ++works);
    for (let times = 0; times < 2; times += 1) count('x'.repeat(1025));
    expect(works).toBe(2);
  });
});

describe('an expiring map', () => {
  it('is bounded by the length of its keys, too: those set first make room for long ones', () => {
    const long = (end: string) => `${'x'.repeat(255)}${end}`;
    const map = new ExpiringMap<string>(4);
    for (const key of ['a', 'b', long('c'), long('d')]) map.set(key, key, 1);
    expect(map.get('a', 0)).toBe('a');
    map.set('y'.repeat(600), 'long', 1);
    expect(['a', 'b', long('c'), long('d')].map((key) => map.get(key, 0) !== undefined)).toEqual([
      false,
      false,
      false,
      true,
    ]);
    // What is forgotten in any way makes room.
    map.delete(long('d'));
    expect(map.get('y'.repeat(600), 1)).toBeUndefined();
    for (const key of ['a', 'b', long('c'), long('d')]) map.set(key, key, 1);
    expect(['a', 'b', long('c'), long('d')].every((key) => map.get(key, 0) === key)).toBe(true);
  });

  it('returns a value until its time, and forgets it then', () => {
    const map = new ExpiringMap<string>(2);
    map.set('a', 'one', 10);
    expect([map.get('a', 9), map.get('a', 10), map.get('a', 9)]).toEqual(['one', undefined, undefined]);
  });

  it('forgets the value that was set first where there are too many; a value set again counts as new', () => {
    const map = new ExpiringMap<string>(2);
    for (const key of ['a', 'b', 'a', 'c']) map.set(key, key, 1);
    expect(['a', 'b', 'c'].map((key) => map.get(key, 0))).toEqual(['a', undefined, 'c']);
    map.delete('a');
    expect(map.get('a', 0)).toBeUndefined();
  });
});
