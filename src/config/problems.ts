/** What is wrong with a configuration, in words for people. */

import type * as z from 'zod';
import { createJsonSchema, listOptions } from './json-schema.ts';
import { nearestName } from './nearest-name.ts';

/** One thing that is wrong, and where. */
export interface Problem {
  /** Where it is, such as `routes[0].origin.url`; empty for the whole. */
  readonly path: string;
  readonly message: string;
}

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** Words for the types of JSON. */
const typeNames: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  null: 'null',
};

/** Says what is wrong, one problem for each option concerned, in the order of the issues. */
export function describeIssues(issues: readonly Issue[]): Problem[] {
  return describeIn(issues, []);
}

/** What has the wrong type may be too long besides, as text where a list was meant: that is not told. */
function describeIn(issues: readonly Issue[], parent: Path): Problem[] {
  const wrongTypes = new Set(issues.filter(({ code }) => code === 'invalid_type').map(({ path }) => formatPath(path)));
  return issues
    .filter(({ code, path }) => code === 'invalid_type' || !wrongTypes.has(formatPath(path)))
    .flatMap((issue) => describeIssue(issue, parent));
}

/** The path as JavaScript would write it. */
function formatPath(path: Path): string {
  let text = '';
  for (const key of path) {
    if (typeof key === 'number') text += `[${key}]`;
    else if (/^[\w$-]+$/.test(String(key))) text += `${text === '' ? '' : '.'}${String(key)}`;
    else text += `[${JSON.stringify(String(key))}]`;
  }
  return text;
}

function describeIssue(issue: Issue, parent: Path): Problem[] {
  const path = [...parent, ...issue.path];
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.map((key) => ({ path: formatPath([...path, key]), message: unknownOption(path, key) }));
    case 'invalid_union':
      return describeUnion(issue, path);
    case 'invalid_key':
      return issue.issues.map((inner) => ({ path: formatPath(path), message: describeValue(inner) }));
    default:
      return [{ path: formatPath(path), message: describeValue(issue) }];
  }
}

/** Of several alternatives the one that was meant is told: the one whose type fits. */
function describeUnion(issue: Extract<Issue, { code: 'invalid_union' }>, path: Path): Problem[] {
  const meant = issue.errors.find((alternative) => !alternative.some(isWrongType));
  if (meant !== undefined) return describeIn(meant, path);
  const expected = issue.errors.flatMap((alternative) =>
    alternative.filter(isWrongType).map((inner) => inner.expected),
  );
  return [{ path: formatPath(path), message: wrongType([...new Set(expected)], issue.input) }];
}

function isWrongType(issue: Issue): issue is Extract<Issue, { code: 'invalid_type' }> {
  return issue.code === 'invalid_type' && issue.path.length === 0;
}

function describeValue(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return wrongType([issue.expected], issue.input);
    case 'invalid_value':
      return wrongWord(issue.values.map(String), issue.input);
    case 'too_small':
    case 'too_big':
      return outOfBounds(issue);
    default:
      return issue.message;
  }
}

function wrongType(expected: readonly string[], found: unknown): string {
  if (found === undefined) return 'is required';
  return `expected ${listWords(expected.map((type) => typeNames[type] ?? type))}, found ${describeFound(found)}`;
}

function wrongWord(words: readonly string[], found: unknown): string {
  const expected = `expected ${listWords(words.map((word) => `"${word}"`))}, found ${typeof found === 'string' ? JSON.stringify(found) : describeFound(found)}`;
  const nearest = typeof found === 'string' ? nearestName(found, words) : undefined;
  return nearest === undefined ? expected : `${expected}; did you mean "${nearest}"?`;
}

function outOfBounds(issue: Extract<Issue, { code: 'too_small' | 'too_big' }>): string {
  const [bound, limit] = issue.code === 'too_small' ? ['least', issue.minimum] : ['most', issue.maximum];
  if (issue.origin === 'number' || issue.origin === 'int') {
    return `must be at ${bound} ${limit}, found ${describeFound(issue.input)}`;
  }
  const things = issue.origin === 'array' ? 'element' : 'character';
  return `needs at ${bound} ${limit} ${things}${limit === 1 ? '' : 's'}`;
}

function unknownOption(parent: Path, key: string): string {
  const parentPath = formatPath(parent).replaceAll(/\[\d+\]/g, '[]');
  const known = listOptions(createJsonSchema())
    .filter((option) => option.parent === parentPath)
    .map((option) => option.name);
  const nearest = nearestName(key, known);
  const advice = nearest === undefined ? `known here: ${known.join(', ')}` : `did you mean "${nearest}"?`;
  return `unknown option "${key}"; ${advice}`;
}

/** What was found: short values as they are, otherwise only their type. */
function describeFound(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'string') return value.length <= 40 ? `the text ${JSON.stringify(value)}` : 'a long text';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? 'a list' : 'an object';
}

function listWords(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}
