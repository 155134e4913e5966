/** The health of one member of an origin group: when it is ill, and when it may be asked. */

import { describe, expect, it } from 'vitest';
import { Health, type HealthRules } from '../../src/origin/group/health.ts';

/**
 * Plays steps: `+` and `-` are requests that succeed and fail, `?` one that is given up, `(` a request that begins and `)+`,
 * `)-` or `)?` its end; `p` and `f` are checks that pass and fail; a number is seconds that pass. `answers` has, after each
 * step, whether the origin may be asked: `y` or `n`. `changes` has `w` where it became well, and `i` where it became ill.
 */
function play(steps: string, rules: Partial<HealthRules>): { readonly answers: string; readonly changes: string } {
  let now = 0;
  let changes = '';
  const health = new Health(
    { failures: 3, restMs: 10_000, passes: undefined, ...rules },
    () => now,
    (isWell) => {
      changes += isWell ? 'w' : 'i';
    },
  );
  const outcomes = { '+': 'well', '-': 'failed', '?': 'unknown' } as const;
  let under: ReturnType<Health['begin']> | undefined;
  let answers = '';
  for (const [step = '', , ended] of steps.matchAll(/(\d+|[-+?pf(]|\)([-+?]))/g)) {
    if (/^\d/.test(step)) now += Number(step) * 1000;
    else if (step === 'p' || step === 'f') health.noteCheck(step === 'p', '');
    else if (step === '(') under = health.begin();
    else if (ended !== undefined) under?.(outcomes[ended as '+'], '');
    else health.begin()(outcomes[step as '+'], '');
    answers += health.mayAsk ? 'y' : 'n';
  }
  return { answers, changes };
}

it.each<[name: string, ms: number, checksFail: number, state: string]>([
  ['well', 0, 0, 'well'],
  ['well after too few failures', 0, 2, 'well'],
  ['resting after failures', 9_999, 3, 'resting'],
  ['ill once it has rested', 10_000, 3, 'ill'],
])('an origin is reported as %s', (_name, ms, count, state) => {
  let now = 0;
  const health = new Health(
    { failures: 3, restMs: 10_000, passes: undefined },
    () => now,
    () => {},
  );
  for (let failure = 0; failure < count; failure += 1) health.begin()('failed', '');
  now = ms;
  expect(health.state).toBe(state);
});

describe('an origin', () => {
  it.each<[name: string, steps: string, answers: string, changes: string, rules?: Partial<HealthRules>]>([
    ['that succeeds stays well', '++', 'yy', ''],
    ['is ill after failures in a row', '---', 'yyn', 'i'],
    ['is not ill after failures that are not in a row', '--+--+--', 'yyyyyyyy', ''],
    ['is not ill after requests that are given up', '--???', 'yyyyy', ''],
    ['is ill at the first failure if that is enough', '-', 'n', 'i', { failures: 1 }],
    ['rests', '--- 9', 'yynn', 'i'],
    ['may be probed after its rest', '--- 10', 'yyny', 'i'],
    ['is probed by one request at a time', '--- 10 ( (', 'yynynn', 'i'],
    ['is well when the probe succeeds', '--- 10 ( )+', 'yynyny', 'iw'],
    ['rests again when the probe fails, twice as long', '--- 10 ( )- 19 1', 'yynynnny', 'i'],
    ['may be probed again when the probe was given up', '--- 10 ( )?', 'yynyny', 'i'],
    ['rests ten times as long at most', '--- 10 - 20 - 40 - 80 - 99 1 - 99 1', 'yynynynynynnynny', 'i'],
    ['rests as briefly as at first once it was well', '--- 10 + --- 10', 'yynyyyyny', 'iwi'],
    ['is well again when it succeeds while it rests', '--- +', 'yyny', 'iw'],
    ['does not rest longer by failures while it rests', '--- --- 10', 'yynnnny', 'i'],
    ['is ill after checks that fail in a row', 'ff p fff', 'yyyyyn', 'i', { passes: 2 }],
    ['is ill by checks although requests succeed', 'f+f+f', 'yyyyn', 'i', { passes: 2 }],
    ['stays ill until checks pass in a row', 'fff p f p p', 'yynnnny', 'iw', { passes: 2 }],
    ['stays ill after its rest where checks are made', '--- 100', 'yynn', 'i', { passes: 2 }],
    ['stays ill where checks are made, though a request succeeds', 'fff +', 'yynn', 'i', { passes: 2 }],
    ['that failed requests is well again by checks', '--- pp', 'yynny', 'iw', { passes: 2 }],
  ])('%s', (_name, steps, answers, changes, rules = {}) => {
    expect(play(steps, rules)).toEqual({ answers, changes });
  });
});
