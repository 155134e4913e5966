/** The command line of the benchmark. */

import { parseArgs } from 'node:util';

/** What is to be run, and how. */
export interface BenchOptions {
  /** Names of workloads, or what several begin with; empty for all. */
  readonly only: readonly string[];
  /** How long one round of a steady workload lasts. */
  readonly seconds: number;
  readonly rounds: number;
  /** Small files and one short round: for what is checked, not for what is measured. */
  readonly isShort: boolean;
  /** `auto` takes for each workload what suits it and is installed. */
  readonly load: 'auto' | 'wrk' | 'node';
  /** Another checkout of Rangeway, measured as a further peer. */
  readonly against: string | undefined;
  /** Whether Rangeway's functions are listed by the time that they take. A profiled run is slower. */
  readonly isProfiled: boolean;
}

/** The options, or why they are none. */
export type ParsedOptions =
  | { readonly kind: 'ok'; readonly options: BenchOptions }
  | { readonly kind: 'help' }
  | { readonly kind: 'refused'; readonly reason: string };

/** What `--help` says. */
export const usage = `npm run bench -- [--only W,…] [--seconds N] [--rounds N] [--short] [--load wrk|node] [--against DIR] [--profile]

  --only W,…      these workloads only; "amplification" stands for all that begin so
  --seconds N     of each round (5)
  --rounds N      of each peer, in turns; medians are shown (3)
  --short         small files and one round of a second: checks bytes, hits and amplification; slowness never fails
  --load L        wrk or node, in place of what suits each workload
  --against DIR   a second Rangeway, from another checkout
  --profile       where Rangeway's time goes: its functions by self time`;

const definitions = {
  only: { type: 'string', multiple: true },
  seconds: { type: 'string' },
  rounds: { type: 'string' },
  short: { type: 'boolean' },
  load: { type: 'string' },
  against: { type: 'string' },
  profile: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** Reads the arguments of the command. `known` are the names of the workloads. */
export function parseOptions(args: readonly string[], known: readonly string[]): ParsedOptions {
  let values: ReturnType<typeof parseArgs<{ options: typeof definitions }>>['values'];
  try {
    ({ values } = parseArgs({ args: [...args], options: definitions }));
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error));
  }
  if (values.help === true) return { kind: 'help' };
  const isShort = values.short === true;
  const only = values.only?.flatMap((names) => names.split(',')) ?? [];
  const unknown = only.find((name) => !known.some((each) => isSelected(each, [name])));
  if (unknown !== undefined) return refused(`no workload is called "${unknown}"; there are ${known.join(', ')}`);
  const seconds = parseCount(values.seconds ?? (isShort ? '1' : '5'));
  if (seconds === undefined) return refused('--seconds takes a whole number from 1 to 3600');
  const rounds = parseCount(values.rounds ?? (isShort ? '1' : '3'));
  if (rounds === undefined) return refused('--rounds takes a whole number from 1 to 3600');
  const load = values.load ?? 'auto';
  if (load !== 'auto' && load !== 'wrk' && load !== 'node') return refused('--load takes wrk or node');
  const { against, profile = false } = values;
  return { kind: 'ok', options: { only, seconds, rounds, isShort, load, against, isProfiled: profile } };
}

/** Whether a workload is to be run. */
export function isSelected(name: string, only: readonly string[]): boolean {
  return only.length === 0 || only.some((wanted) => name === wanted || name.startsWith(`${wanted}-`));
}

function parseCount(text: string): number | undefined {
  const count = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0;
  return count >= 1 && count <= 3600 ? count : undefined;
}

function refused(reason: string): ParsedOptions {
  return { kind: 'refused', reason };
}
