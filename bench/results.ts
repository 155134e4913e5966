/** Writes the files of a run in `results/`: JSON, Markdown and an SVG chart. */

import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatChart } from './chart.ts';
import type { EvictionResult } from './eviction.ts';
import type { Verdict } from './goals.ts';
import { formatMarkdown, type RunDescription } from './markdown.ts';
import { mergeRuns } from './merge-runs.ts';
import type { BenchOptions } from './options.ts';
import { floorName } from './peers/floor.ts';
import { toJson } from './report.ts';
import type { WorkloadResult } from './rounds.ts';

/** The results of a benchmark run. */
export interface BenchResults extends RunDescription {
  readonly options: BenchOptions;
  /** One for each repetition (`--repeat`). */
  readonly runs: readonly { readonly results: readonly WorkloadResult[]; readonly verdicts: readonly Verdict[] }[];
  readonly evictions: readonly EvictionResult[];
  readonly faults: readonly string[];
}

/** Writes `latest.json` and `latest.md`, and `latest.svg` where rates were compared with nginx. */
export function writeResults(dir: string, { options, runs, evictions, faults, ...description }: BenchResults): void {
  mkdirSync(dir, { recursive: true });
  const merged = mergeRuns(runs.map(({ results }) => results));
  const json = {
    at: new Date().toISOString(),
    ...description,
    options,
    runs: runs.map(({ results, verdicts }) => ({ workloads: toJson(results), goals: verdicts })),
    evictions,
    faults,
  };
  writeFileSync(join(dir, 'latest.json'), `${JSON.stringify(json, undefined, 2)}\n`);
  const verdicts = runs.map((run) => run.verdicts);
  writeFileSync(join(dir, 'latest.md'), formatMarkdown(description, merged, verdicts));
  const chart = formatChart(
    merged.map((result) => ({ ...result, peers: result.peers.filter(({ name }) => name !== floorName) })),
  );
  if (chart === undefined) rmSync(join(dir, 'latest.svg'), { force: true });
  else writeFileSync(join(dir, 'latest.svg'), chart);
}
