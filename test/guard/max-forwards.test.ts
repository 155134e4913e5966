import { describe, expect, it } from 'vitest';
import { answerAsLast, withOneForwardLess } from '../../src/guard/max-forwards.ts';

describe('Max-Forwards (RFC 9110 §7.6.2)', () => {
  it.each([
    ['OPTIONS', '0', undefined],
    ['OPTIONS', '1', '0'],
    ['OPTIONS', '10', '9'],
    ['OPTIONS', 'x', 'x'],
    ['OPTIONS', '-1', '-1'],
    ['OPTIONS', '1, 2', '1, 2'],
    ['GET', '0', '0'],
    ['POST', '5', '5'],
  ])('of %s %s: what the next one gets is %s', (method, value, next) => {
    const fields = [['max-forwards', value]] as const;
    const answer = answerAsLast({ method, fields });
    if (next === undefined) {
      expect(answer).toMatchObject({ status: 204, body: { kind: 'none' } });
      expect(answer?.fields).toContainEqual(['allow', expect.stringContaining('OPTIONS')]);
    } else {
      expect(answer).toBeUndefined();
      expect(withOneForwardLess(method, fields)).toEqual([['max-forwards', next]]);
    }
  });

  it('is nothing where it is not sent', () => {
    expect(answerAsLast({ method: 'OPTIONS', fields: [] })).toBeUndefined();
    expect(withOneForwardLess('OPTIONS', [])).toEqual([]);
  });
});
