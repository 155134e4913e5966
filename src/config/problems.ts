/** Describes for people what is wrong with a configuration, and suggests the probable name for an unknown option. */

import type * as z from 'zod';
import { createJsonSchema, listOptions } from './json-schema.ts';
import { nearestName } from './nearest-name.ts';

/** One problem of a configuration. */
export interface Problem {
  /** The path of the option, such as `routes[0].origin.url`; empty for the whole configuration. */
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

/**
 * Describes issues as problems, one for each option concerned, in the order of the issues. An issue for which the schema has no
 * message of its own must have an empty message.
 */
export function describeIssues(issues: readonly Issue[]): Problem[] {
  return describeIn(issues, []);
}

/** A value of the wrong type can have further issues, such as a text in place of a list that is also too long. They are dropped. */
function describeIn(issues: readonly Issue[], parent: Path): Problem[] {
  const wrongTypes = new Set(issues.filter(({ code }) => code === 'invalid_type').map(({ path }) => formatPath(path)));
  return issues
    .filter(({ code, path }) => code === 'invalid_type' || !wrongTypes.has(formatPath(path)))
    .flatMap((issue) => describeIssue(issue, parent));
}

/** Formats the path as JavaScript would write it. */
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

/** Describes the issues of the alternative that was probably meant: the one whose type or word fits. */
function describeUnion(issue: Extract<Issue, { code: 'invalid_union' }>, path: Path): Problem[] {
  const meant = issue.errors.find((alternative) => !alternative.some(isAnotherKind));
  if (meant !== undefined) return describeIn(meant, path);
  const others = issue.errors.flatMap((alternative) => alternative.filter(isAnotherKind));
  const types = others.flatMap((other) => (other.code === 'invalid_type' ? [other.expected] : []));
  const words = others.flatMap((other) => (other.code === 'invalid_value' ? other.values.map(String) : []));
  const message =
    issue.message === ''
      ? wrongType([...new Set(types)], issue.input)
      : `${issue.message}, found ${quoteFound(issue.input)}${suggestion(issue.input, words)}`;
  return [{ path: formatPath(path), message }];
}

/** Checks whether the whole value has another type than this alternative, or is another word. */
function isAnotherKind(issue: Issue): issue is Extract<Issue, { code: 'invalid_type' | 'invalid_value' }> {
  return (issue.code === 'invalid_type' || issue.code === 'invalid_value') && issue.path.length === 0;
}

function describeValue(issue: Issue): string {
  const { message } = issue;
  switch (issue.code) {
    case 'invalid_type':
      return wrongType([issue.expected], issue.input, message);
    case 'invalid_value':
      return wrongWord(issue.values.map(String), issue.input);
    case 'invalid_format':
      return `${message}, found ${quoteFound(issue.input)}`;
    case 'too_small':
    case 'too_big':
      return outOfBounds(issue);
    default:
      return message;
  }
}

function wrongType(types: readonly string[], found: unknown, stated = ''): string {
  if (found === undefined) return 'is required';
  const expected = stated === '' ? `expected ${listWords(types.map((type) => typeNames[type] ?? type))}` : stated;
  return `${expected}, found ${describeFound(found)}`;
}

function wrongWord(words: readonly string[], found: unknown): string {
  const expected = listWords(words.map((word) => `"${word}"`));
  return `expected ${expected}, found ${quoteFound(found)}${suggestion(found, words)}`;
}

function suggestion(found: unknown, words: readonly string[]): string {
  const nearest = typeof found === 'string' ? nearestName(found, words) : undefined;
  return nearest === undefined ? '' : `; did you mean "${nearest}"?`;
}

function outOfBounds(issue: Extract<Issue, { code: 'too_small' | 'too_big' }>): string {
  const isTooSmall = issue.code === 'too_small';
  const [bound, limit] = isTooSmall ? ['least', issue.minimum] : ['most', issue.maximum];
  if (issue.origin === 'number' || issue.origin === 'int') {
    return `must be at ${bound} ${limit}, found ${describeFound(issue.input)}`;
  }
  const things = issue.origin === 'array' ? 'element' : 'character';
  return `${isTooSmall ? 'needs' : 'may have'} at ${bound} ${limit} ${things}${limit === 1 ? '' : 's'}`;
}

/** Options that no longer exist, by their paths, with advice. */
const goneOptions: Readonly<Record<string, string>> = {
  explain:
    'explain.peers is gone: "rangeway explain" asks the admin listener, never those of clients; leave "explain" out',
};

function unknownOption(parent: Path, key: string): string {
  const gone = goneOptions[formatPath([...parent, key])];
  if (gone !== undefined) return gone;
  const parentPath = formatPath(parent).replaceAll(/\[\d+\]/g, '[]');
  const known = listOptions(createJsonSchema())
    .filter((option) => option.parent === parentPath)
    .map((option) => option.name);
  const nearest = nearestName(key, known);
  const advice = nearest === undefined ? `known here: ${known.join(', ')}` : `did you mean "${nearest}"?`;
  return `unknown option "${key}"; ${advice}`;
}

/** Describes a value of the wrong type: a short one as it is, otherwise only its type. */
function describeFound(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'string') return isShort(value) ? `the text ${JSON.stringify(value)}` : 'a long text';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? 'a list' : 'an object';
}

/** Describes a value where text was expected: a short text in quotes, any other value as `describeFound` does. */
function quoteFound(value: unknown): string {
  return typeof value === 'string' && isShort(value) ? JSON.stringify(value) : describeFound(value);
}

function isShort(text: string): boolean {
  return text.length <= 40;
}

function listWords(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}
