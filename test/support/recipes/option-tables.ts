/** Reads the tables of a page that lead from another program to options of Rangeway, and checks these options against the schema. */

import { listOptions } from '../../../src/config/json-schema.ts';
import { checkConfig } from '../../../src/config/load.ts';

/** A row: what the other program has, and the options that take its place. */
export interface TableRow {
  /** The names in code of the first column. */
  readonly theirs: readonly string[];
  /** The texts in code of the column `Rangeway`: `NAME`, or `NAME: VALUE`. Options of a route stand without `routes[].`. */
  readonly ours: readonly string[];
}

/** Returns the rows of all tables of a page whose second column is `Rangeway`. */
export function readOptionTables(page: string): readonly TableRow[] {
  const tables = page.matchAll(/^\|[^|\n]*\| Rangeway \|[^\n]*\n\|[ |-]+\n((?:\|[^\n]*\n)+)/gm);
  return [...tables].flatMap(([, rows = '']) => rows.trimEnd().split('\n').map(readRow));
}

function readRow(line: string): TableRow {
  const [, theirs = '', ours = ''] = line.split(/(?<!\\)\|/);
  return { theirs: codeIn(theirs), ours: codeIn(ours) };
}

function codeIn(cell: string): readonly string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text.replaceAll('\\|', '|'));
}

const known = new Set(listOptions().map(({ path }) => path));

/** Returns what is wrong with an option of a table: it does not exist, or not with this value. Undefined where it is right. */
export function faultOf(option: string): string | undefined {
  const [name = '', ...rest] = option.split(': ');
  const path = [name, `routes[].${name}`].find((each) => known.has(each));
  if (path === undefined) return `${name} is no option`;
  if (rest.length === 0) return undefined;
  const config = { listen: [{ address: '127.0.0.1:0' }], routes: [{ origin: { url: 'http://origin.test' } }] };
  place(config, path.replaceAll('[]', '.0').split('.'), JSON.parse(rest.join(': ')));
  const checked = checkConfig(config, '/');
  const start = path.replaceAll('[]', '[0]');
  const problems = checked.kind === 'ok' ? [] : checked.problems.filter((problem) => problem.path.startsWith(start));
  return problems.length === 0 ? undefined : `${option}: ${problems.map(({ message }) => message).join('; ')}`;
}

function place(target: object, [name = '', ...rest]: readonly string[], value: unknown): void {
  const members = target as Record<string, unknown>;
  if (rest.length === 0) {
    members[name] = value;
    return;
  }
  members[name] ??= {};
  place(members[name] as object, rest, value);
}
