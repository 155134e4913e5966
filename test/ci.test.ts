/** What CI concludes from its steps. */

import { expect, it } from 'vitest';
import { type Again, type Ended, failedFiles, judge } from '../.ci/verdict.ts';
import { type FileReport, formatFolder, formatSkipped, reportOf } from './support/reports/test-report.ts';

const passing: FileReport = {
  file: 'test/a/one.test.ts',
  project: 'tests',
  durationMs: 1500,
  passed: 3,
  failed: [],
  skipped: [],
  message: '',
};
const failing: FileReport = {
  ...passing,
  file: 'test/a/two.test.ts',
  failed: [{ name: 'is right', messages: ['it is 2'] }],
};
const skipping: FileReport = {
  ...passing,
  file: 'test/a/three.test.ts',
  skipped: [{ name: 'plays', reason: 'needs ffprobe' }],
};

function step(files: readonly FileReport[], more: Partial<Ended> = {}): Ended {
  const report = reportOf(files, []);
  const code = report.numFailedTests > 0 ? 1 : 0;
  return { name: 'npm test', code, wallSeconds: 60.4, processorSeconds: 99.6, report, lastOutput: 'the end', ...more };
}

function ranAgain(steps: readonly Ended[], passed: boolean): Again[] {
  return steps.flatMap(failedFiles).map((file) => ({ ...file, passed }));
}

it('tells passed tests, and the wall and processor seconds of each step', () => {
  const { lines, passed } = judge([step([passing]), step([], { name: 'check', report: undefined as never })], []);
  expect(passed).toBe(true);
  expect(lines).toEqual([
    'step      wall s  processor s  tests  skipped',
    'npm test      60          100      3        0',
    'check         60          100      -        -',
    'all                       199',
    '3 passed, 0 failed',
  ]);
});

it('tells a file that failed and then passed alone as flaky, with its first failure, and goes on', () => {
  const steps = [step([passing, failing])];
  const { lines, passed } = judge(steps, ranAgain(steps, true));
  expect(passed).toBe(true);
  expect(lines.join('\n')).toContain('FLAKY test/a/two.test.ts: is right\nit is 2');
  expect(lines.at(-1)).toBe('7 passed, 0 failed');
});

it('fails where a file fails alone too', () => {
  const steps = [step([passing, failing])];
  const { lines, passed } = judge(steps, ranAgain(steps, false));
  expect(passed).toBe(false);
  expect(lines.join('\n')).toContain('FAILED npm test: test/a/two.test.ts: is right\nit is 2');
  expect(lines.at(-1)).toBe('6 passed, 1 failed');
});

it.each([
  [3, true],
  [4, false],
])('with %i flaky files, passes: %s', (count, passes) => {
  const files = Array.from({ length: count }, (_, at) => ({ ...failing, file: `test/a/${at}.test.ts` }));
  const steps = [step(files)];
  expect(judge(steps, ranAgain(steps, true)).passed).toBe(passes);
});

it('fails where a test was skipped, unless the step selects tests by name', () => {
  expect(judge([step([skipping])], []).lines.at(-1)).toBe('3 passed, 1 failed');
  expect(judge([step([skipping], { maySkip: true })], []).passed).toBe(true);
});

it('fails where a step without tests fails, and shows the end of its output', () => {
  const { lines, passed } = judge([step([passing]), step([passing], { name: 'check', code: 2 })], []);
  expect(passed).toBe(false);
  expect(lines).toContain('FAILED check ended with exit code 2; its last output:\nthe end');
});

it('fails where a file cannot be loaded, and where an error comes from outside of all tests', () => {
  const unloaded = step([{ ...passing, passed: 0, message: 'SyntaxError' }], { code: 1 });
  expect(failedFiles(unloaded)).toMatchObject([{ file: 'test/a/one.test.ts', first: 'SyntaxError' }]);
  expect(judge([unloaded], ranAgain([unloaded], false)).passed).toBe(false);
  const outside: Ended = { ...step([passing], { code: 1 }), report: reportOf([passing], ['unhandled']) };
  expect(judge([outside], []).lines.join('\n')).toContain('an error outside of all tests: unhandled');
});

it('fails where no test ran', () => {
  expect(judge([step([])], []).passed).toBe(false);
});

it('has one line for a folder, and names skipped tests by reason', () => {
  expect(formatFolder('a', [passing, skipping])).toBe(
    ' ✓ a                        2 files      6 passed, 1 skipped  3.0 s',
  );
  expect(formatFolder('a', [failing])).toMatch(/^ ✗ a .* 3 passed, 1 FAILED/);
  expect(formatSkipped([passing, skipping])).toEqual([
    'Skipped: 1 test',
    '  needs ffprobe:',
    '    test/a/three.test.ts: plays',
  ]);
  expect(formatSkipped([passing])).toEqual([]);
});
