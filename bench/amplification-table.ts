/** The table of the amplification workloads. */

import type { WorkloadResult } from './rounds.ts';
import { formatFigure, formatTable } from './table.ts';
import type { Metric } from './workloads/workload.ts';

/** Formats the amplification results as a table; undefined when there are none. */
export function formatAmplification(results: readonly WorkloadResult[]): string | undefined {
  const amplifications = results.filter(({ workload }) => workload.kind === 'amplification');
  if (amplifications.length === 0) return undefined;
  const names = [...new Set(amplifications.flatMap(({ peers }) => peers.map(({ name }) => name)))];
  const rows = amplifications.map(({ workload, peers }) => {
    const [amplification, perBlocks] = workload.metrics;
    const cell = (name: string, metric: Metric | undefined) =>
      formatFigure(metric && peers.find((peer) => peer.name === name)?.median[metric.key], metric?.digits ?? 0);
    return [workload.name, ...names.flatMap((name) => [cell(name, amplification), cell(name, perBlocks)])];
  });
  const head = ['', ...names.flatMap((name) => [name, '÷ blocks'])];
  const title =
    'amplification: bytes that the origin sent ÷ distinct bytes that clients got; ÷ bytes of the blocks touched';
  return `${title}\n${formatTable([head, ...rows])}`;
}
