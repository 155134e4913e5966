import { describe, expect, it } from 'vitest';
import { Inheritance } from '../../src/setup/inheritance.ts';

/** Makes a new thing each time. */
const make = () => ({});

describe('Inheritance', () => {
  it.each<[what: string, route: unknown, kind: string, sameness: unknown, isSame: boolean]>([
    ['takes a thing over where nothing has changed', { pathPrefix: '/a' }, 'limits', { rate: 1 }, true],
    ['makes a new thing where the route has changed', { pathPrefix: '/b' }, 'limits', { rate: 1 }, false],
    ['makes a new thing where the kind differs', { pathPrefix: '/a' }, 'health', { rate: 1 }, false],
    ['makes a new thing where its options have changed', { pathPrefix: '/a' }, 'limits', { rate: 2 }, false],
  ])('%s', (_what, route, kind, sameness, isSame) => {
    const before = new Inheritance();
    const one = before.of({ pathPrefix: '/a' }).take('limits', { rate: 1 }, make);
    before.settle();
    const after = new Inheritance(before);
    const other = after.of(route).take(kind, sameness, make);
    expect(other === one).toBe(isSame);
    expect(after.has(one)).toBe(isSame);
  });

  it('passes a thing on over several sites, also when the first one is forgotten', () => {
    const first = new Inheritance();
    const one = first.of(null).take('limits', 1, make);
    const second = new Inheritance(first);
    second.of(null).take('limits', 1, make);
    second.settle();
    first.forget();
    expect(new Inheritance(second).of(null).take('limits', 1, make)).toBe(one);
  });

  it('takes nothing over after its own site is made, and a forgotten site has nothing', () => {
    const first = new Inheritance();
    const one = first.of(null).take('limits', 1, make);
    const second = new Inheritance(first);
    second.settle();
    expect(second.of(null).take('limits', 1, make)).not.toBe(one);
    first.forget();
    expect(first.has(one)).toBe(false);
  });
});
