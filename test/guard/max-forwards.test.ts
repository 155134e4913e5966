import { describe, expect, it } from 'vitest';
import { answerUnforwarded, withDecrementedMaxForwards } from '../../src/guard/fields/forwarding.ts';

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
  ])('of %s %s: the next server gets %s', (method, value, next) => {
    const fields = [['max-forwards', value]] as const;
    const answer = answerUnforwarded({ method, target: '/', fields });
    if (next === undefined) {
      expect(answer).toMatchObject({ status: 204, body: { kind: 'none' } });
      expect(answer?.fields).toContainEqual(['allow', expect.stringContaining('OPTIONS')]);
    } else {
      expect(answer).toBeUndefined();
      expect(withDecrementedMaxForwards(method, fields)).toEqual([['max-forwards', next]]);
    }
  });

  it.each([undefined, '0', '1', 'x'])('of OPTIONS *: %s, the first server answers (§9.3.7)', (value) => {
    const fields = value === undefined ? [] : ([['max-forwards', value]] as const);
    expect(answerUnforwarded({ method: 'OPTIONS', target: '*', fields })).toMatchObject({ status: 204 });
  });

  it('is not added where it is absent', () => {
    expect(answerUnforwarded({ method: 'OPTIONS', target: '/', fields: [] })).toBeUndefined();
    expect(withDecrementedMaxForwards('OPTIONS', [])).toEqual([]);
  });
});
