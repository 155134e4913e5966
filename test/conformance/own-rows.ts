/** Runs our own rows with vitest, and reads which of them passed. */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLine } from '../support/processes/rangeway-process.ts';
import type { Wait } from './public-suite.ts';
import type { Verdict } from './verdicts.ts';

/** The part of vitest's report that is read here. */
interface Report {
  readonly success: boolean;
  readonly testResults: readonly {
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly title: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

/** Returns the verdicts of the rows. `isGreen` says whether all tests of the folder passed: some of them are no rows. */
export async function runOwnRows(
  wait: Wait,
): Promise<{ readonly verdicts: readonly Verdict[]; readonly isGreen: boolean }> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-conformance-'));
  const file = join(dir, 'report.json');
  try {
    await using vitest = startLine(
      '"$NODE" node_modules/vitest/vitest.mjs run test/conformance --reporter=json --outputFile.json="$REPORT"',
      { NODE: process.execPath, REPORT: file },
    );
    await wait(vitest.ended());
    const report: Report = JSON.parse(await readFile(file, 'utf8'));
    return { verdicts: report.testResults.flatMap(verdictsOf), isGreen: report.success };
  } finally {
    await rm(dir, { recursive: true });
  }
}

/** The kind of a row is the first word of its title. */
function verdictsOf({ assertionResults }: Report['testResults'][number]): Verdict[] {
  return assertionResults.flatMap(({ title, fullName, status, failureMessages }) => {
    const [, kind] = /^(required|optimal): /.exec(title) ?? [];
    if (kind !== 'required' && kind !== 'optimal') return [];
    return [{ id: fullName, kind, passed: status === 'passed', detail: failureMessages.join('\n') }];
  });
}
