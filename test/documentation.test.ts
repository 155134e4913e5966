import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { formatJsonSchema, listOptions } from '../src/config/json-schema.ts';
import { checkConfig, parseConfigText } from '../src/config/load.ts';

function readRoot(name: string): string {
  return readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
}

/** The paths of all options that a value has, lists as `[]`. */
function pathsIn(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((element) => pathsIn(element, `${path}[]`));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => {
    const innerPath = path === '' ? name : `${path}.${name}`;
    return [innerPath, ...pathsIn(inner, innerPath)];
  });
}

describe('config.example.json', () => {
  const text = parseConfigText(readRoot('config.example.json'));
  const example = text.kind === 'ok' ? text.value : undefined;

  it('has every option, and no other', () => {
    const options = new Set(listOptions().map((option) => option.path));
    expect(new Set(pathsIn(example))).toEqual(options);
  });

  it('is valid, and names the schema', () => {
    expect(checkConfig(example, '.')).toMatchObject({ kind: 'ok' });
    expect(example).toMatchObject({ $schema: './config.schema.json' });
  });

  it('shows the default of each option that has one', () => {
    const first = (path: string): unknown =>
      path.split('.').reduce((value: unknown, name) => {
        const inner = (value as Record<string, unknown>)[name.replace('[]', '')];
        return name.endsWith('[]') ? (inner as unknown[])[0] : inner;
      }, example);
    const scalars = listOptions().filter(({ default: value }) => value !== undefined && typeof value !== 'object');
    expect(scalars.length).toBeGreaterThan(20);
    for (const option of scalars) expect(first(option.path), option.path).toBe(option.default);
  });
});

describe('config.schema.json', () => {
  it('is what `npm run schema` writes', () => expect(readRoot('config.schema.json')).toBe(formatJsonSchema()));

  it('describes every option', () => {
    expect(listOptions().filter((option) => option.description === undefined)).toEqual([]);
  });
});
