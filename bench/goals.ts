/** Amplification: the figures side by side, and the goals that Rangeway has to reach. */

import { subject, type WorkloadResult } from './rounds.ts';
import { formatFigure, formatTable } from './table.ts';
import type { Metric } from './workloads/workload.ts';

/** The results as a table; undefined when there are none. */
export function formatAmplification(results: readonly WorkloadResult[]): string | undefined {
  const amplifications = results.filter(({ workload }) => workload.kind === 'amplification');
  if (amplifications.length === 0) return undefined;
  const names = [...new Set(amplifications.flatMap(({ peers }) => peers.map(({ name }) => name)))];
  const rows = amplifications.map(({ workload, peers }) => {
    const [amplification, perBlocks] = workload.metrics;
    const goalMetric = workload.metrics.find(({ key }) => key === workload.goal?.key);
    const cell = (name: string, metric: Metric | undefined) =>
      formatFigure(metric && peers.find((peer) => peer.name === name)?.median[metric.key], metric?.digits ?? 0);
    const goal = workload.goal === undefined ? '' : `${goalMetric?.label ?? ''} ≤ ${workload.goal.atMost}`;
    return [workload.name, goal, ...names.flatMap((name) => [cell(name, amplification), cell(name, perBlocks)])];
  });
  const head = ['', 'goal', ...names.flatMap((name) => [name, '÷ blocks'])];
  const title =
    'amplification: bytes that the origin sent ÷ distinct bytes that clients got; ÷ bytes of the blocks touched';
  return `${title}\n${formatTable([head, ...rows])}`;
}

/** What Rangeway has not reached, a sentence each. */
export function missedGoals(results: readonly WorkloadResult[]): readonly string[] {
  return results.flatMap(({ workload: { name, goal, metrics }, peers }) => {
    const figure = goal && peers.find((peer) => peer.name === subject)?.median[goal.key];
    if (goal === undefined || (figure !== undefined && figure <= goal.atMost)) return [];
    const { label = goal.key, digits = 3 } = metrics.find(({ key }) => key === goal.key) ?? {};
    return [`${name}: ${label} is ${formatFigure(figure, digits)}, not at most ${goal.atMost}`];
  });
}
