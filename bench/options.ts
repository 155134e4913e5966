/** The command line of the benchmark. */

import { parseArgs } from 'node:util';

/** The options of a run. */
export interface BenchOptions {
  /** Names of the workloads to run, and `eviction`. */
  readonly names: readonly string[];
  /** Duration of one round of a steady workload; wrk and h2load accept whole seconds only. */
  readonly seconds: number;
  readonly rounds: number;
  /** How often everything is run, in sequence. */
  readonly repeat: number;
  /** Small files and short rounds, to check correctness and counts, not speed. */
  readonly isShort: boolean;
  /** The load generator; `auto` chooses for each workload, among those that are installed. */
  readonly load: 'auto' | 'wrk' | 'node';
  /** Names of the peers that take part, if installed; undefined: all. Rangeway and the floor always do. */
  readonly peers: readonly string[] | undefined;
  /** Folder of another checkout of Rangeway, measured as a further peer. */
  readonly against: string | undefined;
  /** Whether Rangeway without `store.sendfile` is a further peer. */
  readonly isCopyingToo: boolean;
  /** Whether Rangeway runs alone and its functions are listed by self time. A profiled run is slower. */
  readonly isProfiled: boolean;
}

/** The options, or the reason why the arguments were refused. */
export type ParsedOptions =
  | { readonly kind: 'ok'; readonly options: BenchOptions }
  | { readonly kind: 'help' }
  | { readonly kind: 'refused'; readonly reason: string };

/** The text of `--help`. */
export const usage = `npm run bench -- [W,… | --only W,…] [--seconds N] [--rounds N] [--repeat N] [--short] [--load wrk|node] [--peers P,…] [--against DIR] [--copying] [--profile W,…]

  W,…, --only W,… these workloads only, by name or number; "amplification" selects all names that begin with it
  --seconds N     of each round (5)
  --rounds N      of each peer, in turns; medians are shown (3)
  --repeat N      measures everything N times, and reports for each goal whether it was met every time (1)
  --short         small files, one short round, no warming up: checks bytes, hits and amplification; slowness never fails
  --load L        wrk or node, instead of the best generator for each workload
  --peers P,…     only these of nginx, varnish and traffic-server
  --against DIR   a second Rangeway, from another checkout
  --copying       a second Rangeway, where sendfile cannot be used; with --profile, only this one
  --profile W,…   these workloads with Rangeway alone: writes a profile of V8 for each, and prints its functions by self time`;

/** Long enough to check that all requests are hits. */
const shortSeconds = 0.2;

const definitions = {
  only: { type: 'string', multiple: true },
  seconds: { type: 'string' },
  rounds: { type: 'string' },
  repeat: { type: 'string' },
  short: { type: 'boolean' },
  load: { type: 'string' },
  peers: { type: 'string', multiple: true },
  against: { type: 'string' },
  copying: { type: 'boolean' },
  profile: { type: 'string', multiple: true },
  help: { type: 'boolean', short: 'h' },
} as const;

/** A workload that can be selected, by name or number. */
export interface KnownName {
  readonly name: string;
  readonly number?: string | undefined;
}

/** Parses the command's arguments. `known` lists everything that can be run. */
export function parseOptions(args: readonly string[], known: readonly KnownName[]): ParsedOptions {
  let values: ReturnType<typeof parseArgs<{ options: typeof definitions }>>['values'];
  let positionals: readonly string[];
  try {
    ({ values, positionals } = parseArgs({ args: [...args], options: definitions, allowPositionals: true }));
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error));
  }
  if (values.help === true) return { kind: 'help' };
  const isShort = values.short === true;
  const stated = [...positionals, ...(values.only ?? [])];
  const wanted = split(values.profile ?? (stated.length === 0 ? undefined : stated));
  const unknown = wanted?.find((text) => chosenBy(text, known).length === 0);
  const all = known.map(({ name }) => name);
  if (unknown !== undefined) return refused(`no workload is called "${unknown}"; there are ${all.join(', ')}`);
  const chosen = new Set((wanted ?? all).flatMap((text) => chosenBy(text, known)));
  const names = all.filter((name) => chosen.has(name));
  const seconds = parseSeconds(values.seconds, isShort);
  if (seconds === undefined) return refused('--seconds takes a whole number from 1 to 3600');
  const rounds = parseCount(values.rounds ?? (isShort ? '1' : '3'));
  if (rounds === undefined) return refused('--rounds takes a whole number from 1 to 3600');
  const repeat = parseCount(values.repeat ?? '1');
  if (repeat === undefined) return refused('--repeat takes a whole number from 1 to 3600');
  const load = values.load ?? 'auto';
  if (load !== 'auto' && load !== 'wrk' && load !== 'node') return refused('--load takes wrk or node');
  const peers = split(values.peers);
  const { against, copying: isCopyingToo = false, profile } = values;
  return {
    kind: 'ok',
    options: {
      names,
      seconds,
      rounds,
      repeat,
      isShort,
      load,
      peers,
      against,
      isCopyingToo,
      isProfiled: profile !== undefined,
    },
  };
}

/** Splits comma-separated names. */
function split(texts: readonly string[] | undefined): readonly string[] | undefined {
  return texts?.flatMap((text) => text.split(','));
}

/** Returns the workloads with this name or number; if there are none, those whose names begin with `text-`. */
function chosenBy(text: string, known: readonly KnownName[]): string[] {
  const exact = known.filter(({ name, number }) => name === text || number === text);
  const chosen = exact.length > 0 ? exact : known.filter(({ name }) => name.startsWith(`${text}-`));
  return chosen.map(({ name }) => name);
}

function parseSeconds(text: string | undefined, isShort: boolean): number | undefined {
  if (text !== undefined) return parseCount(text);
  return isShort ? shortSeconds : 5;
}

function parseCount(text: string): number | undefined {
  const count = /^[0-9]{1,4}$/.test(text) ? Number(text) : 0;
  return count >= 1 && count <= 3600 ? count : undefined;
}

function refused(reason: string): ParsedOptions {
  return { kind: 'refused', reason };
}
