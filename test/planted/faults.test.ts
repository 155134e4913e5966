/** The table of planted faults, which `npm run planted` runs: whether each of them can still be planted, and its tests still exist. */

import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { isCarried, isQuick } from '../suites.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { withFault } from './fault.ts';
import { plantedFaults } from './faults.ts';
import { describeOutcome, isRight, vitestReport } from './report.ts';

describe.each(plantedFaults)('the planted fault $name', (fault) => {
  it('replaces a text that its file has once', async () => {
    const source = await readFile(join(projectDirectory, fault.file), 'utf8');
    expect(withFault(source, fault)).not.toBe(source);
  });

  it('is found by tests that exist, and that `npm test` runs', async () => {
    for (const test of fault.tests) {
      await access(join(projectDirectory, 'test', test));
      expect(fault.wire === undefined ? isQuick(`test/${test}`) : isCarried(`test/${test}`, fault.wire)).toBe(true);
    }
  });
});

it('has a name of its own for each fault', () => {
  const names = plantedFaults.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});

describe('the report', () => {
  const [fault] = plantedFaults;
  const failure = { file: 'a.test.ts', test: 'says', message: 'wrong' };

  it.each([
    ['a fault that a test has found', { fault, failures: [failure], broken: [], passed: 3 }, true],
    ['a fault that no test has found', { fault, failures: [], broken: [], passed: 3 }, false],
    [
      'a fault that breaks its file',
      { fault, failures: [], broken: ['a.test.ts: cannot be loaded'], passed: 0 },
      false,
    ],
    ['tests that pass without a fault', { fault: undefined, failures: [], broken: [], passed: 3 }, true],
    ['no test without a fault', { fault: undefined, failures: [], broken: [], passed: 0 }, false],
    ['a test that fails without a fault', { fault: undefined, failures: [failure], broken: [], passed: 3 }, false],
  ])('counts %s', (_name, outcome, isPassed) => {
    expect(isRight(outcome)).toBe(isPassed);
    expect(describeOutcome(outcome)).toMatch(isPassed ? /found by|all 3 tests passed/ : /NOT FOUND|FAILED/);
    expect(vitestReport([outcome])).toMatchObject({
      numPassedTests: isPassed ? 1 : 0,
      numFailedTests: isPassed ? 0 : 1,
      testResults: [{ assertionResults: [{ status: isPassed ? 'passed' : 'failed' }] }],
    });
  });
});
