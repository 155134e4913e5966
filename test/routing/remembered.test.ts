import { describe, expect, it } from 'vitest';
import { RecentResults } from '../../src/routing/inquiry.ts';

const texts = (count: number, prefix: string) => Array.from({ length: count }, (_, at) => `${prefix}${at}`);

describe('a remembered result', () => {
  it('is found by its text', () => {
    const remembered = new RecentResults<{ readonly of: string }>();
    remembered.keep('a', { of: 'a' });
    expect([remembered.find('a'), remembered.find('b')]).toEqual([{ of: 'a' }, undefined]);
  });

  it('is the last one of its text', () => {
    const remembered = new RecentResults<{ readonly of: number }>();
    remembered.keep('a', { of: 1 });
    for (const text of texts(1024, 'x')) remembered.keep(text, { of: 0 });
    remembered.keep('a', { of: 2 });
    expect(remembered.find('a')).toEqual({ of: 2 });
  });

  it('stays while it is looked up, and is dropped after many others', () => {
    const remembered = new RecentResults<object>();
    for (const text of ['used', 'unused']) remembered.keep(text, {});
    for (const text of texts(4096, 'other')) {
      remembered.keep(text, {});
      expect(remembered.find('used')).toBeDefined();
    }
    expect(remembered.find('unused')).toBeUndefined();
    expect(texts(4096, 'other').filter((text) => remembered.find(text) !== undefined).length).toBeLessThan(2049);
  });

  it('is not kept for long texts', () => {
    const remembered = new RecentResults<object>();
    for (const length of [1024, 1025]) remembered.keep('x'.repeat(length), {});
    expect([1024, 1025].map((length) => remembered.find('x'.repeat(length)) !== undefined)).toEqual([true, false]);
  });
});
