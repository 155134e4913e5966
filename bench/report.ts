/** Formats results as text tables and as JSON. */

import { ratioOf } from './goals.ts';
import { floorName } from './peers/floor.ts';
import { type PeerResult, subject, type WorkloadResult, yardstick, yardstickOf } from './rounds.ts';
import { formatFigure, formatTable } from './table.ts';
import { type Measurement, type Metric, workloadLabel } from './workloads/workload.ts';

/** Formats one workload: a row for each peer, and the reason for each peer that is left out. */
export function formatWorkload(result: WorkloadResult): string {
  const { workload, load, leftOut } = result;
  const heading = `${workloadLabel(workload)}: ${workload.title}${workload.kind === 'speed' ? ` (${load})` : ''}`;
  const table = formatTable(workloadRows(result));
  return [heading, table, ...leftOut.map(({ name, reason }) => `  ${name} is left out: ${reason}`)].join('\n');
}

/** Returns the table of one workload: headings, and a row for each peer. */
export function workloadRows({ workload, peers }: WorkloadResult): readonly (readonly string[])[] {
  const yardstick = yardstickOf(workload);
  const reference = peers.find(({ name }) => name === yardstick);
  const isCompared = reference !== undefined && peers.length > 1;
  const columns = workload.metrics.flatMap((metric, index) => [
    { label: metric.label, cell: ({ median }: PeerResult) => formatFigure(median[metric.key], metric.digits) },
    ...(metric.isCompared && isCompared
      ? [{ label: `÷ ${yardstick}`, cell: ({ median }: PeerResult) => formatRatio(median, reference.median, metric) }]
      : []),
    ...(index === 0 && workload.kind === 'speed'
      ? [{ label: '±', cell: ({ rounds }: PeerResult) => formatSpread(rounds, metric) }]
      : []),
  ]);
  const rows = peers.map((peer) => [peer.name, ...columns.map(({ cell }) => cell(peer))]);
  return [['', ...columns.map(({ label }) => label)], ...rows];
}

/** Formats the main figure and the ratios of each speed workload that compares peers; undefined when there are none. */
export function formatSummary(all: readonly WorkloadResult[]): string | undefined {
  const results = all.filter(({ workload }) => workload.kind === 'speed' && workload.rows === undefined);
  if (results.length === 0) return undefined;
  const names = [...new Set(results.flatMap(({ peers }) => peers.map(({ name }) => name)))];
  const others = names.filter((name) => name !== yardstick);
  const isCompared = names.includes(yardstick);
  const head = [
    'workload',
    'figure',
    ...names,
    ...(isCompared ? others.flatMap((name) => [`${name} ÷ ${yardstick}`, 'CPU']) : []),
  ];
  const rows = results.map(({ workload, peers }) => {
    const [main, second] = workload.metrics;
    const medianOfPeer = (name: string): Measurement => peers.find((peer) => peer.name === name)?.median ?? {};
    const ratio = (name: string, metric: Metric | undefined) =>
      metric?.isCompared === true ? formatRatio(medianOfPeer(name), medianOfPeer(yardstick), metric) : '';
    return [
      workloadLabel(workload),
      main?.label ?? '',
      ...names.map((name) => formatFigure(main && medianOfPeer(name)[main.key], main?.digits ?? 0)),
      ...(isCompared ? others.flatMap((name) => [ratio(name, main), ratio(name, second)]) : []),
    ];
  });
  return formatTable([head, ...rows]);
}

/**
 * Formats the processor time per request of nginx, Rangeway and the floor, and nginx's time divided by that of each;
 * undefined when no workload with a floor was run.
 */
export function formatCosts(results: readonly WorkloadResult[]): string | undefined {
  const rows = costRows(results);
  return rows.length === 0 ? undefined : `processor time for each request, in µs\n${formatTable([costHeads, ...rows])}`;
}

/** Column headings of `costRows`. */
export const costHeads = [
  '',
  yardstick,
  subject,
  floorName,
  `${yardstick} ÷ ${subject}`,
  `${yardstick} ÷ ${floorName}`,
];

/** Returns a row for each workload with a floor that measured processor time: times in µs, then ratios. */
export function costRows(results: readonly WorkloadResult[]): readonly (readonly string[])[] {
  return results
    .filter(({ workload, peers }) => {
      return workload.hasFloor === true && peers.length > 1 && workload.metrics.some(({ key }) => key === 'cpu');
    })
    .map(({ workload, peers }) => {
      const [nginx, own, floor] = [yardstick, subject, floorName].map((name) => {
        return peers.find((peer) => peer.name === name)?.median['cpu'];
      });
      const ratios = [own, floor].map((cpu) => formatFigure(ratioOf(nginx, cpu), 2));
      return [workloadLabel(workload), ...[nginx, own, floor].map((cpu) => formatFigure(cpu, 1)), ...ratios];
    });
}

/** Returns the results as data for JSON: the figures of each round, the medians, and the ratios to nginx, or to the row that the workload names. */
export function toJson(results: readonly WorkloadResult[]): unknown {
  return results.map(({ workload, load, peers, leftOut }) => {
    const reference = peers.find(({ name }) => name === yardstickOf(workload));
    return {
      name: workload.name,
      number: workload.number,
      title: workload.title,
      load,
      peers: peers.map(({ name, rounds, median }) => ({
        name,
        median,
        ratios: Object.fromEntries(
          workload.metrics
            .filter(({ isCompared }) => isCompared && reference !== undefined)
            .map(({ key }) => [key, ratioOf(median[key], reference?.median[key])]),
        ),
        rounds,
      })),
      leftOut,
    };
  });
}

function formatRatio(median: Measurement, reference: Measurement, { key }: Metric): string {
  return formatFigure(ratioOf(median[key], reference[key]), 2);
}

/** Returns half the range of the rounds, in percent of the middle of the range: how far to trust the median. */
function formatSpread(rounds: readonly Measurement[], { key }: Metric): string {
  const values = rounds.map((round) => round[key]).filter((value) => value !== undefined);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return values.length < 2 ? '–' : `${formatFigure(((most - least) / (most + least)) * 100, 0)} %`;
}
