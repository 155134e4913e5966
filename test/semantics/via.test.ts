import { describe, expect, it } from 'vitest';
import { formatVia, isLoop, withVia } from '../../src/semantics/message-forwarding.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('withVia, RFC 9110 §7.6.3', () => {
  it('appends a member after all others', () => {
    expect(withVia(fieldsOf('Via: 1.0 fred', 'X: 1'), '1.1', 'rangeway')).toEqual(
      fieldsOf('Via: 1.0 fred', 'X: 1', 'Via: 1.1 rangeway'),
    );
  });

  it.each(['1.0', '1.1', '2'])('adds a member of version %s that isLoop finds', (version) => {
    expect(formatVia(version, 'rangeway')).toBe(`${version} rangeway`);
    expect(isLoop(withVia([], version, 'rangeway'), 'rangeway')).toBe(true);
  });
});

describe('isLoop, RFC 9110 §7.6.3', () => {
  const rows: readonly (readonly [lines: readonly string[], isOwn: boolean])[] = [
    [[], false],
    [['Via:'], false],
    [['Via: 1.1 fred'], false],
    [['Via: 1.1 rangeway'], true],
    [['Via: 1.0 fred, 1.1 rangeway, 1.1 p.example.net'], true],
    [['Via: 1.0 fred', 'Via: 1.1 rangeway'], true],
    [['Via: HTTP/1.1 RangeWay'], true],
    [['Via: 2  \trangeway'], true],
    [['Via: 1.1 rangeway (Rangeway/1.0)'], true],
    [['Via: 1.1 rangeway(comment)'], true],
    [['Via: 1.0 fred (a, b (c, d), \\), e), 1.1 rangeway'], true],
    // Names that only contain the own name, and the own name in other places.
    [['Via: 1.1 rangeway2'], false],
    [['Via: 1.1 my-rangeway'], false],
    [['Via: 1.1 rangeway:8080'], false],
    [['Via: rangeway 1.1'], false],
    [['Via: rangeway'], false],
    [['Via: 1.1 fred (1.1 rangeway)'], false],
    [['Via: 1.1 fred (a, 1.1 rangeway)'], false],
    [['Via: 1.1 fred (\\), 1.1 rangeway)'], false],
    [['X-Via: 1.1 rangeway'], false],
    // An unclosed comment hides no member.
    [['Via: 1.1 fred (, 1.1 rangeway'], true],
    [['Via: 1.1 fred ((a), 1.1 rangeway'], true],
    [['Via: 1.1 fred (a), 1.1 rangeway, 1.1 joe (b'], true],
    [['Via: 1.1 fred ), 1.1 rangeway'], true],
    [['Via: (', 'Via: 1.1 rangeway', 'Via: )'], true],
  ];
  it.each(rows)('%j: %s', (lines, isOwn) => {
    expect(isLoop(fieldsOf(...lines), 'rangeway')).toBe(isOwn);
  });

  it('compares the pseudonym without regard to case', () => {
    expect(isLoop(fieldsOf('Via: 1.1 edge-a'), 'Edge-A')).toBe(true);
  });
});
