/** The lenient parser of a request's cookies. */

import { describe, expect, it } from 'vitest';
import { parseCookies } from '../../src/semantics/cookies.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('parseCookies', () => {
  it.each<[lines: readonly string[], ...want: (readonly [name: string, pair: string])[]]>([
    [[]],
    [['Cookie:']],
    [['Cookie: ; ;']],
    [['Cookie: a=1'], ['a', 'a=1']],
    [['Cookie: a=1; b=2'], ['a', 'a=1'], ['b', 'b=2']],
    [['Cookie: a=1;b=2;'], ['a', 'a=1'], ['b', 'b=2']],
    [
      ['Cookie: a=1', 'X: c=3', 'Cookie: b=2'],
      ['a', 'a=1'],
      ['b', 'b=2'],
    ],
    [['Cookie: a=1; a=2'], ['a', 'a=1'], ['a', 'a=2']],
    [['Cookie:  a = 1 2 ;\tb=\t'], ['a', 'a=1 2'], ['b', 'b=']],
    [['Cookie: a=b=c'], ['a', 'a=b=c']],
    [['Cookie: a'], ['a', 'a']],
    [['Cookie: =1'], ['', '=1']],
    [['Cookie: A=1, b=2'], ['A', 'A=1, b=2']],
    [['Cookie: a="x;b=2"'], ['a', 'a="x'], ['b', 'b=2"']],
    [['Cookie2: a=1']],
  ])('%j', (lines, ...want) => {
    expect(parseCookies(fieldsOf(...lines)).map(({ name, pair }) => [name, pair])).toEqual(want);
  });
});
