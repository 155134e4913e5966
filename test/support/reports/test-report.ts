/** What a run of tests told: lines for people, and a report in the form of Vitest's own JSON, which all steps of CI write. */

/** The tests of one file in one project. */
export interface FileReport {
  readonly file: string;
  readonly project: string;
  readonly durationMs: number;
  readonly passed: number;
  readonly failed: readonly { readonly name: string; readonly messages: readonly string[] }[];
  readonly skipped: readonly { readonly name: string; readonly reason: string }[];
  /** Why the file itself failed, for example a syntax error; empty where it did not. */
  readonly message: string;
}

/** The report of a step in Vitest's form. `project` is ours; reports of other programs have none. */
export interface TestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly TestFileResult[];
}

/** A file of a report. */
export interface TestFileResult {
  readonly name: string;
  readonly project?: string;
  readonly status: string;
  readonly message: string;
  readonly assertionResults: readonly {
    readonly status: string;
    readonly fullName: string;
    readonly failureMessages?: readonly string[];
  }[];
}

/** Returns the line of a folder whose files have all ended. */
export function formatFolder(name: string, files: readonly FileReport[]): string {
  const passed = sum(files, (file) => file.passed);
  const failed = sum(files, (file) => file.failed.length + (file.message === '' ? 0 : 1));
  const skipped = sum(files, (file) => file.skipped.length);
  const seconds = (sum(files, (file) => file.durationMs) / 1000).toFixed(1);
  const more = [failed > 0 ? `, ${failed} FAILED` : '', skipped > 0 ? `, ${skipped} skipped` : ''].join('');
  const counts = `${String(files.length).padStart(3)} ${files.length === 1 ? 'file ' : 'files'}  ${String(passed).padStart(5)} passed${more}`;
  return ` ${failed > 0 ? '✗' : '✓'} ${name.padEnd(22)} ${counts}  ${seconds} s`;
}

/** Returns the lines that name every skipped test, by reason; none where no test was skipped. */
export function formatSkipped(files: readonly FileReport[]): string[] {
  const all = files.flatMap(({ file, skipped }) => skipped.map((test) => ({ file, ...test })));
  if (all.length === 0) return [];
  const reasons = Map.groupBy(all, ({ reason }) => (reason === '' ? 'no reason was given' : reason));
  return [
    `Skipped: ${all.length} ${all.length === 1 ? 'test' : 'tests'}`,
    ...[...reasons].flatMap(([reason, tests]) => [
      `  ${reason}:`,
      ...tests.map(({ file, name }) => `    ${file}: ${name}`),
    ]),
  ];
}

/** Returns the report of a run. An error outside of all tests counts as a failed file without a test. */
export function reportOf(files: readonly FileReport[], unhandledErrors: readonly string[]): TestReport {
  const outside = unhandledErrors.map((message) => ({
    name: 'an error outside of all tests',
    status: 'failed',
    message,
    assertionResults: [],
  }));
  return {
    numPassedTests: sum(files, (file) => file.passed),
    numFailedTests: sum(files, (file) => file.failed.length),
    numPendingTests: sum(files, (file) => file.skipped.length),
    numTodoTests: 0,
    testResults: [...files.map(resultOf), ...outside],
  };
}

function resultOf({ file, project, failed, skipped, message }: FileReport): TestFileResult {
  return {
    name: file,
    project,
    status: failed.length > 0 || message !== '' ? 'failed' : 'passed',
    message,
    assertionResults: [
      ...failed.map(({ name, messages }) => ({ status: 'failed', fullName: name, failureMessages: messages })),
      ...skipped.map(({ name, reason }) => ({ status: 'skipped', fullName: name, failureMessages: [reason] })),
    ],
  };
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}
