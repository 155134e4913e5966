import { describe, expect, it } from 'vitest';
import { isCdnLoop, isLoop, withCdnLoop } from '../../src/semantics/message-forwarding.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('withCdnLoop, RFC 8586 §2', () => {
  it('appends a member after all others', () => {
    expect(withCdnLoop(fieldsOf('CDN-Loop: foo.cdn; a=1', 'X: 1'), 'rangeway')).toEqual(
      fieldsOf('CDN-Loop: foo.cdn; a=1', 'X: 1', 'CDN-Loop: rangeway'),
    );
  });
});

describe('isCdnLoop, RFC 8586 §2', () => {
  const rows: readonly (readonly [lines: readonly string[], isOwn: boolean])[] = [
    [[], false],
    [['CDN-Loop:'], false],
    [['CDN-Loop: ,,'], false],
    [['CDN-Loop: foo.cdn'], false],
    [['CDN-Loop: rangeway'], true],
    [['CDN-Loop: RangeWay'], true],
    [['CDN-Loop: foo.cdn, rangeway, bar.cdn:8080'], true],
    [['CDN-Loop: foo.cdn', 'CDN-Loop: rangeway'], true],
    [['CDN-Loop: foo.cdn,rangeway;v=1'], true],
    [['CDN-Loop: foo.cdn ,\trangeway \t; trace="a,b"; x'], true],
    // Names that only contain the own name, and the own name in other places.
    [['CDN-Loop: rangeway.example'], false],
    [['CDN-Loop: rangeway2'], false],
    [['CDN-Loop: rangeway:80'], false],
    [['CDN-Loop: my-rangeway'], false],
    [['CDN-Loop: foo.cdn; by=rangeway'], false],
    [['X-CDN-Loop: rangeway'], false],
    // A malformed member hides no other.
    [['CDN-Loop: foo.cdn; a=", rangeway'], true],
    [['CDN-Loop: ", rangeway, other; b="q"'], true],
    [['CDN-Loop: ;;;,rangeway;;'], true],
    [['CDN-Loop: foo.cdn; a="\\", rangeway, "'], true],
    [['CDN-Loop: "', 'CDN-Loop: rangeway', 'CDN-Loop: "'], true],
  ];
  it.each(rows)('%j: %s', (lines, isOwn) => {
    expect(isCdnLoop(fieldsOf(...lines), 'rangeway')).toBe(isOwn);
    expect(isLoop(fieldsOf(...lines), 'Rangeway')).toBe(isOwn);
  });
});
