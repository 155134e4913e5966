/** Generators of range specs, and of valid and nearly valid Range fields. */

import fc from 'fast-check';
import type { RangeSpec } from '../../../src/semantics/range.ts';

/** Generates specs with positions up to `maxPosition`, so that edges of a representation are hit often. */
export function rangeSpec(maxPosition: number): fc.Arbitrary<RangeSpec> {
  const position = fc.oneof(
    { weight: 20, arbitrary: fc.nat(maxPosition) },
    { weight: 1, arbitrary: fc.constantFrom(Number.MAX_SAFE_INTEGER - 1, Number.MAX_SAFE_INTEGER) },
  );
  return fc.oneof(
    {
      weight: 4,
      arbitrary: fc.tuple(position, position).map(([a, b]): RangeSpec => {
        return { kind: 'closed', first: Math.min(a, b), last: Math.max(a, b) };
      }),
    },
    { weight: 1, arbitrary: position.map((first): RangeSpec => ({ kind: 'open', first })) },
    { weight: 1, arbitrary: position.map((length): RangeSpec => ({ kind: 'suffix', length })) },
  );
}

const whitespace = fc.constantFrom('', '', '', ' ', '\t', ' \t ');
const digits = fc.oneof(
  fc.nat(20).map(String),
  fc.bigInt({ min: 0n, max: 2n ** 70n }).map(String),
  fc.nat(20).map((number) => `000${number}`),
);
const member = fc.oneof(
  fc.tuple(digits, digits).map(([first, last]) => `${first}-${last}`),
  digits.map((first) => `${first}-`),
  digits.map((length) => `-${length}`),
  fc.constant(''),
);

const rangeText = fc
  .tuple(
    fc.constantFrom('bytes', 'bytes', 'Bytes', 'BYTES'),
    fc.array(fc.tuple(whitespace, member, whitespace), { minLength: 1, maxLength: 7 }),
  )
  .map(([unit, members]) => `${unit}=${members.map((parts) => parts.join('')).join(',')}`);

const edit = fc.record({
  at: fc.nat(60),
  removed: fc.nat(2),
  inserted: fc.constantFrom('', '', '0', '9', '-', ',', '=', ' ', '\t', '*', '/', 'b', 'é', '\u0000', '٣'),
});

/** Generates Range fields: valid ones, ones with a few edits, and a few random texts. */
export const nearlyRangeText: fc.Arbitrary<string> = fc.oneof(
  { weight: 5, arbitrary: rangeText },
  {
    weight: 5,
    arbitrary: fc.tuple(rangeText, fc.array(edit, { minLength: 1, maxLength: 3 })).map(([text, edits]) =>
      edits.reduce((spoiled, { at, removed, inserted }) => {
        return spoiled.slice(0, at) + inserted + spoiled.slice(at + removed);
      }, text),
    ),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 200 }) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 200 }).map((text) => `bytes=${text}`) },
);
