import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findJsonFault, parseConfigText } from '../../src/config/load.ts';

describe('findJsonFault', () => {
  it.each<[text: string, line: number, column: number, message: string]>([
    ['', 1, 1, 'the text ends too early'],
    ['{', 1, 2, 'the text ends too early'],
    ['[,1]', 1, 2, 'expected a value'],
    ['[,]', 1, 2, 'expected a value'],
    ['[1,,]', 1, 4, 'expected a value'],
    ['{\n  "a": 1,,\n}', 2, 10, 'expected a name in double quotes'],
    ['{"a": 1},', 1, 9, 'expected nothing more'],
    ['{\r\n  "a": 1\r\n  "b": 2 }', 3, 3, 'expected "," or "}"'],
    ['{"a" 1}', 1, 6, 'expected ":"'],
    ['{a: 1}', 1, 2, 'expected a name in double quotes'],
    ["{'a': 1}", 1, 2, 'expected a name in double quotes'],
    ['// listen\n{ a }', 2, 3, 'expected a name in double quotes'],
    ['{ /* a\n */ "b" }', 2, 9, 'expected ":"'],
    ['{ "a": 1, // "b"\n "a": 2 }', 2, 2, '"a" is given twice'],
    ['{ /* a */ /* b }', 1, 11, 'the comment does not end: expected "*/"'],
    ['{} // a\n/', 2, 1, 'expected nothing more'],
    ['{ # a\n }', 1, 3, 'expected a name in double quotes'],
    ['// {}', 1, 6, 'the text ends too early'],
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
          // A comma before a closing bracket is none, in places where it is not in a text.
          const hasExtra = fault === undefined && !isJson(text) && /,\s*[\]}]/.test(text);
          expect(fault === undefined).toBe(isJson(text) || hasExtra);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe('comments, and commas before closing brackets', () => {
  it.each<[text: string, want: unknown]>([
    ['// first\n{ "a": 1 } // last', { a: 1 }],
    ['// a\r\n{\r\n  "a": 1, // b\r\n  // "c": 2,\r\n}\r\n', { a: 1 }],
    ['/* a\n * b */[/**/1/* 2, */,/***/3/* // */]/* */', [1, 3]],
    ['{"a"/**/:/**/"b"/**/}', { a: 'b' }],
    ['[1,]', [1]],
    ['{\n  "a": [1, 2,] // c\n  , }', { a: [1, 2] }],
    ['{ "a": 1, /* b, */ }', { a: 1 }],
    ['{ "a": "// not", "b": "/* this */", "c": "x,]" }', { a: '// not', b: '/* this */', c: 'x,]' }],
    ['{ "__proto__": 1, }', JSON.parse('{ "__proto__": 1 }')],
    ['1//', 1],
  ])('%j', (text, want) => expect(parseConfigText(text)).toEqual({ kind: 'ok', value: want }));

  it('in any place between the tokens change nothing', () => {
    const extra = fc.constantFrom('', ' ', '\n', '// "a": [\n', '//\r\n', '/* } */', '/**/', '/* // "\n*/');
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.infiniteStream(extra), fc.boolean(), (value, extras, hasComma) => {
        const json = JSON.stringify(value);
        const tokens = json.match(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^[\]{}:,"]+/g) ?? [];
        const text = tokens
          .map((token, at) => {
            const isEnd = /^[\]}]$/.test(token) && !/^[[{]$/.test(tokens[at - 1] ?? '');
            return `${extras.next().value}${isEnd && hasComma ? ',' : ''}${extras.next().value}${token}`;
          })
          .join('');
        expect(parseConfigText(`${text}${extras.next().value}`)).toEqual({ kind: 'ok', value: JSON.parse(json) });
      }),
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
