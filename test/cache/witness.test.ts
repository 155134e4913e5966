import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Witness } from '../../src/cache/witness.ts';

const bytes = (text: string) => Buffer.from(text);

describe('a witness of "cde" at offset 2', () => {
  const witness = new Witness(2, bytes('cde'));

  it.each<[number, string, boolean]>([
    [0, 'abcdef', false],
    [0, 'abXdef', true],
    [0, 'abcdXf', true],
    [0, 'XXcdeX', false],
    [0, 'XX', false],
    [0, '', false],
    [2, 'cde', false],
    [2, 'c', false],
    [2, 'X', true],
    [3, 'd', false],
    [3, 'X', true],
    [4, 'eXX', false],
    [4, 'XYZ', true],
    [5, 'X', false],
    [100, 'X', false],
  ])('at %i "%s" contradicts it: %s', (offset, text, expected) => {
    expect(witness.contradicts(offset, bytes(text))).toBe(expected);
  });

  it.each([
    [0, true],
    [4, true],
    [5, false],
    [6, false],
  ])('is ahead of %i: %s', (offset, expected) => {
    expect(witness.isAhead(offset)).toBe(expected);
  });
});

describe('witnesses one after the other', () => {
  it('all count', () => {
    const later = new Witness(2, bytes('cd'), new Witness(6, bytes('gh')));
    expect(later.contradicts(0, bytes('abcdefgh'))).toBe(false);
    expect(later.contradicts(0, bytes('abcXefgh'))).toBe(true);
    expect(later.contradicts(0, bytes('abcdefgX'))).toBe(true);
    expect(later.isAhead(5)).toBe(true);
    expect(later.isAhead(8)).toBe(false);
  });

  it('agree with the dumbest comparison', () => {
    const seen = fc.record({ start: fc.nat(12), bytes: fc.uint8Array({ maxLength: 6, max: 1 }) });
    const claim = fc.record({ offset: fc.nat(12), bytes: fc.uint8Array({ maxLength: 12, max: 1 }) });
    fc.assert(
      fc.property(fc.array(seen, { minLength: 1, maxLength: 3 }), claim, (all, { offset, bytes: claimed }) => {
        const witness = all.reduce<Witness | undefined>(
          (earlier, each) => new Witness(each.start, each.bytes, earlier),
          undefined,
        );
        const isOther = all.some((each) =>
          each.bytes.some((byte, at) => {
            const other = claimed[each.start + at - offset];
            return other !== undefined && other !== byte;
          }),
        );
        expect(witness?.contradicts(offset, claimed)).toBe(isOther);
        const end = Math.max(...all.map((each) => each.start + each.bytes.length));
        expect(witness?.isAhead(offset)).toBe(end > offset);
      }),
    );
  });
});
