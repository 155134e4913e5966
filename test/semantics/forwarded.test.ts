import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type ForwardedElement,
  formatForwarded,
  isHiddenNode,
  nodeName,
  parseForwarded,
} from '../../src/semantics/message-forwarding.ts';

describe('parseForwarded, RFC 7239 §4', () => {
  const rows: readonly (readonly [lines: readonly string[], elements: readonly ForwardedElement[] | undefined])[] = [
    [[], []],
    [[''], []],
    [['for=192.0.2.1'], [{ for: '192.0.2.1' }]],
    [['For="[2001:db8:cafe::17]:4711"'], [{ for: '[2001:db8:cafe::17]:4711' }]],
    [['for=192.0.2.60;proto=http;by=203.0.113.43;host=a.test'], [{ for: '192.0.2.60', proto: 'http', host: 'a.test' }]],
    [['for=192.0.2.43, for=198.51.100.17'], [{ for: '192.0.2.43' }, { for: '198.51.100.17' }]],
    [
      ['for=192.0.2.43', 'for=198.51.100.17'],
      [{ for: '192.0.2.43' }, { for: '198.51.100.17' }],
    ],
    [['for=_gazonk,for=unknown'], [{ for: '_gazonk' }, { for: 'unknown' }]],
    [['PROTO=https;FOR=a'], [{ for: 'a', proto: 'https' }]],
    [['secret=x;for=a'], [{ for: 'a' }]],
    [['secret=x'], [{}]],
    [['host="a.test:8080"'], [{ host: 'a.test:8080' }]],
    [['host="a\\"b\\\\c"'], [{ host: 'a"b\\c' }]],
    [['host="a, for=b;proto=c"'], [{ host: 'a, for=b;proto=c' }]],
    [['host=""'], [{ host: '' }]],
    // Empty elements and pairs are ignored (RFC 9110 §5.6.1.2).
    [[', ,for=a,,'], [{ for: 'a' }]],
    [[';for=a;;proto=http;'], [{ for: 'a', proto: 'http' }]],
    // Forms that proxies send although the grammar does not allow them.
    [['for=2001:db8::1'], [{ for: '2001:db8::1' }]],
    [['for=[2001:db8::1]:80'], [{ for: '[2001:db8::1]:80' }]],
    [['for=192.0.2.1:80 ; proto=http\t,\tfor=b'], [{ for: '192.0.2.1:80', proto: 'http' }, { for: 'b' }]],
    // A malformed field is refused as a whole.
    [['for'], undefined],
    [['for='], undefined],
    [['=a'], undefined],
    [['for =a'], undefined],
    [['for= a'], undefined],
    [['for=a b'], undefined],
    [['for=a/b'], undefined],
    [['for="a'], undefined],
    [['for=a"'], undefined],
    [['for="a"b'], undefined],
    [['for="a\\'], undefined],
    [['for="a\u0001"'], undefined],
    [['for=a;for=b'], undefined],
    [['for=a;FOR=a'], undefined],
    [['for="a, for=b'], undefined],
    [['for=a', 'for="b'], undefined],
    // A quote that is open at the end of a line is not closed by the next line.
    [['for="_x', 'for="[::1]"'], undefined],
  ];
  it.each(rows)('%j', (lines, elements) => expect(parseForwarded(lines)).toEqual(elements));

  it('takes linear time', () => {
    const value = `for=a${' '.repeat(2_000_000)}b`;
    // Quadratic time would be minutes, longer than a test may take.
    expect(parseForwarded([value])).toBeUndefined();
  });

  it('never throws, and parses the output of formatForwarded', () => {
    const text = fc.string({ unit: fc.constantFrom(...'abc.[]:;,="\\ \t_1') });
    fc.assert(fc.property(fc.array(text), (lines) => void parseForwarded(lines)));
    const element = fc.record({
      for: fc.constantFrom('192.0.2.1', '2001:db8::1', 'unknown', '_x'),
      host: fc.option(text, { nil: undefined }),
      proto: fc.option(fc.constantFrom('http', 'https'), { nil: undefined }),
    });
    fc.assert(
      fc.property(fc.array(element), (elements) => {
        const read = parseForwarded([elements.map(formatForwarded).join(', ')]);
        const names = read?.map((each) => ({ ...each, for: nodeName(each.for ?? '') }));
        expect(names).toEqual(elements);
      }),
    );
  });
});

describe('formatForwarded, RFC 7239 §4, §6', () => {
  it.each<[ForwardedElement, string]>([
    [{ for: '192.0.2.1' }, 'for=192.0.2.1'],
    [{ for: '2001:db8::1' }, 'for="[2001:db8::1]"'],
    [{ for: 'unknown' }, 'for=unknown'],
    [{ for: '_x', host: 'a.test', proto: 'https' }, 'for=_x;host=a.test;proto=https'],
    [{ for: '192.0.2.1', host: 'a.test:8080', proto: 'http' }, 'for=192.0.2.1;host="a.test:8080";proto=http'],
    [{ for: '192.0.2.1', host: '[::1]' }, 'for=192.0.2.1;host="[::1]"'],
  ])('%j', (element, want) => expect(formatForwarded(element)).toBe(want));
});

describe('nodeName, RFC 7239 §6', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:8080', '192.0.2.1'],
    ['192.0.2.1:_port', '192.0.2.1'],
    ['[2001:DB8::1]', '2001:db8::1'],
    ['[2001:db8::1]:8080', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
    [' 192.0.2.1\t', '192.0.2.1'],
    ['unknown', 'unknown'],
    ['UNKNOWN', 'unknown'],
    ['unknown:80', 'unknown'],
    ['_hidden', '_hidden'],
    ['_hidden:_port', '_hidden'],
    ['192.0.2.1:123456', '192.0.2.1:123456'],
    ['[2001:db8::1', '[2001:db8::1'],
    ['', ''],
  ])('%j has the name %j', (node, name) => expect(nodeName(node)).toBe(name));

  it.each([
    ['unknown', true],
    ['_hidden', true],
    ['_', false],
    ['_a b', false],
    ['192.0.2.1', false],
    ['hidden', false],
  ])('%j is hidden: %s', (name, want) => expect(isHiddenNode(name)).toBe(want));
});
