import { describe, expect, it } from 'vitest';
import { createRangeAbility, type RangeMode } from '../../src/origin/range-ability.ts';

/** An observation of an origin's ranges, or milliseconds that pass. */
type Step = 'parts' | 'whole' | 'unnamed' | 'lie' | number;

function learn(mode: RangeMode, steps: readonly Step[]) {
  let now = 1_000_000;
  const reasons: string[] = [];
  const ability = createRangeAbility({
    mode,
    now: () => now,
    forgetAfterMs: 100,
    onDistrust: (reason) => void reasons.push(reason),
  });
  for (const [index, step] of steps.entries()) {
    if (step === 'parts') ability.noteParts();
    else if (step === 'whole') ability.noteWhole();
    else if (step === 'unnamed') ability.noteUncombinable();
    else if (step === 'lie') ability.distrust(`lie ${index}`);
    else now += step;
  }
  return {
    mayAsk: ability.mayRequestPart,
    mayAskMore: ability.mayRequestFurtherPart,
    isKnown: ability.isKnown,
    known: ability.known,
    mayAskTail: ability.mayRequestTail,
    reasons,
  };
}

describe('the knowledge in one word', () => {
  it.each<[RangeMode, readonly Step[], 'unknown' | 'yes' | 'no']>([
    ['auto', [], 'unknown'],
    ['auto', ['parts'], 'yes'],
    ['auto', ['whole'], 'no'],
    ['auto', ['whole', 100], 'unknown'],
    ['auto', ['parts', 'whole'], 'yes'],
    ['auto', ['unnamed'], 'no'],
    ['auto', ['lie'], 'no'],
    ['auto', ['parts', 'lie', 100], 'unknown'],
    ['never', ['parts'], 'no'],
    ['always', [], 'yes'],
    ['always', ['lie'], 'yes'],
  ])('%s, %j: %s', (mode, steps, known) => expect(learn(mode, steps).known).toBe(known));
});

describe('whether parts may be requested, where the whole is of use and where it is not, and whether parts are known', () => {
  it.each<[RangeMode, readonly Step[], boolean, boolean, boolean]>([
    ['auto', [], true, true, false],
    ['auto', ['parts'], true, true, true],
    ['auto', ['whole'], true, false, false],
    ['auto', ['whole', 99], true, false, false],
    ['auto', ['whole', 100], true, true, false],
    ['auto', ['whole', 50, 'whole', 99], true, false, false],
    ['auto', ['whole', 'parts'], true, true, true],
    // One resource that arrives whole, or in parts that cannot be combined, says nothing about an origin that sends parts of others.
    ['auto', ['parts', 'whole'], true, true, true],
    ['auto', ['parts', 'unnamed'], true, true, true],
    ['auto', ['unnamed'], false, false, false],
    ['auto', ['unnamed', 99], false, false, false],
    ['auto', ['unnamed', 100], true, true, false],
    ['auto', ['lie'], false, false, false],
    ['auto', ['lie', 100], true, true, false],
    ['auto', ['parts', 'lie'], false, false, false],
    // The response to an earlier request arrives late.
    ['auto', ['lie', 'parts'], false, false, false],
    ['auto', ['lie', 'parts', 100], true, true, false],
    ['never', [], false, false, false],
    ['never', ['parts'], false, false, false],
    ['never', ['whole', 100], false, false, false],
    ['always', [], true, true, true],
    ['always', ['whole'], true, true, true],
    ['always', ['unnamed'], true, true, true],
    ['always', ['lie'], true, true, true],
    ['always', ['parts'], true, true, true],
  ])('%s after %o: %s, %s, %s', (mode, steps, mayAsk, mayAskMore, isKnown) => {
    expect(learn(mode, steps)).toMatchObject({ mayAsk, mayAskMore, isKnown });
  });
});

describe("whether the client's suffix range is passed on", () => {
  it.each<[RangeMode, readonly Step[], boolean]>([
    ['auto', [], true],
    ['auto', ['parts'], false],
    ['auto', ['whole'], true],
    ['auto', ['unnamed'], true],
    ['auto', ['unnamed', 100, 'parts'], false],
    ['auto', ['lie'], false],
    ['auto', ['lie', 100], true],
    ['auto', ['unnamed', 'lie'], false],
    ['never', [], false],
    ['never', ['unnamed'], false],
    ['always', [], false],
    ['always', ['unnamed'], false],
  ])('%s after %o: %s', (mode, steps, mayAskTail) => {
    expect(learn(mode, steps).mayAskTail).toBe(mayAskTail);
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
  ])('after %o is reported: %o', (steps, reasons) => {
    expect(learn('auto', steps).reasons).toEqual(reasons);
  });
});

describe('one resource that gives no parts of use', () => {
  const createAt = (clock: { now: number }) =>
    createRangeAbility({ mode: 'auto', now: () => clock.now, forgetAfterMs: 100, onDistrust: () => {} });

  it('is not asked for parts for a while, and the others of its origin are', () => {
    const clock = { now: 0 };
    const ability = createAt(clock);
    ability.noteParts();
    ability.of('/a').refuse('its 200 holds a part');
    expect(ability.of('/a')).toMatchObject({
      refusal: 'its 200 holds a part',
      mayRequestPart: false,
      mayRequestFurtherPart: false,
      mayRequestTail: false,
      isKnown: false,
      isDistrusted: true,
      known: 'no',
    });
    const open = { refusal: undefined, mayRequestPart: true, isKnown: true, isDistrusted: false, known: 'yes' };
    expect(ability.of('/b')).toMatchObject(open);
    expect(ability.known).toBe('yes');
    clock.now = 100;
    expect(ability.of('/a')).toMatchObject(open);
  });

  it('learns what its origin learns', () => {
    const ability = createAt({ now: 0 });
    ability.of('/a').noteParts();
    expect(ability.isKnown).toBe(true);
    ability.of('/a').distrust('a lie');
    expect(ability.of('/b').mayRequestPart).toBe(false);
  });
});
