/** docs/conformance.md and the lock of the suite, which have to go with expectations.json and package.json. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Expectations } from './verdicts.ts';

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');
const expectations: Expectations = JSON.parse(read('expectations.json'));

describe('docs/conformance.md', () => {
  const text = read('../../docs/conformance.md');

  it('has a row for each test that is not to be passed, with the reason, and for no other', () => {
    const rows = text.matchAll(/^\| `([^`]+)` \| (required|optimal) \| (.+) \|$/gm);
    const documented = [...rows].map(([, id, kind, reason]) => ({ id, kind, reason }));
    expect(documented).toEqual(Object.entries(expectations).map(([id, { kind, reason }]) => ({ id, kind, reason })));
  });

  it('names the release that is run', () => {
    const { dependencies } = JSON.parse(read('suite/package.json'));
    expect(text).toContain(`http-cache-tests ${dependencies['http-cache-tests']}`);
  });
});

describe('expectations.json', () => {
  it('cites the clause of each reason', () => {
    for (const [id, { reason }] of Object.entries(expectations)) expect(reason, id).toMatch(/^RFC \d+ §\d/);
  });
});

describe('the lock of the suite', () => {
  const { packages } = JSON.parse(read('suite/package-lock.json'));

  it('pins every package by its content, and names no place but the public registry', () => {
    const { '': _root, ...installed } = packages;
    for (const [path, { integrity, resolved }] of Object.entries<{ integrity?: string; resolved?: string }>(
      installed,
    )) {
      expect(integrity, path).toMatch(/^sha512-/);
      if (resolved !== undefined) expect(resolved, path).toMatch(/^https:\/\/registry\.npmjs\.org\//);
    }
  });

  it('has no npm of its own', () => expect(packages['node_modules/npm'].name).toBe('node-fetch'));
});
