import { describe, expect, it } from 'vitest';
import { Inheritance } from '../../src/setup/inheritance.ts';

/** Another one each time. */
const make = () => ({});

describe('Inheritance', () => {
  it.each<[what: string, route: unknown, kind: string, sameness: unknown, isSame: boolean]>([
    ['all is as it was', { pathPrefix: '/a' }, 'limits', { rate: 1 }, true],
    ['the route is another one', { pathPrefix: '/b' }, 'limits', { rate: 1 }, false],
    ['it is of another kind', { pathPrefix: '/a' }, 'health', { rate: 1 }, false],
    ['what it was made with is not as it was', { pathPrefix: '/a' }, 'limits', { rate: 2 }, false],
  ])('%s', (_what, route, kind, sameness, isSame) => {
    const before = new Inheritance();
    const one = before.of({ pathPrefix: '/a' }).take('limits', { rate: 1 }, make);
    before.settle();
    const after = new Inheritance(before);
    const other = after.of(route).take(kind, sameness, make);
    expect(other === one).toBe(isSame);
    expect(after.has(one)).toBe(isSame);
  });

  it('goes on over sites that did not touch it themselves', () => {
    const first = new Inheritance();
    const one = first.of(null).take('limits', 1, make);
    const second = new Inheritance(first);
    second.of(null).take('limits', 1, make);
    second.settle();
    first.forget();
    expect(new Inheritance(second).of(null).take('limits', 1, make)).toBe(one);
  });

  it('takes nothing of a site that is no more, or after its own is made', () => {
    const first = new Inheritance();
    const one = first.of(null).take('limits', 1, make);
    const second = new Inheritance(first);
    second.settle();
    expect(second.of(null).take('limits', 1, make)).not.toBe(one);
    first.forget();
    expect(first.has(one)).toBe(false);
  });
});
