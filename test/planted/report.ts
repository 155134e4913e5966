/** What came of planted faults, as text and as a report in Vitest's form. */

import type { TestReport } from '../support/reports/test-report.ts';
import type { PlantedFault } from './fault.ts';

/** A failed test. */
export interface Failure {
  /** From `test/`. */
  readonly file: string;
  readonly test: string;
  readonly message: string;
}

/** What came of one fault, or of the tests without a fault. */
export interface Outcome {
  /** The name of the fault; undefined without a fault. */
  readonly fault: PlantedFault | undefined;
  readonly failures: readonly Failure[];
  /** Files that could not be loaded, with the reason. A fault that breaks its file proves nothing. */
  readonly broken: readonly string[];
  readonly passed: number;
}

/** Whether tests found the fault, or all passed where there is none. */
export function isRight({ fault, failures, broken, passed }: Outcome): boolean {
  return fault === undefined ? failures.length + broken.length === 0 && passed > 0 : failures.length > 0;
}

/** Describes an outcome in one or several lines. */
export function describeOutcome(outcome: Outcome): string {
  const { fault, failures, broken, passed } = outcome;
  if (fault === undefined) {
    if (isRight(outcome)) return `without a fault: all ${passed} tests passed`;
    const problems = failures.map(({ file, test, message }) => `${file}: ${test}: ${message}`);
    return ['FAILED without a fault:', ...problems, ...broken].join('\n  ');
  }
  const wire = fault.wire === undefined ? '' : ` over ${fault.wire}`;
  const [first] = failures;
  if (first !== undefined)
    return `${fault.name}: found${wire} by ${first.file}: ${first.test}${andMore(failures.length)}`;
  return [`${fault.name}: NOT FOUND${wire} by ${fault.tests.join(', ')}. ${fault.breaks}`, ...broken].join('\n  ');
}

function andMore(found: number): string {
  return found === 1 ? '' : `, and ${found - 1} more`;
}

/** Returns the report of a run: each fault is a test, and so are all tests without a fault together. */
export function vitestReport(outcomes: readonly Outcome[]): TestReport {
  const assertionResults = outcomes.map((outcome) => ({
    status: isRight(outcome) ? 'passed' : 'failed',
    fullName: outcome.fault === undefined ? 'the tests pass without a fault' : `${outcome.fault.name} is found`,
    failureMessages: isRight(outcome) ? [] : [describeOutcome(outcome)],
  }));
  const failed = assertionResults.filter(({ status }) => status === 'failed').length;
  return {
    numPassedTests: outcomes.length - failed,
    numFailedTests: failed,
    numPendingTests: 0,
    numTodoTests: 0,
    testResults: [{ name: 'planted', status: failed === 0 ? 'passed' : 'failed', message: '', assertionResults }],
  };
}
