/** The table of docs/clients.md: written by the suite, and read by its test. */

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Use } from './ground.ts';
import { bytesOf } from './relay.ts';

/** The page with the table. */
export const page = fileURLToPath(new URL('../../../docs/clients.md', import.meta.url));

/** A client before an origin, without and with Rangeway. */
export interface Pair {
  readonly client: string;
  readonly origin: string;
  readonly without: Use;
  readonly with: Use;
}

const begin = '<!-- The table: npm run clients:table writes what is between these lines. -->';
const end = '<!-- The end of the table. -->';

const columns = [
  ['client', 'left'],
  ['origin', 'left'],
  ['without', 'left'],
  ['with', 'left'],
  ['origin bytes without', 'right'],
  ['origin bytes with', 'right'],
  ['÷ delivered', 'right'],
  ['requests', 'right'],
  ['first byte without', 'right'],
  ['first byte with', 'right'],
] as const;

/** Returns the four cells that do not depend on time: client, origin, whether it works without Rangeway, and with it. */
function verdict({ client, origin, without, with: through }: Pair): readonly string[] {
  const word = (use: Use): string => (use.fault === undefined ? 'works' : '**fails**');
  return [client, origin, word(without), word(through)];
}

function size(bytes: number): string {
  if (bytes < 1_000_000) return `${Math.round(bytes / 1000)} kB`;
  return `${(bytes / 1_000_000).toFixed(2)} MB`;
}

function firstByte({ ofClient }: Use): string {
  const times = ofClient.flatMap(({ firstByteMs }) => firstByteMs ?? []);
  return times[0] === undefined ? '–' : `${Math.max(1, Math.round(times[0]))} ms`;
}

function row(pair: Pair): readonly string[] {
  const { without, with: through } = pair;
  const delivered = bytesOf(through.ofClient);
  return [
    ...verdict(pair),
    size(bytesOf(without.atOrigin)),
    size(bytesOf(through.atOrigin)),
    delivered === 0 ? '–' : (bytesOf(through.atOrigin) / delivered).toFixed(2),
    `${without.atOrigin.length} → ${through.atOrigin.length}`,
    firstByte(without),
    firstByte(through),
  ];
}

/** Returns the page with the table of these pairs. */
export function withTable(text: string, pairs: readonly Pair[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;
  const head = line(columns.map(([name]) => name)) + line(columns.map(([, side]) => (side === 'left' ? '---' : '--:')));
  const gained = pairs.filter((pair) => pair.without.fault !== undefined && pair.with.fault === undefined).length;
  const sum = `${pairs.length} pairs; ${gained} of them fail without Rangeway and work with it.\n\n`;
  const [before = '', rest = ''] = text.split(begin);
  const [, after = ''] = rest.split(end);
  return `${before}${begin}\n\n${sum}${head}${pairs.map((pair) => line(row(pair))).join('')}\n${end}${after}`;
}

/** Returns the first four cells of each row in the committed page. */
export function committedVerdicts(): readonly string[] {
  const [, table = ''] = /^\| client [\s\S]*?\n\| ---.*\n([\s\S]*?)\n\n/m.exec(readFileSync(page, 'utf8')) ?? [];
  return table.split('\n').map((line) =>
    line
      .split('|')
      .slice(1, 5)
      .map((cell) => cell.trim())
      .join(' | '),
  );
}

/** Returns the same cells for pairs that have run. */
export function verdicts(pairs: readonly Pair[]): readonly string[] {
  return pairs.map((pair) => verdict(pair).join(' | '));
}
