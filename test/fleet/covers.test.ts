import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changedCovers, decideCovers, type SlotFitness } from '../../src/fleet/supervisor-sockets.ts';

/** A slot for each letter: fit, not fit, or not open yet. */
function slotsOf(letters: string): SlotFitness[] {
  return [...letters].map((letter, index) => ({ slot: index + 1, isFit: letter === 'F', isOpen: letter !== 'n' }));
}

describe('who covers whom', () => {
  it.each([
    { name: 'nobody where all are fit', slots: 'FFF', before: [], want: [] },
    { name: 'nobody who was never open: no connection comes there', slots: 'FnF', before: [], want: [] },
    { name: 'a fit one covers one that is not', slots: 'F-', before: [], want: [[2, 1]] },
    {
      name: 'several share what there is to cover',
      slots: 'F--F',
      before: [],
      want: [
        [2, 1],
        [3, 4],
      ],
    },
    { name: 'a cover stays with whom it has', slots: 'F-F', before: [[2, 3]], want: [[2, 3]] },
    {
      name: 'one whose cover dies gets another one',
      slots: 'F--',
      before: [[2, 3]],
      want: [
        [2, 1],
        [3, 1],
      ],
    },
    { name: 'one that is back is not covered', slots: 'FFF', before: [[2, 1]], want: [] },
    { name: 'nobody can where nobody is fit', slots: '---', before: [[2, 1]], want: [] },
  ])('$name: $slots', ({ slots, before, want }) => {
    const covers = decideCovers(slotsOf(slots), new Map(before as [number, number][]));
    expect([...covers].sort()).toEqual(want);
  });

  it('everybody open is covered once by somebody fit, as long as somebody is, and covers differ by one at most', () => {
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

describe('what has changed', () => {
  it.each([
    { name: 'nothing', before: [[2, 1]], after: [[2, 1]], begun: [], ended: [] },
    { name: 'a cover begins', before: [], after: [[2, 1]], begun: [[2, 1]], ended: [] },
    { name: 'a cover ends', before: [[2, 1]], after: [], begun: [], ended: [[2, 1]] },
    { name: 'somebody else covers', before: [[2, 1]], after: [[2, 3]], begun: [[2, 3]], ended: [[2, 1]] },
  ])('$name', ({ before, after, begun, ended }) => {
    const changed = changedCovers(new Map(before as [number, number][]), new Map(after as [number, number][]));
    expect({ begun: [...changed.begun], ended: [...changed.ended] }).toEqual({ begun, ended });
  });
});
