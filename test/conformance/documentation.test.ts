/** Checks docs/conformance.md against expectations.json and the suite's version, and the lock file of the suite. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Expectations } from './verdicts.ts';

const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');
const expectations: Expectations = JSON.parse(read('expectations.json'));

describe('docs/conformance.md', () => {
  const text = read('../../docs/conformance.md');

  it('has a row with the reason for each test that is expected to fail, and no other row', () => {
    const rows = text.matchAll(/^\| `([^`]+)` \| (required|optimal) \| (.+) \|$/gm);
    const documented = [...rows].map(([, id, kind, reason]) => ({ id, kind, reason }));
    expect(documented).toEqual(Object.entries(expectations).map(([id, { kind, reason }]) => ({ id, kind, reason })));
  });

  it('names the release of the suite that is run', () => {
    const { dependencies } = JSON.parse(read('suite/package.json'));
    expect(text).toContain(`http-cache-tests ${dependencies['http-cache-tests']}`);
  });
});

describe('expectations.json', () => {
  it('cites an RFC clause in each reason', () => {
    for (const [id, { reason }] of Object.entries(expectations)) expect(reason, id).toMatch(/^RFC \d+ §\d/);
  });
});

describe('the lock of the suite', () => {
  const { packages } = JSON.parse(read('suite/package-lock.json'));

  it('pins every package by its hash, and names only the public registry', () => {
    const { '': _root, ...installed } = packages;
    for (const [path, { integrity, resolved }] of Object.entries<{ integrity?: string; resolved?: string }>(
      installed,
    )) {
      expect(integrity, path).toMatch(/^sha512-/);
      if (resolved !== undefined) expect(resolved, path).toMatch(/^https:\/\/registry\.npmjs\.org\//);
    }
  });

  it('replaces npm by node-fetch', () => expect(packages['node_modules/npm'].name).toBe('node-fetch'));
});
