import { describe, expect, it } from 'vitest';
import { addScores, type Expectations, findDifferences, formatScore, scoreOf, type Verdict } from './verdicts.ts';

const verdict = (id: string, passed: boolean, kind: Verdict['kind'] = 'required'): Verdict => ({
  id,
  kind,
  passed,
  detail: passed ? '' : 'why',
});
const listed = (kind: Verdict['kind'] = 'required') => ({ kind, reason: 'RFC' });

describe('the differences from the expectations', () => {
  it.each<[string, Verdict[], Expectations, string[]]>([
    ['only successes', [verdict('a', true)], {}, []],
    ['a failure that is listed', [verdict('a', false)], { a: listed() }, []],
    ['a failure that is not listed', [verdict('a', false)], {}, ['required a failed: why']],
    [
      'a success that is listed',
      [verdict('a', true)],
      { a: listed() },
      ['required a is listed, and was passed: take it from the list'],
    ],
    ['a listed test that does not exist', [], { a: listed() }, ['a is listed, and there is no such test']],
    [
      'a listed test of another kind',
      [verdict('a', false)],
      { a: listed('optimal') },
      ['a is listed as optimal, and is required'],
    ],
    [
      'a failure with the name of a method of Object',
      [verdict('toString', false)],
      {},
      ['required toString failed: why'],
    ],
  ])('%s', (_name, verdicts, expectations, differences) => {
    expect(findDifferences(verdicts, expectations)).toEqual(differences);
  });
});

describe('the score', () => {
  it('counts each kind', () => {
    const score = scoreOf([verdict('a', true), verdict('b', false), verdict('c', true, 'optimal')]);
    expect(formatScore(score)).toBe('required 1/2, optimal 1/1');
    expect(formatScore(addScores(score, score))).toBe('required 2/4, optimal 2/2');
  });
});
