import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkConfig, parseConfigText } from '../../src/config/load.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { faultOf, readOptionTables } from '../support/recipes/option-tables.ts';
import { readBlocks } from '../support/recipes/page.ts';

const folder = join(projectDirectory, 'docs/recipes');
const pages = readdirSync(folder).filter((name) => name.endsWith('.md') && name !== 'README.md');

describe('docs/recipes', () => {
  it('has an index of all pages', () => {
    const index = readFileSync(join(folder, 'README.md'), 'utf8');
    const linked = [...index.matchAll(/^\| \[([\w-]+\.md)\]\(\1\) \|/gm)].map(([, name]) => name);
    expect(linked.toSorted()).toEqual(pages.toSorted());
  });

  it('has a test for each page', () => {
    const tests = readdirSync(import.meta.dirname).filter(
      (name) => name.endsWith('.test.ts') && name !== 'index.test.ts',
    );
    expect(tests.map((name) => name.replace('.test.ts', '.md')).toSorted()).toEqual(pages.toSorted());
  });

  it.each(pages)('%s has sections in their order, and a valid configuration', (name) => {
    const page = readFileSync(join(folder, name), 'utf8');
    const sections = [...page.matchAll(/^## (.*)$/gm)].map(([, title]) => title);
    const fixed = ['What you have', 'What you write', 'Check', 'What to watch for'];
    expect(sections.filter((title = '') => fixed.includes(title))).toEqual(fixed);
    const files = readBlocks(page).flatMap((block) => (block.kind === 'file' ? [block] : []));
    const configurations = files.filter((file) => /(?:^|\/)rangeway[\w-]*\.json$/.test(file.name));
    expect(configurations).not.toEqual([]);
    for (const { text } of configurations) {
      const parsed = parseConfigText(text);
      expect(parsed).toMatchObject({ kind: 'ok' });
      if (parsed.kind === 'ok') expect(checkConfig(parsed.value, '.')).toMatchObject({ kind: 'ok' });
    }
  });
});

describe('tables of options', () => {
  const moving = pages.filter((name) => name.startsWith('from-'));
  it('are on every page about moving from another program', () => expect(moving.length).toBeGreaterThan(0));

  it.each(moving)('%s names options that exist, with values that are valid', (name) => {
    const rows = readOptionTables(readFileSync(join(folder, name), 'utf8'));
    expect(rows.length).toBeGreaterThan(10);
    const options = rows.flatMap(({ ours }) => ours);
    expect(options.length).toBeGreaterThan(10);
    expect(options.flatMap((option) => faultOf(option) ?? [])).toEqual([]);
  });

  it.each([
    ['cache.defaultTtl', 'cache.defaultTtl is no option'],
    ['cache.setCookie: "drop"', expect.stringContaining('cache.setCookie: "drop"')],
    ['cache.setCookie: "strip"', undefined],
    ['listen[].http2: true', undefined],
  ])('a test finds that %s is wrong, or right', (option, fault) => expect(faultOf(option)).toEqual(fault));
});
