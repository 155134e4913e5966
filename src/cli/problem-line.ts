/** How commands print what is wrong with a configuration: one line each, as compilers do. */

import type { Problem } from '../config/problems.ts';

/** `file: path: message`; without a file the program itself speaks of its command line. */
export function formatProblem(file: string | undefined, problem: Problem): string {
  return [file ?? 'rangeway', ...(problem.path === '' ? [] : [problem.path]), problem.message].join(': ');
}
