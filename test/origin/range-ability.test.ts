import { describe, expect, it } from 'vitest';
import { createRangeAbility, type RangeMode } from '../../src/origin/range-ability.ts';

/** What happens to an ability, one step after the other. */
type Step = 'parts' | 'whole' | 'lie' | number;

function learn(mode: RangeMode, steps: readonly Step[]) {
  let now = 1_000_000;
  const told: string[] = [];
  const ability = createRangeAbility({
    mode,
    now: () => now,
    forgetAfterMs: 100,
    onDistrust: (reason) => void told.push(reason),
  });
  for (const [index, step] of steps.entries()) {
    if (step === 'parts') ability.noteParts();
    else if (step === 'whole') ability.noteWhole();
    else if (step === 'lie') ability.distrust(`lie ${index}`);
    else now += step;
  }
  return { mayAsk: ability.mayAsk, isKnown: ability.isKnown, told };
}

describe('whether parts may be asked for, and whether they are known to come', () => {
  it.each<[RangeMode, readonly Step[], boolean, boolean]>([
    ['auto', [], true, false],
    ['auto', ['parts'], true, true],
    ['auto', ['whole'], false, false],
    ['auto', ['lie'], false, false],
    ['auto', ['whole', 99], false, false],
    ['auto', ['whole', 100], true, false],
    ['auto', ['lie', 100], true, false],
    ['auto', ['whole', 50, 'whole', 99], false, false],
    ['auto', ['parts', 'whole'], false, false],
    ['auto', ['parts', 'whole', 100], true, false],
    ['auto', ['whole', 100, 'parts'], true, true],
    // The answer to an earlier question comes late.
    ['auto', ['lie', 'parts'], false, false],
    ['auto', ['lie', 'parts', 100], true, false],
    ['never', [], false, false],
    ['never', ['parts'], false, false],
    ['never', ['whole', 100], false, false],
    ['always', [], true, true],
    ['always', ['whole'], true, true],
    ['always', ['lie'], true, true],
    ['always', ['parts'], true, true],
  ])('%s after %o: %s, %s', (mode, steps, mayAsk, isKnown) => {
    expect(learn(mode, steps)).toMatchObject({ mayAsk, isKnown });
  });
});

describe('distrust', () => {
  it.each<[readonly Step[], readonly string[]]>([
    [['whole'], []],
    [['lie'], ['lie 0']],
    [['lie', 'lie', 200, 'lie'], ['lie 0']],
    [['lie', 'parts', 'lie'], ['lie 0']],
    [
      ['lie', 100, 'parts', 'lie'],
      ['lie 0', 'lie 3'],
    ],
    [['lie', 100, 'whole', 100, 'lie'], ['lie 0']],
  ])('after %o is told: %o', (steps, told) => {
    expect(learn('auto', steps).told).toEqual(told);
  });
});
