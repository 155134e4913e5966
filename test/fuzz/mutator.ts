/** Makes random inputs out of others. The random numbers are those of a seed. */

/** Returns a number in [0, 1). The same seed gives the same numbers (mulberry32). */
export type Chance = () => number;

/** Creates the random numbers of a seed. Only its lower 32 bits count. */
export function createChance(seed: number): Chance {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The length of the longest inputs, in octets. */
export const longestInput = 64 * 1024;

/** The maximum length of most inputs, in octets: short inputs suffice to find most faults of a parser. */
const usualLength = 400;

/** Octets that separate, quote, escape and end in most grammars, and some that no grammar allows. */
const signs = ' \t\r\n\0"\\,;:=/?#&%()<>[]{}@*+-._~|$!^`\'\x7f\x80\xff0159aZ';

type Mutation = (text: string, chance: Chance, pool: readonly string[], words: readonly string[]) => string;

/** Makes an input out of a pool, which must not be empty. */
export function mutate(pool: readonly string[], words: readonly string[], chance: Chance): string {
  let text = pick(pool, chance);
  for (let count = 1 + Math.floor(chance() * 4); count > 0; count -= 1) {
    text = pick(mutations, chance)(text, chance, pool, words);
  }
  return text.slice(0, usualLength);
}

/** Makes an input of the maximum length by repeating a piece of another input. */
export function stretch(pool: readonly string[], words: readonly string[], chance: Chance): string {
  const piece = chance() < 0.3 && words.length > 0 ? pick(words, chance) : cut(mutate(pool, words, chance), chance);
  const start = cut(pick(pool, chance), chance);
  const count = Math.floor((longestInput - start.length) / Math.max(1, piece.length));
  return `${start}${(piece === '' ? 'a' : piece).repeat(count)}${pick(pool, chance)}`.slice(0, longestInput);
}

const mutations: readonly Mutation[] = [
  // Inserts, replaces or removes a sign.
  (text, chance) => splice(text, chance, 0, pick([...signs], chance)),
  (text, chance) => splice(text, chance, 1, pick([...signs], chance)),
  (text, chance) => splice(text, chance, 1, ''),
  (text, chance) => splice(text, chance, 1, String.fromCharCode(Math.floor(chance() * 256))),
  // Inserts a word of the grammar.
  (text, chance, _pool, words) => (words.length === 0 ? text : splice(text, chance, 0, pick(words, chance))),
  (text, chance, _pool, words) => {
    return words.length === 0 ? text : splice(text, chance, Math.floor(chance() * 6), pick(words, chance));
  },
  // Removes a piece, doubles it, or takes one from another input.
  (text, chance) => splice(text, chance, Math.floor(chance() * text.length), ''),
  (text, chance) => splice(text, chance, 0, cut(text, chance)),
  (text, chance, pool) => splice(text, chance, 0, cut(pick(pool, chance), chance)),
  (text, chance, pool) => text.slice(0, place(text, chance)) + pick(pool, chance).slice(place(text, chance)),
  (text, chance, pool) => `${text}${pick([',', ';', '&', '\n', ', '], chance)}${pick(pool, chance)}`,
  // Changes the case of a letter, or a number.
  (text, chance) => otherCase(text, chance),
  (text, chance) => text.replace(/\d+/, () => String(otherNumber(chance))),
];

function otherNumber(chance: Chance): bigint {
  const power = BigInt(Math.floor(chance() * 70));
  return 2n ** power + BigInt(Math.floor(chance() * 3)) - 1n;
}

function otherCase(text: string, chance: Chance): string {
  const at = place(text, chance);
  const character = text.charAt(at);
  const other = character === character.toLowerCase() ? character.toUpperCase() : character.toLowerCase();
  // Outside ASCII the other case may be more than one octet.
  return other.length === 1 && other <= '\x7f' ? text.slice(0, at) + other + text.slice(at + 1) : text;
}

function splice(text: string, chance: Chance, count: number, piece: string): string {
  const at = place(text, chance);
  return text.slice(0, at) + piece + text.slice(at + count);
}

function cut(text: string, chance: Chance): string {
  const at = place(text, chance);
  return text.slice(at, at + 1 + Math.floor(chance() * 30));
}

function place(text: string, chance: Chance): number {
  return Math.floor(chance() * (text.length + 1));
}

function pick<T>(list: readonly T[], chance: Chance): T {
  return list[Math.floor(chance() * list.length)] as T;
}
