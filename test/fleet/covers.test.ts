import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changedCovers, decideCovers, type SlotFitness } from '../../src/fleet/supervisor-sockets.ts';

/** Parses slots, one per letter: `F` is fit, `-` is not, `n` is not open yet. */
function slotsOf(letters: string): SlotFitness[] {
  return [...letters].map((letter, index) => ({ slot: index + 1, isFit: letter === 'F', isOpen: letter !== 'n' }));
}

describe('covers of slots that are not fit', () => {
  it.each([
    { name: 'none where all are fit', slots: 'FFF', before: [], want: [] },
    { name: 'none for a slot that was never open and gets no connections', slots: 'FnF', before: [], want: [] },
    { name: 'a fit slot covers one that is not', slots: 'F-', before: [], want: [[2, 1]] },
    {
      name: 'several fit slots share the others',
      slots: 'F--F',
      before: [],
      want: [
        [2, 1],
        [3, 4],
      ],
    },
    { name: 'a slot keeps its cover', slots: 'F-F', before: [[2, 3]], want: [[2, 3]] },
    {
      name: 'a slot whose cover dies gets another one',
      slots: 'F--',
      before: [[2, 3]],
      want: [
        [2, 1],
        [3, 1],
      ],
    },
    { name: 'a slot that is fit again is not covered', slots: 'FFF', before: [[2, 1]], want: [] },
    { name: 'none where no slot is fit', slots: '---', before: [[2, 1]], want: [] },
  ])('$name: $slots', ({ slots, before, want }) => {
    const covers = decideCovers(slotsOf(slots), new Map(before as [number, number][]));
    expect([...covers].sort()).toEqual(want);
  });

  it('each open slot that is not fit has one fit cover if any slot is fit, and loads differ by at most one', () => {
    const anySlots = fc.array(fc.constantFrom('F', '-', 'n'), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(anySlots, (letters) => {
        const slots = slotsOf(letters.join(''));
        const covers = decideCovers(slots, new Map());
        const fit = slots.filter(({ isFit }) => isFit).map(({ slot }) => slot);
        const open = slots.filter(({ isFit, isOpen }) => isOpen && !isFit).map(({ slot }) => slot);
        expect([...covers.keys()].sort()).toEqual((fit.length === 0 ? [] : open).sort());
        for (const by of covers.values()) expect(fit).toContain(by);
        const loads = fit.map((by) => [...covers.values()].filter((each) => each === by).length);
        if (fit.length > 0) expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('changes of covers', () => {
  it.each([
    { name: 'none', before: [[2, 1]], after: [[2, 1]], begun: [], ended: [] },
    { name: 'a cover begins', before: [], after: [[2, 1]], begun: [[2, 1]], ended: [] },
    { name: 'a cover ends', before: [[2, 1]], after: [], begun: [], ended: [[2, 1]] },
    { name: 'another slot covers', before: [[2, 1]], after: [[2, 3]], begun: [[2, 3]], ended: [[2, 1]] },
  ])('$name', ({ before, after, begun, ended }) => {
    const changed = changedCovers(new Map(before as [number, number][]), new Map(after as [number, number][]));
    expect({ begun: [...changed.begun], ended: [...changed.ended] }).toEqual({ begun, ended });
  });
});
