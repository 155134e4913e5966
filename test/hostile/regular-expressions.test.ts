/**
 * Every regular expression of the source takes time in proportion to its text: clients and origins choose most of the texts, and a
 * quadratic one stops everybody for seconds. Each expression runs over repeated units of one to three of its own characters, with
 * and without a beginning that it wants, and with an end that lets it match or fail. Only
 * the growth of processor time is judged.
 */

import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseSync, Visitor } from 'vite';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../src/', import.meta.url));

/** An expression, and where it stands. */
interface Found {
  readonly place: string;
  readonly source: string;
  readonly flags: string;
}

/** Texts that only the operator writes, by file; each is read once, at the start or by a command. */
const operatorsOwn: ReadonlySet<string> = new Set([
  'cli/completion/completed-program.ts',
  'cli/doctor/gather-certificates.ts',
  'cli/service-manager.ts',
]);

const sizes = { unsuspicious: 2_000, small: 10_000, large: 100_000 } as const;

/** A text of 2 KB that takes longer than this is looked at with longer ones. A linear one takes some microseconds. */
const suspiciousMs = 0.3;
/** Ten times the text may take thirty times as long on a busy machine; a quadratic expression takes a hundred times as long. */
const maxGrowth = 30;
/** A linear expression takes less than this for 100 KB. */
const quickMs = 25;

describe('a regular expression is linear', () => {
  const found = globSync('**/*.ts', { cwd: root }).sort().flatMap(expressionsOf);

  it('is found in the source', () => {
    expect(found.length).toBeGreaterThan(300);
    expect(slowTextOf({ place: '', source: '(a+)+b', flags: '' })).toBeDefined();
    expect(slowTextOf({ place: '', source: '[a-z]+=', flags: 'g' })).toBeDefined();
    expect(slowTextOf({ place: '', source: '^[a-z]+=', flags: '' })).toBeUndefined();
  });

  it.each(found)('$place /$source/$flags', (expression) => {
    expect(slowTextOf(expression)).toBeUndefined();
  });
});

function expressionsOf(place: string): Found[] {
  if (operatorsOwn.has(place)) return [];
  const found = new Map<string, Found>();
  const { program } = parseSync(place, readFileSync(`${root}${place}`, 'utf8'), { lang: 'ts' });
  const visitor = new Visitor({
    Literal(node) {
      if (!('regex' in node)) return;
      const { pattern: source, flags } = node.regex;
      found.set(`/${source}/${flags}`, { place, source, flags });
    },
  });
  visitor.visit(program);
  return [...found.values()];
}

/** Returns a description of a text whose time grows faster than its length, or undefined. */
function slowTextOf({ source, flags }: Found): string | undefined {
  const kept = flags.replaceAll(/[gy]/g, '');
  // A sticky expression is tried at one place only; any other may be searched for in the whole text.
  const whole = new RegExp(flags.includes('y') ? `^(?:${source})` : source, kept);
  const each = flags.includes('y') ? whole : new RegExp(source, `${kept}g`);
  const run = (text: string): number => {
    const before = process.threadCpuUsage().user;
    whole.exec(text);
    text.replace(each, '');
    return (process.threadCpuUsage().user - before) / 1000;
  };
  const quickest = (text: string): number => Math.min(run(text), run(text), run(text));
  for (const { start, unit, end } of textsFor(source)) {
    const make = (length: number): string => start + unit.repeat(length / unit.length) + end;
    const told = `${JSON.stringify(start)}, then ${JSON.stringify(unit)} many times, then ${JSON.stringify(end)}`;
    // An exponential expression is found by a text that it can still finish.
    if (run(make(20)) > suspiciousMs && quickest(make(20)) > suspiciousMs) return told;
    if (run(make(sizes.unsuspicious)) < suspiciousMs) continue;
    const small = quickest(make(sizes.small));
    if (small < suspiciousMs) continue;
    const large = quickest(make(sizes.large));
    if (large > quickMs && large > maxGrowth * small) return told;
  }
  return undefined;
}

/** Yields beginnings, units and ends that are made of the characters of the expression. */
function* textsFor(source: string): Generator<{ start: string; unit: string; end: string }> {
  const characters = charactersOf(source);
  const begin = /^\^?([\w :/#<-]*)/.exec(source.replaceAll(/\\([/#-])/g, '$1'))?.[1] ?? '';
  const units = characters.flatMap((a) => [
    a,
    ...characters.flatMap((b) => [a + b, ...characters.map((c) => a + b + c)]),
  ]);
  // Units that are rotations of each other make nearly the same text.
  const distinct = units.filter((unit) =>
    Array.from(unit, (_, at) => unit.slice(at) + unit.slice(0, at)).every((other) => unit <= other),
  );
  for (const start of new Set(['', begin])) {
    for (const unit of distinct) {
      for (const end of ['\u0001', characters.at(-1) ?? '']) yield { start, unit, end };
    }
  }
}

/** At most five characters: those of the expression itself, and one for each of its classes. */
function charactersOf(source: string): string[] {
  const literal = source.replaceAll(/\\u\{?[\da-fA-F]+\}?|\\x[\da-fA-F]{2}|\\[dwsSDWbBpPck]|\(\?[:=!<]+/g, '');
  const chosen = new Set<string>();
  for (const [shape, one] of [
    ['\\d', '1'],
    ['0-9', '1'],
    ['\\w', 'a'],
    ['a-z', 'a'],
    ['A-Z', 'A'],
    ['\\s', ' '],
    ['\\t', ' '],
    ['.', 'a'],
    ['[^', 'a'],
  ] as const) {
    if (source.includes(shape)) chosen.add(one);
  }
  const plain = literal.replaceAll(/[\^$()[\]{}|?*+\\]/g, '');
  const signs = [...new Set(plain.replaceAll(/[A-Za-z0-9]/g, ''))];
  const letters = [...new Set(plain.replaceAll(/[^A-Za-z0-9]/g, ''))];
  for (const character of [...signs, ...letters]) if (chosen.size < 5) chosen.add(character);
  if (chosen.size === 0) chosen.add('a');
  return [...chosen];
}
