/** The report of a run: Markdown, and an SVG with its plots. Pure. */

import type { Mark } from './disturb.ts';
import type { LoadCounts } from './load.ts';
import { drawPlots } from './plots.ts';
import { percentile, type Sample } from './samples.ts';
import type { Ruling } from './verdict.ts';

/** What a report tells. */
export interface SoakReport {
  readonly seed: number;
  readonly seconds: number;
  readonly samples: readonly Sample[];
  readonly marks: readonly Mark[];
  readonly counts: LoadCounts;
  readonly rulings: readonly Ruling[];
  /** Kinds of disturbances that this system cannot do. */
  readonly skipped: readonly string[];
  readonly originRequests: number;
  /** Share of one core that the server, and that clients and origins took. */
  readonly serverCores: number;
  readonly generatorCores: number;
}

const mebibyte = 1024 * 1024;

/** Writes the report as Markdown. `plots` is the path of the SVG. */
export function formatReport(report: SoakReport, plots: string): string {
  const { seed, seconds, counts, rulings, marks, skipped, samples } = report;
  const { hit, miss, error, refused } = counts.outcomes;
  const broken = rulings.filter(({ breaches }) => breaches.length > 0);
  const p99 = samples.map(({ p99Ms }) => p99Ms).sort((a, b) => a - b);
  const p50 = samples.map(({ p50Ms }) => p50Ms).sort((a, b) => a - b);
  const performed = countBy(marks.map(({ kind }) => kind));
  const lines = [
    `# Soak: ${formatMinutes(seconds)}, seed ${seed}`,
    '',
    broken.length === 0
      ? `All ${rulings.length} rules were kept.`
      : `**${broken.length} of ${rulings.length} rules were broken.**`,
    ...(skipped.length === 0 ? [] : ['', `Not done, because this system does not allow it: ${skipped.join(', ')}.`]),
    '',
    `![Plots of the run](${plots})`,
    '',
    '| figure | value |',
    '| --- | --- |',
    `| answers | ${hit + miss} (${percent(hit, hit + miss)} hits), ${error} errors, ${refused} hostile heads |`,
    `| bytes checked | ${(counts.bytes / mebibyte).toFixed(0)} MiB |`,
    `| requests to the origins | ${report.originRequests} |`,
    `| answers that a fault explains: cut, or an error | ${counts.explained} |`,
    `| time to the head, medians of the samples | ${p50.length === 0 ? '' : `${percentile(p50, 0.5).toFixed(1)} ms (p50), ${percentile(p99, 0.5).toFixed(0)} ms (p99, with slow and hanging origins)`} |`,
    `| processor | ${report.serverCores.toFixed(2)} cores for the server, ${report.generatorCores.toFixed(2)} for clients and origins |`,
    `| clients left out, because too many were under way | ${counts.leftOut} |`,
    '',
    '| rule | figure | kept |',
    '| --- | --- | --- |',
    ...rulings.map(
      ({ rule, figure, breaches }) => `| ${rule} | ${figure} | ${breaches.length === 0 ? 'yes' : '**no**'} |`,
    ),
    '',
    '| clients | number | | disturbance | number |',
    '| --- | --- | --- | --- | --- |',
    ...beside(
      [...counts.actions].sort(([, a], [, b]) => b - a),
      [...performed].sort(([, a], [, b]) => b - a),
    ),
    '',
  ];
  for (const { rule, breaches } of broken) {
    lines.push(`## Broken: ${rule}`, '', ...breaches.map((breach) => `- ${breach.replaceAll('\n', ' ')}`), '');
  }
  return lines.join('\n');
}

/** Draws the plots of a run. */
export function drawReport({ seed, seconds, samples, marks }: SoakReport): string {
  const of = (value: (sample: Sample) => number) => samples.map(value);
  const mib = (value: number) => `${(value / mebibyte).toFixed(0)} MiB`;
  const whole = (value: number) => value.toFixed(0);
  return drawPlots(
    `Soak of ${formatMinutes(seconds)}, seed ${seed}`,
    of(({ atMs }) => atMs),
    [
      {
        title: 'Resident memory of all processes',
        lines: [{ name: '', values: of(({ residentBytes }) => residentBytes) }],
        format: mib,
      },
      {
        title: 'Descriptors, connections',
        lines: [
          { name: 'open descriptors', values: of(({ descriptors }) => descriptors) },
          { name: 'client connections', values: of(({ connections }) => connections) },
        ],
        format: whole,
      },
      {
        title: 'Store',
        lines: [{ name: 'bytes on the disk', values: of(({ storeBytes }) => storeBytes) }],
        format: mib,
      },
      { title: 'Stored entries', lines: [{ name: '', values: of(({ entries }) => entries) }], format: whole },
      {
        title: 'Answers per second',
        lines: (['hit', 'miss', 'error', 'refused'] as const).map((name) => ({
          name,
          values: of(({ perSecond }) => perSecond[name]),
        })),
        format: whole,
      },
      {
        title: 'Milliseconds to the head',
        lines: [
          { name: 'p50', values: of(({ p50Ms }) => p50Ms) },
          { name: 'p99', values: of(({ p99Ms }) => p99Ms) },
        ],
        format: (value) => `${value.toFixed(0)} ms`,
      },
      {
        title: 'Longest delay of an event loop',
        lines: [{ name: '', values: of(({ loopLagMs }) => loopLagMs) }],
        format: (value) => `${value.toFixed(0)} ms`,
      },
      {
        title: 'Hit ratio',
        lines: [{ name: '', values: of(({ hitShare }) => 100 * hitShare) }],
        format: (value) => `${value.toFixed(0)} %`,
      },
    ],
    // Purges are too many for a line each.
    marks.filter(({ kind }) => !kind.startsWith('purge')).map(({ atMs, kind }) => ({ atMs, group: groupOf(kind) })),
  );
}

/** Makes a report in vitest's form, in which each rule is a test. */
export function vitestReport(rulings: readonly Ruling[]): object {
  const assertionResults = rulings.map(({ rule, breaches }) => ({
    status: breaches.length === 0 ? 'passed' : 'failed',
    fullName: rule,
    failureMessages: breaches,
  }));
  const failed = assertionResults.filter(({ status }) => status === 'failed').length;
  return {
    numPassedTests: rulings.length - failed,
    numFailedTests: failed,
    numPendingTests: 0,
    numTodoTests: 0,
    testResults: [{ name: 'soak', status: failed === 0 ? 'passed' : 'failed', message: '', assertionResults }],
  };
}

function groupOf(kind: string): string {
  if (kind.startsWith('origin')) return 'origin fault';
  return kind.startsWith('reload') ? 'reload' : kind;
}

function beside(clients: readonly [string, number][], disturbances: readonly [string, number][]): string[] {
  const rows = Math.max(clients.length, disturbances.length);
  return Array.from({ length: rows }, (_, at) => {
    const [client = '', visits = ''] = clients[at] ?? [];
    const [disturbance = '', times = ''] = disturbances[at] ?? [];
    return `| ${client} | ${visits} | | ${disturbance} | ${times} |`;
  });
}

function countBy(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

function percent(part: number, whole: number): string {
  return whole === 0 ? '0 %' : `${((100 * part) / whole).toFixed(0)} %`;
}

function formatMinutes(seconds: number): string {
  return seconds >= 60 ? `${Number((seconds / 60).toFixed(1))} minutes` : `${seconds} seconds`;
}
