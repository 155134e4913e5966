/** The files that a run leaves in `results/`: as data, as a picture and as Markdown. */

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

/** All that came of a run of the benchmark. */
export interface BenchResults extends RunDescription {
  readonly options: BenchOptions;
  /** One for each time that it was repeated. */
  readonly runs: readonly { readonly results: readonly WorkloadResult[]; readonly verdicts: readonly Verdict[] }[];
  readonly evictions: readonly EvictionResult[];
  readonly faults: readonly string[];
}

/** Writes `latest.json`, `latest.md`, and `latest.svg` where something was compared. */
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
