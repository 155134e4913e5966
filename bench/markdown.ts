/** The results as Markdown, to be pasted into a document. */

import { numbered, ratioOf, type Verdict, verdictRows } from './goals.ts';
import { floorName } from './peers/floor.ts';
import { costHeads, costRows, workloadRows } from './report.ts';
import { subject, type WorkloadResult, yardstick } from './rounds.ts';
import { formatFigure } from './table.ts';
import { type Measurement, workloadLabel } from './workloads/workload.ts';

/** The command, the machine and the peers of a run. */
export interface RunDescription {
  readonly command: string;
  readonly machine: string;
  readonly peers: readonly { readonly name: string; readonly version: string }[];
}

/** Formats the goals, the rates, the processor times, and the tables of workloads with rows of their own, as medians of all rounds. */
export function formatMarkdown(
  { command, machine, peers }: RunDescription,
  results: readonly WorkloadResult[],
  runs: readonly (readonly Verdict[])[],
): string {
  const goals = table([['', 'goal', ...numbered(runs), ''], ...verdictRows(runs)]);
  const versions = peers.map(({ name, version }) => `${name} ${version}`).join(', ');
  const rates = ratioRows(results);
  const costs = costRows(results);
  const own = results.filter(({ workload }) => workload.rows !== undefined);
  return [
    `\`${command}\`\n\n${versions}. ${machine}`,
    ...(runs.flat().length === 0 ? [] : [goals]),
    ...(rates === undefined ? [] : [table(rates)]),
    ...(costs.length === 0 ? [] : [`Processor time for each request, in µs:\n\n${table([costHeads, ...costs])}`]),
    ...own.map((result) => {
      return `${workloadLabel(result.workload)}: ${result.workload.title}\n\n${table(workloadRows(result))}`;
    }),
  ]
    .map((part) => `${part}\n`)
    .join('\n');
}

/**
 * Returns a row for each workload whose rate was compared with nginx: the rates of Rangeway and nginx, then the ratios of
 * rate and processor time to nginx, for each peer but the floor.
 */
function ratioRows(results: readonly WorkloadResult[]): readonly (readonly string[])[] | undefined {
  const compared = results.filter(({ workload, peers }) => {
    return workload.metrics[0]?.key === 'rate' && peers.some(({ name }) => name === yardstick);
  });
  if (compared.length === 0) return undefined;
  const all = new Set(compared.flatMap(({ peers }) => peers.map(({ name }) => name)));
  const others = [...all].filter((name) => name !== yardstick && name !== floorName);
  const rows = compared.map(({ workload, peers }) => {
    const [main, cpu] = workload.metrics;
    const medianOfPeer = (name: string): Measurement => peers.find((peer) => peer.name === name)?.median ?? {};
    const figure = (name: string) => formatFigure(main && medianOfPeer(name)[main.key], main?.digits ?? 0);
    const ratio = (name: string, key = '') =>
      formatFigure(ratioOf(medianOfPeer(name)[key], medianOfPeer(yardstick)[key]), 2);
    const ratios = others.flatMap((name) => [ratio(name, main?.key), ratio(name, cpu?.key)]);
    return [
      `${workloadLabel(workload)}: ${workload.title}`,
      main?.label ?? '',
      figure(subject),
      figure(yardstick),
      ...ratios,
    ];
  });
  const heads = others.flatMap((name) => [`${name} ÷ ${yardstick}`, 'CPU']);
  return [['workload', 'figure', subject, yardstick, ...heads], ...rows];
}

function table([head = [], ...rows]: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
