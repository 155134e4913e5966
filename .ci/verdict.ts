/** What CI concludes from its steps: which test files run once more, what is flaky, and the text at the end. */

import type { TestReport } from '../test/support/reports/test-report.ts';

/** A step that has ended. */
export interface Ended {
  readonly name: string;
  readonly code: number;
  readonly wallSeconds: number;
  /** Processor time in programs and in the kernel, of the command and of all that it waited for. */
  readonly processorSeconds: number;
  /** Undefined for a command without a report, and for one that ended before it wrote it. */
  readonly report?: TestReport;
  /** The end of the output, for a step that fails without a failed test. */
  readonly lastOutput: string;
  /** True for a step that selects tests by name, which skips the others of their file. */
  readonly maySkip?: boolean;
}

/** A test file that failed in a step. */
export interface FailedFile {
  readonly step: string;
  readonly file: string;
  readonly project: string;
  /** Name and message of the first failed test, or the message of the file. */
  readonly first: string;
  readonly failedTests: number;
}

/** A failed file that ran once more, alone. */
export interface Again extends FailedFile {
  readonly passed: boolean;
}

/** What CI says at its end. */
export interface Verdict {
  readonly lines: readonly string[];
  readonly passed: boolean;
}

/** More flaky files than this are a failure. */
export const maxFlakyFiles = 3;

/** Returns the failed test files of a step; none for a step whose tests are not in files that can run alone. */
export function failedFiles({ name, report }: Ended): FailedFile[] {
  return (report?.testResults ?? []).flatMap(({ name: file, project, status, message, assertionResults }) => {
    if (status !== 'failed' || project === undefined) return [];
    const failed = assertionResults.filter((test) => test.status === 'failed');
    const [test] = failed;
    const first = test === undefined ? message : `${test.fullName}\n${(test.failureMessages ?? []).join('\n')}`;
    return [{ step: name, file, project, first: first.slice(0, 2000), failedTests: failed.length }];
  });
}

/** Returns the table of all steps, every failure and flaky file, and the closing line. */
export function judge(steps: readonly Ended[], again: readonly Again[]): Verdict {
  const flaky = again.filter((file) => file.passed);
  const failures = steps.flatMap((step) => failuresOf(step, again));
  if (flaky.length > maxFlakyFiles) {
    failures.push({ text: `${flaky.length} flaky test files; more than ${maxFlakyFiles} are a failure`, count: 1 });
  }
  const failed = failures.reduce((sum, { count }) => sum + count, 0);
  const passed = steps.reduce((sum, { report }) => sum + (report?.numPassedTests ?? 0), 0) + sumOfTests(flaky);
  return {
    lines: [
      ...table(steps),
      ...flaky.map(({ file, first, step }) => `FLAKY ${file}: ${first}\n  (it failed in "${step}", and passed alone)`),
      ...failures.map(({ text }) => `FAILED ${text}`),
      `${passed} passed, ${failed} failed`,
    ],
    passed: passed > 0 && failed === 0,
  };
}

interface Failure {
  readonly text: string;
  readonly count: number;
}

/** A step that failed without a failed test, or without a report, is one failure. */
function failuresOf(step: Ended, again: readonly Again[]): Failure[] {
  const { name, code, report, lastOutput, maySkip } = step;
  const mine = again.filter((file) => file.step === name);
  const failures = mine
    .filter((file) => !file.passed)
    .map(({ file, first, failedTests }) => ({ text: `${name}: ${file}: ${first}`, count: Math.max(1, failedTests) }));
  const elsewhere = (report?.testResults ?? []).filter(
    (file) => file.status === 'failed' && file.project === undefined,
  );
  for (const { name: file, message, assertionResults } of elsewhere) {
    const tests = assertionResults.filter((test) => test.status === 'failed');
    const text = tests.map(({ fullName, failureMessages = [] }) => `${fullName}\n${failureMessages.join('\n')}`);
    failures.push({
      text: `${name}: ${file}: ${[message, ...text].join('\n').slice(0, 2000)}`,
      count: Math.max(1, tests.length),
    });
  }
  const skipped = maySkip === true || report === undefined ? 0 : report.numPendingTests + report.numTodoTests;
  if (skipped > 0)
    failures.push({ text: `${name}: ${skipped} tests were skipped; no test may be skipped`, count: skipped });
  if (code !== 0 && failures.length === 0 && mine.length === 0) {
    failures.push({ text: `${name} ended with exit code ${code}; its last output:\n${lastOutput}`, count: 1 });
  }
  return failures;
}

function table(steps: readonly Ended[]): string[] {
  const rows = steps.map(({ name, wallSeconds, processorSeconds, report, maySkip }) => [
    name,
    wallSeconds.toFixed(0),
    processorSeconds.toFixed(0),
    report === undefined ? '-' : String(report.numPassedTests + report.numFailedTests),
    report === undefined || maySkip === true ? '-' : String(report.numPendingTests + report.numTodoTests),
  ]);
  const total = steps.reduce((sum, { processorSeconds }) => sum + processorSeconds, 0);
  const all = [['step', 'wall s', 'processor s', 'tests', 'skipped'], ...rows, ['all', '', total.toFixed(0), '', '']];
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}

function sumOfTests(files: readonly FailedFile[]): number {
  return files.reduce((sum, { failedTests }) => sum + failedTests, 0);
}
