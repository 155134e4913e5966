/** The goals that Rangeway has to reach, and whether it has. */

import { subject, type WorkloadResult, yardstick } from './rounds.ts';
import { formatFigure, formatTable } from './table.ts';
import { type Goal, workloadLabel } from './workloads/workload.ts';

/** What became of one goal in one run. */
export interface Verdict {
  readonly workload: string;
  /** What is bounded, and how: `req/s ÷ nginx ≥ 1.0`. */
  readonly goal: string;
  /** Undefined where it could not be had: a ratio without nginx, for instance. */
  readonly figure: number | undefined;
  readonly digits: number;
  /** Undefined where there is no figure. */
  readonly isMet: boolean | undefined;
  readonly isCounted: boolean;
}

/** Judges all goals of what was measured. */
export function judge(results: readonly WorkloadResult[]): readonly Verdict[] {
  return results.flatMap((result) => result.workload.goals.map((goal) => judgeOne(result, goal)));
}

function judgeOne({ workload, peers }: WorkloadResult, goal: Goal): Verdict {
  const { key, of, atLeast, atMost } = goal;
  const { label = key, digits = 3 } = workload.metrics.find((metric) => metric.key === key) ?? {};
  const own = peers.find(({ name }) => name === subject)?.median[key];
  const figure = of === 'figure' ? own : ratioOf(own, peers.find(({ name }) => name === yardstick)?.median[key]);
  const isMet =
    figure === undefined
      ? undefined
      : figure >= (atLeast ?? Number.NEGATIVE_INFINITY) && figure <= (atMost ?? Number.POSITIVE_INFINITY);
  const bounds = [atLeast === undefined ? '' : `≥ ${atLeast}`, atMost === undefined ? '' : `≤ ${atMost}`];
  const what = of === 'figure' ? label : `${label} ÷ ${yardstick}`;
  return {
    workload: workloadLabel(workload),
    goal: `${what} ${bounds.join(' ').trim()}`,
    figure,
    digits: of === 'figure' ? digits : 2,
    isMet,
    isCounted: goal.isCounted ?? false,
  };
}

/** One figure as a multiple of another. */
export function ratioOf(value: number | undefined, reference: number | undefined): number | undefined {
  return value === undefined || reference === undefined || reference === 0 ? undefined : value / reference;
}

/** A row for each goal: its figure in each run, and whether it was met in every one; undefined where there are no goals. */
export function formatVerdicts(runs: readonly (readonly Verdict[])[]): string | undefined {
  const rows = verdictRows(runs);
  return rows.length === 0 ? undefined : `goals\n${formatTable([['', '', ...numbered(runs), ''], ...rows])}`;
}

/** The cells of these rows: workload, goal, figures, and what became of it. */
export function verdictRows(runs: readonly (readonly Verdict[])[]): readonly (readonly string[])[] {
  const keyOf = ({ workload, goal }: Verdict) => `${workload}\n${goal}`;
  const byGoal = Map.groupBy(runs.flat(), keyOf);
  return [...byGoal.values()].map((verdicts) => {
    const [first] = verdicts;
    const figures = runs.map((run) => run.find((each) => first !== undefined && keyOf(each) === keyOf(first)));
    return [
      first?.workload ?? '',
      first?.goal ?? '',
      ...figures.map((each) => formatFigure(each?.figure, each?.digits ?? 0)),
      outcomeOf(figures),
    ];
  });
}

/** The heads of the columns of figures. */
export function numbered(runs: readonly unknown[]): readonly string[] {
  return runs.length === 1 ? ['figure'] : runs.map((_, index) => `run ${index + 1}`);
}

function outcomeOf(verdicts: readonly (Verdict | undefined)[]): string {
  const known = verdicts.filter((each) => each?.isMet !== undefined);
  const met = known.filter((each) => each?.isMet === true).length;
  if (known.length === 0) return 'not measured';
  if (met === verdicts.length) return 'met';
  return verdicts.length === 1 ? 'MISSED' : `MISSED in ${verdicts.length - met} of ${verdicts.length}`;
}

/** What is counted and was not reached, a sentence each: a failure on any machine. */
export function missedCounts(verdicts: readonly Verdict[]): readonly string[] {
  return verdicts
    .filter(({ isCounted, isMet }) => isCounted && isMet !== true)
    .map(({ workload, goal, figure, digits }) => `${workload}: ${goal} is ${formatFigure(figure, digits)}`);
}
