import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import {
  type EntityTag,
  effectiveEntityTag,
  isStrongDate,
  parseEntityTag,
  parseEntityTagList,
  strongLastModified,
  strongMatch,
  weakMatch,
} from '../../src/semantics/validator.ts';

const strong = (opaque: string): EntityTag => ({ kind: 'strong', opaque });
const weak = (opaque: string): EntityTag => ({ kind: 'weak', opaque });

describe('parseEntityTag, RFC 9110 §8.8.3', () => {
  const rows: readonly (readonly [text: string, wanted: EntityTag | undefined])[] = [
    ['"xyzzy"', strong('xyzzy')],
    ['W/"xyzzy"', weak('xyzzy')],
    ['""', strong('')],
    ['W/""', weak('')],
    ['"a,b"', strong('a,b')],
    ['"a\\b"', strong('a\\b')],
    ['"W/"', strong('W/')],
    ['"\u00e9\u00ff\u0080"', strong('\u00e9\u00ff\u0080')],
    ['"!#$%&\'()*+-./:;<=>?@[]^_`{|}~"', strong("!#$%&'()*+-./:;<=>?@[]^_`{|}~")],
    ['w/"xyzzy"', undefined],
    ['W/ "xyzzy"', undefined],
    ['W"xyzzy"', undefined],
    ['xyzzy', undefined],
    ['"xyzzy', undefined],
    ['xyzzy"', undefined],
    ['"', undefined],
    ['W/', undefined],
    ['*', undefined],
    ['', undefined],
    ['"a b"', undefined],
    ['"a\tb"', undefined],
    ['"a\u007f"', undefined],
    ['"a\n"', undefined],
    ['"a""b"', undefined],
    ['"a", "b"', undefined],
    ['"a" ', undefined],
    [' "a"', undefined],
  ];
  it.each(rows)('%j', (text, wanted) => {
    expect(parseEntityTag(text)).toEqual(wanted);
  });
});

