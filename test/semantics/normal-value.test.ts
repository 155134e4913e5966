import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normalValue } from '../../src/semantics/vary.ts';

describe('normalValue, RFC 9111 §4.1', () => {
  const rows: readonly (readonly [name: string, value: string, form: string])[] = [
    // Case, white space, empty members, repetitions.
    ['accept-language', 'en', 'en'],
    ['accept-language', 'de-CH', 'de-ch'],
    ['accept-language', ' en ,\t de ', 'de,en'],
    ['accept-language', 'eN, De', 'de,en'],
    ['accept-language', ',en,,de,', 'de,en'],
    ['accept-language', 'en, de, EN', 'de,en'],
    ['accept-language', '', ''],
    ['accept-language', ' , ', ''],
    ['accept-charset', 'UTF-8, *;q=0.5', '*;q=0.5,utf-8'],
    // Order and weights.
    ['accept-language', 'de, en', 'de,en'],
    ['accept-language', 'en;q=1.0, de;q=1', 'de,en'],
    ['accept-language', 'en;q=1.000, de;q=1.', 'de,en'],
    ['accept-language', 'fr;q=0.5, de;q=1.0', 'de,fr;q=0.5'],
    ['accept-language', 'fr ; Q=0.50, de', 'de,fr;q=0.5'],
    ['accept-language', 'a;q=0.25, b;q=0.3, c;q=0.001, d;q=0.000, *;q=0', '*;q=0,a;q=0.25,b;q=0.3,c;q=0.001,d;q=0'],
    ['accept-language', 'en;q=0.8, en;q=0.5', 'en;q=0.5,en;q=0.8'],
    ['accept-language', 'en;q=0.5, en;q=0.50', 'en;q=0.5'],
    // Codings.
    ['accept-encoding', 'gzip', 'gzip'],
    ['accept-encoding', 'gzip, deflate, br, zstd', 'br,deflate,gzip,zstd'],
    ['accept-encoding', 'GZip ,\tbr ; Q=1.0,', 'br,gzip'],
    ['accept-encoding', 'x-gzip', 'gzip'],
    ['accept-encoding', 'X-GZIP;q=0.5, gzip;q=0.5', 'gzip;q=0.5'],
    ['accept-encoding', 'x-compress, identity;q=0', 'compress,identity;q=0'],
    ['accept-encoding', 'identity', 'identity'],
    ['accept-encoding', '', ''],
    ['accept-language', 'x-gzip', 'x-gzip'],
    // A value outside the grammar changes only in the white space around commas.
    ['accept-language', 'en ;q=2, De', 'en ;q=2,De'],
    ['accept-language', 'en;q=0.1234, De', 'en;q=0.1234,De'],
    ['accept-language', 'en;level=1, De', 'en;level=1,De'],
    ['accept-language', 'en de, De', 'en de,De'],
    ['accept-language', '"en", De', '"en",De'],
    ['accept-encoding', 'gzip;q = 1, BR', 'gzip;q = 1,BR'],
    ['accept-encoding', 'x-gzip;;, BR', 'x-gzip;;,BR'],
    // Media ranges keep their order, and the case of parameter values.
    ['accept', '*/*', '*/*'],
    ['accept', 'Text/HTML, application/*;Q=0.80 , image/webp', 'text/html,application/*;q=0.8,image/webp'],
    ['accept', 'text/plain , text/html', 'text/plain,text/html'],
    ['accept', 'text/html, text/plain', 'text/html,text/plain'],
    ['accept', 'text/html ; Level=A ;q=1.0', 'text/html;level=A'],
    ['accept', 'text/html;q=1;level=1', 'text/html;q=1;level=1'],
    ['accept', 'text/html;q=5', 'text/html;q=5'],
    ['accept', 'text/html;q=1;q=1', 'text/html;q=1;q=1'],
    ['accept', ',text/html,,', 'text/html'],
    ['accept', '', ''],
    ['accept', 'Text/HTML;x="A, b" , B/c', 'Text/HTML;x="A, b",B/c'],
    ['accept', 'TEXT , a/b', 'TEXT,a/b'],
    ['accept', 'A/b;x , a/b', 'A/b;x,a/b'],
    // Other fields change only in the white space around commas.
    ['foo', '1,2', '1,2'],
    ['foo', ' 1, 2 ', '1,2'],
    ['foo', '1 ,\t 2', '1,2'],
    ['foo', 'A b,b', 'A b,b'],
    ['foo', '2, 1', '2,1'],
    ['foo', '1,, 2', '1,,2'],
    ['foo', '"1, 2" , "3 ,4"', '"1, 2","3 ,4"'],
    ['foo', '"a\\", b" , c', '"a\\", b",c'],
    ['foo', 'a\\, b', 'a\\,b'],
    ['foo', 'a , "never , closed', 'a,"never , closed'],
    ['sec-ch-ua', '"A B";v="1", "C";v="2"', '"A B";v="1","C";v="2"'],
    // In these fields a comma does not separate members.
    ['user-agent', 'A (b, C)', 'A (b, C)'],
    ['cookie', 'a=1, 2; b=3', 'a=1, 2; b=3'],
    ['referer', 'https://a/b, c', 'https://a/b, c'],
  ];
  it.each(rows)('%s: %s', (name, value, form) => {
    expect(normalValue(name, value)).toBe(form);
    // The second call may be answered from a memo.
    expect(normalValue(name, value)).toBe(form);
  });
});

