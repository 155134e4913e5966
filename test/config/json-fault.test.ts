import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findJsonFault } from '../../src/config/load.ts';

describe('findJsonFault', () => {
  it.each<[text: string, line: number, column: number, message: string]>([
    ['', 1, 1, 'the text ends too early'],
    ['{', 1, 2, 'the text ends too early'],
    ['{\n  "a": 1,\n}', 3, 1, 'no comma may stand before "}"'],
    ['[1,]', 1, 4, 'no comma may stand before "]"'],
    ['[,1]', 1, 2, 'expected a value'],
    ['{\r\n  "a": 1\r\n  "b": 2 }', 3, 3, 'expected "," or "}"'],
    ['{"a" 1}', 1, 6, 'expected ":"'],
    ['{a: 1}', 1, 2, 'expected a name in double quotes'],
    ["{'a': 1}", 1, 2, 'expected a name in double quotes'],
    ['// listen\n{}', 1, 1, 'comments are not part of JSON'],
    ['{ /* a */ }', 1, 3, 'comments are not part of JSON'],
    ['{"a": 01}', 1, 8, 'expected "," or "}"'],
    ['{"a": yes}', 1, 7, 'expected a value'],
    ['nullx', 1, 1, 'expected a value'],
    ['{} {}', 1, 4, 'expected nothing more'],
    ['{"a": "C:\\dir"}', 1, 7, 'expected text that ends on this line, with every "\\" and control character escaped'],
    ['{"a": "x\n"}', 1, 7, 'expected text that ends on this line, with every "\\" and control character escaped'],
    ['{"a": 1, "b": {"a": 1}, "\\u0061": 2}', 1, 25, '"a" is given twice'],
    ['[{"a": 1}, {"a": 1}, {"a": 1,\n"a": 1}]', 2, 1, '"a" is given twice'],
    [`${'['.repeat(102)}${']'.repeat(102)}`, 1, 102, 'nested too deeply'],
  ])('%j', (text, line, column, message) => expect(findJsonFault(text)).toEqual({ line, column, message }));

  it('finds no fault in the output of JSON.stringify', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(undefined, 2, '\t'), (value, indent) => {
        expect(findJsonFault(JSON.stringify(value, undefined, indent))).toBeUndefined();
      }),
    );
  });

  it('finds a fault exactly where JSON.parse throws, apart from repeated names', () => {
    const piece = fc.constantFrom(
      ...'{}[]:,"\\- \n\t01e.+ax',
      'true',
      'null',
      '"a"',
      '"b":',
      '\\u0041',
      '\u0000',
      '\u00a0',
    );
    const mangled = fc
      .tuple(fc.json({ maxDepth: 3 }), fc.nat(), fc.nat(3), piece)
      .map(
        ([json, at, cut, put]) =>
          json.slice(0, at % (json.length + 1)) + put + json.slice((at % (json.length + 1)) + cut),
      );
    fc.assert(
      fc.property(
        fc.oneof(
          mangled,
          fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join('')),
        ),
        (text) => {
          const fault = findJsonFault(text);
          if (fault?.message.endsWith('is given twice')) return;
          expect(fault === undefined).toBe(isJson(text));
        },
      ),
      { numRuns: 2000 },
    );
  });
});

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
