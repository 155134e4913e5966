/** The conditions under which a request bypasses the cache. */

import { describe, expect, it } from 'vitest';
import { type BypassConditions, meetsBypass } from '../../src/semantics/bypass.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const none: BypassConditions = { fields: [], cookies: [], queryParameters: [] };

describe('meetsBypass', () => {
  it.each<[conditions: Partial<BypassConditions>, target: string, lines: readonly string[], want: boolean]>([
    [{}, '/?a=1', ['Cookie: a=1', 'A: 1'], false],
    [{ fields: ['a', 'b'] }, '/', ['B: 0'], true],
    [{ fields: ['a', 'b'] }, '/', ['B:'], true],
    [{ fields: ['a'] }, '/?a', ['B: a', 'Cookie: a=1'], false],
    [{ cookies: ['a', 'b'] }, '/', ['Cookie: x=1; b=2'], true],
    [{ cookies: ['a'] }, '/', ['Cookie: a'], true],
    [{ cookies: ['a'] }, '/', ['Cookie: a='], true],
    [{ cookies: ['a'] }, '/', ['Cookie: A=1; b=a; aa=1'], false],
    [{ cookies: ['a'] }, '/?a', ['A: a'], false],
    [{ cookies: ['logged_in_*'] }, '/', ['Cookie: logged_in_7f3=1'], true],
    [{ cookies: ['logged_in_*'] }, '/', ['Cookie: logged_in=1'], false],
    [{ queryParameters: ['a', 'b'] }, '/x?b', [], true],
    [{ queryParameters: ['a'] }, '/a', [], false],
    [{ queryParameters: ['a'] }, '/a?b', ['A: 1', 'Cookie: a=1'], false],
    [{ queryParameters: ['a'] }, '/?b?a', [], false],
    [{ fields: ['x'], cookies: ['x'], queryParameters: ['a'] }, '/?a', [], true],
  ])('%j: %s %j', (conditions, target, lines, want) => {
    expect(meetsBypass({ target, fields: fieldsOf(...lines) }, { ...none, ...conditions })).toBe(want);
  });
});
