/** Compares the figures of Rangeway with its goals. */

import { subject, type WorkloadResult, yardstickOf } from './rounds.ts';
import { formatFigure, formatTable } from './table.ts';
import { type Goal, workloadLabel } from './workloads/workload.ts';

/** The outcome of one goal in one run. */
export interface Verdict {
  readonly workload: string;
  /** The figure and its bounds: `req/s ÷ nginx ≥ 1`. */
  readonly goal: string;
  /** Undefined where it was not measured: a ratio without nginx, for instance. */
  readonly figure: number | undefined;
  readonly digits: number;
  /** Undefined where there is no figure. */
  readonly isMet: boolean | undefined;
  readonly isCounted: boolean;
}

/** Judges all goals of these results. */
export function judge(results: readonly WorkloadResult[]): readonly Verdict[] {
  return results.flatMap((result) => result.workload.goals.map((goal) => judgeOne(result, goal)));
}

function judgeOne({ workload, peers }: WorkloadResult, goal: Goal): Verdict {
  const { key, of, atLeast, atMost } = goal;
  const yardstick = yardstickOf(workload);
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

/** Returns a figure divided by the reference; undefined where one of them is undefined, or the reference is 0. */
export function ratioOf(value: number | undefined, reference: number | undefined): number | undefined {
  return value === undefined || reference === undefined || reference === 0 ? undefined : value / reference;
}

/** Formats a row for each goal: its figure in each run, and whether every run met it; undefined where there are no goals. */
export function formatVerdicts(runs: readonly (readonly Verdict[])[]): string | undefined {
  const rows = verdictRows(runs);
  return rows.length === 0 ? undefined : `goals\n${formatTable([['', '', ...numbered(runs), ''], ...rows])}`;
}

/** Returns a row for each goal: workload, goal, a figure for each run, and the outcome. */
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

/** Returns the column headings of the figures, one for each run. */
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

/** Returns a sentence for each counted goal that was missed or not measured. It fails a short run on any machine. */
export function missedCounts(verdicts: readonly Verdict[]): readonly string[] {
  return verdicts
    .filter(({ isCounted, isMet }) => isCounted && isMet !== true)
    .map(({ workload, goal, figure, digits }) => `${workload}: ${goal} is ${formatFigure(figure, digits)}`);
}
