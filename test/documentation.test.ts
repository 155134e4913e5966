import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { formatJsonSchema, listOptions } from '../src/config/json-schema.ts';
import { checkConfig, parseConfigText } from '../src/config/load.ts';

const root = fileURLToPath(new URL('..', import.meta.url));

function readRoot(name: string): string {
  return readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
}

/** Returns the paths of all options in a value, with `[]` for lists. */
function pathsIn(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((element) => pathsIn(element, `${path}[]`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const innerPath = path === '' ? name : `${path}.${name}`;
    return [innerPath, ...pathsIn(inner, innerPath)];
  });
}

/** Options whose value is a record: its names are chosen by the operator. */
const parents = new Set(listOptions().map((option) => option.parent));
const records = listOptions().flatMap(({ path, default: value }) =>
  isEmptyObject(value) && !parents.has(path) ? [path] : [],
);

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
}

describe('config.example.json', () => {
  const readExample = (name: string): unknown => {
    const text = parseConfigText(readRoot(name));
    return text.kind === 'ok' ? text.value : undefined;
  };
  const example = readExample('config.example.json');
  // Options of another type of store, which exclude those of the disk. An example for each place of the engine.
  const others = ['redis', 'redis-sentinel', 'redis-cluster'].map((name) => readExample(`examples/${name}.json`));

  it('has every option, and no other', () => {
    const options = new Set(listOptions().map((option) => option.path));
    const isInRecord = (path: string) => records.some((record) => path.startsWith(`${record}.`));
    const stated = [example, ...others].flatMap((each) => pathsIn(each)).filter((path) => !isInRecord(path));
    expect(new Set(stated)).toEqual(options);
  });

  it('is valid, and names the schema', () => {
    for (const each of [example, ...others]) expect(checkConfig(each, '.')).toMatchObject({ kind: 'ok' });
    expect(example).toMatchObject({ $schema: './config.schema.json' });
  });

  it('shows the default of each option that has one', () => {
    // The first value at the path. A string in a list of objects has no options.
    const first = (path: string): unknown =>
      path.split('.').reduce<readonly unknown[]>(
        (values, name) =>
          values.flatMap((value) => {
            const inner = (Object(value) as Record<string, unknown>)[name.replace('[]', '')];
            return inner === undefined ? [] : inner;
          }),
        [example, ...others],
      )[0];
    const scalars = listOptions().filter(({ default: value }) => value !== undefined && typeof value !== 'object');
    expect(scalars.length).toBeGreaterThan(20);
    for (const option of scalars) expect(first(option.path), option.path).toBe(option.default);
  });
});

describe('docs/security.md', () => {
  it('names tests that exist', () => {
    const named = [...readRoot('docs/security.md').matchAll(/`([a-z0-9]+\/[a-z0-9*-]+)`/g)].map(
      ([, name = '']) => name,
    );
    expect(named.length).toBeGreaterThan(50);
    const absent = named.filter((name) => globSync(`test/${name}{.test.ts,/}`, { cwd: root }).length === 0);
    expect(absent).toEqual([]);
  });
});

describe('docs/scaling.md', () => {
  const page = readRoot('docs/scaling.md');
  const blocks = (language: string) =>
    [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)\\n\`\`\`$`, 'gms'))].map(([, text = '']) => text);

  it('has a configuration that is valid', () => {
    expect(blocks('json')).toHaveLength(1);
    for (const text of blocks('json')) expect(checkConfig(JSON.parse(text), '.')).toMatchObject({ kind: 'ok' });
  });

  it.each([
    ['nginx', 'nginx.conf'],
    ['haproxy', 'haproxy.cfg'],
  ])('quotes lines of the example for %s', (language, file) => {
    const known = new Set(
      readRoot(`examples/${file}`)
        .split('\n')
        .map((line) => line.trim()),
    );
    const quoted = blocks(language).flatMap((text) => text.split('\n').map((line) => line.trim()));
    expect(quoted.length).toBeGreaterThan(5);
    expect(quoted.filter((line) => !known.has(line))).toEqual([]);
  });
});

describe('config.schema.json', () => {
  it('is what `npm run schema` writes', () => expect(readRoot('config.schema.json')).toBe(formatJsonSchema()));

  it('describes every option', () => {
    expect(listOptions().filter((option) => option.description === undefined)).toEqual([]);
  });
});
