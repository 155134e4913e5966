import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Witness } from '../../src/cache/fill/fill.ts';

const bytes = (text: string) => Buffer.from(text);

function witnessOf(...all: readonly (readonly [start: number, bytes: Uint8Array])[]): Witness {
  const witness = new Witness();
  for (const [start, each] of all) witness.note(start, each);
  return witness;
}

describe('a witness of "cde" at offset 2', () => {
  const witness = witnessOf([2, bytes('cde')]);

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

describe('the notes of a witness', () => {
  it('all count', () => {
    const later = witnessOf([6, bytes('gh')], [2, bytes('cd')], [2, bytes('c')], [7, bytes('h')]);
    expect(later.contradicts(0, bytes('abcdefgh'))).toBe(false);
    expect(later.contradicts(0, bytes('abcXefgh'))).toBe(true);
    expect(later.contradicts(0, bytes('abcdefgX'))).toBe(true);
    expect(later.isAhead(5)).toBe(true);
    expect(later.isAhead(8)).toBe(false);
  });

  it('count by their offset where they are empty', () => {
    const witness = witnessOf([4, bytes('')]);
    expect(witness.contradicts(0, bytes('abcdefgh'))).toBe(false);
    expect(witness.isAhead(3)).toBe(true);
    expect(witness.isAhead(4)).toBe(false);
  });

  it('agree with a comparison byte by byte', () => {
    const whole = fc.uint8Array({ minLength: 18, maxLength: 18, max: 1 });
    const seen = fc.record({ start: fc.nat(12), sizeBytes: fc.nat(6) });
    const claim = fc.record({ offset: fc.nat(12), bytes: fc.uint8Array({ maxLength: 12, max: 1 }) });
    fc.assert(
      fc.property(
        whole,
        fc.array(seen, { minLength: 1, maxLength: 5 }),
        claim,
        (truth, all, { offset, bytes: claimed }) => {
          const pieces = all.map(({ start, sizeBytes }) => [start, truth.slice(start, start + sizeBytes)] as const);
          const witness = witnessOf(...pieces);
          const isOther = pieces.some(([start, piece]) =>
            piece.some((byte, at) => {
              const other = claimed[start + at - offset];
              return other !== undefined && other !== byte;
            }),
          );
          expect(witness.contradicts(offset, claimed)).toBe(isOther);
          const end = Math.max(...pieces.map(([start, piece]) => start + piece.length));
          expect(witness.isAhead(offset)).toBe(end > offset);
        },
      ),
    );
  });
});
