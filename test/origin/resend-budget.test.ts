/** How many requests may be sent again. */

import { describe, expect, it } from 'vitest';
import { ResendBudget } from '../../src/origin/group/resend.ts';

/** Plays steps: `r100` notes requests, `t` takes as often as it can, a number is seconds that pass. Returns what each `t` took. */
function play(percent: number, steps: string): number[] {
  let now = 0;
  const budget = new ResendBudget(percent, () => now);
  const taken: number[] = [];
  for (const step of steps.split(' ')) {
    if (step.startsWith('r')) for (let count = Number(step.slice(1)); count > 0; count--) budget.note();
    else if (step === 't') {
      let count = 0;
      while (budget.take()) count += 1;
      taken.push(count);
    } else now += Number(step) * 1000;
  }
  return taken;
}

describe('a budget', () => {
  it.each<[percent: number, steps: string, taken: number[]]>([
    [20, 't', [10]],
    [20, 'r1000 t', [210]],
    [20, 'r1000 t t', [210, 0]],
    [0, 'r1000 t', [10]],
    [100, 'r5 t', [15]],
    [20, 't 5 t', [10, 0]],
    [20, 't 9.9 t', [10, 0]],
    [20, 't 15 t', [10, 5]],
    [20, 't 20 t', [10, 10]],
    [20, 't 1000 t', [10, 10]],
    [20, 'r1000 15 t', [110]],
    [20, 'r1000 20 t', [10]],
    [20, 'r1000 100 r100 t', [30]],
    [20, 't -50 t', [10, 10]],
  ])('of %i percent: %s', (percent, steps, taken) => {
    expect(play(percent, steps)).toEqual(taken);
  });
});