const names = ['accept', 'accept-charset', 'accept-encoding', 'accept-language', 'cookie', 'foo'];
const weighted = ['accept-charset', 'accept-encoding', 'accept-language'];

describe('normalValue, any value', () => {
  const parts = [
    'en',
    'De',
    'x-gzip',
    'text/html',
    '*',
    ',',
    ', ',
    ' ',
    '\t',
    ';',
    'q=',
    '0.5',
    '1.0',
    '1',
    '"',
    '\\',
    '=',
  ];
  const near = fc.array(fc.constantFrom(...parts), { maxLength: 12 }).map((texts) => texts.join(''));
  const value = fc.oneof(near, fc.string({ unit: 'binary' }));

  it('returns a value whose normal value is itself', () => {
    fc.assert(
      fc.property(fc.constantFrom(...names), value, (name, text) => {
        const form = normalValue(name, text);
        expect(normalValue(name, form)).toBe(form);
      }),
      { numRuns: 5000 },
    );
  });

  it('does not depend on white space around commas', () => {
    const plain = fc.constantFrom('en', 'De;q=0.5', 'text/html', 'a b', '!', '', 'x;y', '"c,  d"', '"\\", "');
    const space = fc.constantFrom('', ' ', '\t', '  ');
    fc.assert(
      fc.property(
        fc.constantFrom('accept', 'foo', ...weighted),
        fc.array(fc.tuple(space, plain, space), { minLength: 1, maxLength: 5 }),
        (name, members) => {
          const spaced = members.map((texts) => texts.join('')).join(',');
          const tight = members.map(([, text]) => text).join(',');
          expect(normalValue(name, spaced)).toBe(normalValue(name, tight));
        },
      ),
      { numRuns: 1000 },
    );
  });
});

/** A member of a client's preferences. The weight is in thousandths. */
interface Preference {
  readonly range: string;
  readonly thousandths: number;
}

/** Returns all spellings of a weight. */
function weightTexts(thousandths: number): string[] {
  const shortest = String(thousandths / 1000);
  const padded = (thousandths / 1000).toFixed(3);
  const texts = [shortest, padded, ...(thousandths % 100 === 0 ? [(thousandths / 1000).toFixed(1)] : [])];
  const weights = texts.map((text) => `q=${text}`);
  return thousandths === 1000 ? ['', ...weights] : weights;
}

/** Writes preferences in one of many equivalent spellings. */
function spellingOf(preferences: readonly Preference[], pick: (count: number) => number): string {
  const choose = <T>(options: readonly T[]): T => options[pick(options.length)] as T;
  const members = preferences.flatMap(({ range, thousandths }) => {
    const weight = choose(weightTexts(thousandths));
    const cased = choose([range, range.toUpperCase()]);
    const suffix = weight === '' ? '' : choose([';', ' ;', '; ', '\t;  ']) + choose([weight, weight.toUpperCase()]);
    const member = cased + suffix;
    return choose([[member], [member], [member, ''], [member, member]]);
  });
  const shuffled = [...members].sort(() => pick(3) - 1);
  return shuffled.join(choose([',', ', ', ' ,\t']));
}

describe('normalValue of preferences', () => {
  const preferences = fc.uniqueArray(
    fc.record({
      range: fc.constantFrom('en', 'de', 'de-ch', 'fr', 'gzip', 'br', 'utf-8', '*'),
      thousandths: fc.oneof(fc.constantFrom(0, 500, 1000), fc.integer({ min: 0, max: 1000 })),
    }),
    { selector: ({ range }) => range, maxLength: 5 },
  );
  const picks = fc.infiniteStream(fc.nat());
  const picker = (stream: Iterator<number>) => (count: number) => Number(stream.next().value) % count;

  it('is the same for two spellings of the same preferences', () => {
    fc.assert(
      fc.property(fc.constantFrom(...weighted), preferences, picks, picks, (name, chosen, one, other) => {
        const texts = [spellingOf(chosen, picker(one)), spellingOf(chosen, picker(other))];
        expect(new Set(texts.map((text) => normalValue(name, text))).size).toBe(1);
      }),
      { numRuns: 2000 },
    );
  });

  it('differs for different preferences', () => {
    const meaning = (chosen: readonly Preference[]) =>
      chosen
        .map(({ range, thousandths }) => `${range} ${thousandths}`)
        .sort()
        .join();
    fc.assert(
      fc.property(fc.constantFrom(...weighted), preferences, preferences, picks, (name, one, other, stream) => {
        const forms = [one, other].map((chosen) => normalValue(name, spellingOf(chosen, picker(stream))));
        expect(forms[0] === forms[1]).toBe(meaning(one) === meaning(other));
      }),
      { numRuns: 2000 },
    );
  });
});