describe('parseEntityTagList, RFC 9110 §13.1.1', () => {
  const rows: readonly (readonly [text: string, wanted: '*' | readonly EntityTag[] | undefined])[] = [
    ['*', '*'],
    ['"a"', [strong('a')]],
    ['"a", W/"b"', [strong('a'), weak('b')]],
    ['"a","b"', [strong('a'), strong('b')]],
    ['"a" \t,\t "b"', [strong('a'), strong('b')]],
    ['"a,b", "c, d"', undefined],
    ['"a,b", "c,"', [strong('a,b'), strong('c,')]],
    ['"*"', [strong('*')]],
    ['"\u00e9"', [strong('\u00e9')]],
    ['', []],
    [', ,', []],
    [',,"a",,"b",', [strong('a'), strong('b')]],
    ['*, "a"', undefined],
    ['"a", *', undefined],
    ['a', undefined],
    ['"a", b', undefined],
    ['"a" "b"', undefined],
    ['"a""b"', undefined],
    ['"a";"b"', undefined],
    ['xy"a,","', undefined],
    ['"a", "b', undefined],
    ['W/, "a"', undefined],
    ['w/"a"', undefined],
  ];
  it.each(rows)('%j', (text, wanted) => {
    expect(parseEntityTagList(text)).toEqual(wanted);
  });

  const opaque = fc.string({ unit: fc.constantFrom('a', ',', '*', 'W', '/', '\\', '\u00e9', '!', '~') });
  const entityTag = fc.record({ kind: fc.constantFrom('strong' as const, 'weak' as const), opaque });
  const formatted = (tag: EntityTag): string => `${tag.kind === 'weak' ? 'W/' : ''}"${tag.opaque}"`;

  it('parses every formatted list of tags', () => {
    const separator = fc.constantFrom(',', ', ', ' ,\t', ',,', ' , ,');
    fc.assert(
      fc.property(fc.array(entityTag, { minLength: 1 }), separator, (tags, between) => {
        expect(parseEntityTagList(tags.map(formatted).join(between))).toEqual(tags);
      }),
    );
  });

  it('never throws, and agrees with parseEntityTag on one tag', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom('"', 'W', '/', ',', ' ', '\t', '*', 'a', '\u00e9') }),
    );
    fc.assert(
      fc.property(text, (value) => {
        const tag = parseEntityTag(value);
        const list = parseEntityTagList(value);
        if (tag !== undefined) expect(list).toEqual([tag]);
        if (list !== undefined && list !== '*')
          expect(parseEntityTagList(list.map(formatted).join(', '))).toEqual(list);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('strongMatch and weakMatch, RFC 9110 §8.8.3.2', () => {
  const rows: readonly (readonly [a: EntityTag, b: EntityTag, isStrongMatch: boolean, isWeakMatch: boolean])[] = [
    [weak('1'), weak('1'), false, true],
    [weak('1'), weak('2'), false, false],
    [weak('1'), strong('1'), false, true],
    [strong('1'), weak('1'), false, true],
    [strong('1'), strong('1'), true, true],
    [strong('1'), strong('2'), false, false],
    [strong('a'), strong('A'), false, false],
    [strong(''), strong(''), true, true],
  ];
  it.each(rows)('%j and %j', (a, b, isStrongMatch, isWeakMatch) => {
    expect([strongMatch(a, b), weakMatch(a, b)]).toEqual([isStrongMatch, isWeakMatch]);
  });
});

describe('effectiveEntityTag', () => {
  const rows: readonly (readonly [fields: Fields, ownEntityTag: string | undefined, wanted: string | undefined])[] = [
    [[['etag', '"theirs"']], undefined, '"theirs"'],
    [[['etag', 'W/"theirs"']], '"own"', '"own"'],
    [[['etag', 'unquoted']], undefined, 'unquoted'],
    [[['content-type', 'text/plain']], '"own"', '"own"'],
    [[], undefined, undefined],
  ];
  it.each(rows)('%j with own %j', (fields, own, wanted) => {
    const response = { fields, responseAt: 0, ...(own === undefined ? {} : { ownEntityTag: own }) };
    expect(effectiveEntityTag(response)).toBe(wanted);
  });
});

describe('isStrongDate, RFC 9110 §8.8.2.2', () => {
  it.each([
    [-1_000, false],
    [0, false],
    [999, false],
    [1_000, true],
    [60_000, true],
  ])('a Date %i ms after Last-Modified', (laterMs, wanted) => {
    expect(isStrongDate(5_000_000, 5_000_000 + laterMs)).toBe(wanted);
  });
});

describe('strongLastModified', () => {
  const modified = 'Sun, 06 Nov 1994 08:49:37 GMT';
  const modifiedAt = Date.UTC(1994, 10, 6, 8, 49, 37);
  const rows: readonly (readonly [fields: Fields, receivedAfterMs: number, isStrong: boolean])[] = [
    [
      [
        ['last-modified', modified],
        ['date', 'Sun, 06 Nov 1994 08:49:37 GMT'],
      ],
      99_000,
      false,
    ],
    [
      [
        ['last-modified', modified],
        ['date', 'Sun, 06 Nov 1994 08:49:38 GMT'],
      ],
      0,
      true,
    ],
    [
      [
        ['last-modified', modified],
        ['date', 'Sun, 06 Nov 1994 08:49:36 GMT'],
      ],
      99_000,
      false,
    ],
    [
      [
        ['last-modified', 'Sunday, 06-Nov-94 08:49:37 GMT'],
        ['date', 'Sun Nov  6 08:49:38 1994'],
      ],
      0,
      true,
    ],
    // Without a valid Date the time of receipt counts.
    [[['last-modified', modified]], 999, false],
    [[['last-modified', modified]], 1_000, true],
    [
      [
        ['last-modified', modified],
        ['date', 'yesterday'],
      ],
      1_000,
      true,
    ],
    // Without a valid Last-Modified there is no validator.
    [[['date', modified]], 99_000, false],
    [
      [
        ['last-modified', 'yesterday'],
        ['date', modified],
      ],
      99_000,
      false,
    ],
    [
      [
        ['last-modified', modified],
        ['last-modified', modified],
        ['date', 'Sun, 06 Nov 1995 08:49:37 GMT'],
      ],
      0,
      false,
    ],
  ];
  it.each(rows)('%j received after %i ms', (fields, receivedAfterMs, isStrong) => {
    const responseAt = modifiedAt + receivedAfterMs;
    expect(strongLastModified({ fields, responseAt }, responseAt)).toBe(isStrong ? modifiedAt : undefined);
  });
});
