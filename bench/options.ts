/** The command line of the benchmark. */

import { parseArgs } from 'node:util';

/** What is to be run, and how. */
export interface BenchOptions {
  /** The names of what is to be run. */
  readonly names: readonly string[];
  /** How long one round of a steady workload lasts; wrk and h2load know whole seconds only. */
  readonly seconds: number;
  readonly rounds: number;
  /** How often all of it is run, one time after the other. */
  readonly repeat: number;
  /** Small files and one short round: for what is checked, not for what is measured. */
  readonly isShort: boolean;
  /** `auto` takes for each workload what suits it and is installed. */
  readonly load: 'auto' | 'wrk' | 'node';
  /** The peers that take part, of those that are installed; all of them where that is not said. */
  readonly peers: readonly string[] | undefined;
  /** Another checkout of Rangeway, measured as a further peer. */
  readonly against: string | undefined;
  /** Whether Rangeway is measured once more without `store.sendfile`, as a further peer. */
  readonly isCopyingToo: boolean;
  /** Whether Rangeway's functions are listed by the time that they take. A profiled run is slower. */
  readonly isProfiled: boolean;
}

/** The options, or why they are none. */
export type ParsedOptions =
  | { readonly kind: 'ok'; readonly options: BenchOptions }
  | { readonly kind: 'help' }
  | { readonly kind: 'refused'; readonly reason: string };

/** What `--help` says. */
export const usage = `npm run bench -- [--only W,…] [--seconds N] [--rounds N] [--repeat N] [--short] [--load wrk|node] [--peers P,…] [--against DIR] [--copying] [--profile W,…]

  --only W,…      these workloads only, by name or number; "amplification" stands for all that begin so
  --seconds N     of each round (5)
  --rounds N      of each peer, in turns; medians are shown (3)
  --repeat N      measures everything N times, and says of each goal whether it was met every time (1)
  --short         small files, one short round, no warming up: checks bytes, hits and amplification; slowness never fails
  --load L        wrk or node, in place of what suits each workload
  --peers P,…     only these of nginx, varnish and traffic-server
  --against DIR   a second Rangeway, from another checkout
  --copying       Rangeway without store.sendfile, too
  --profile W,…   these workloads with Rangeway alone: writes a profile of V8 for each, and prints its functions by self time`;

/** Enough to see that what is measured are hits. */
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

/** What there is to be run. */
export interface KnownName {
  readonly name: string;
  readonly number?: string | undefined;
}

/** Reads the arguments of the command. `known` is all that can be run. */
export function parseOptions(args: readonly string[], known: readonly KnownName[]): ParsedOptions {
  let values: ReturnType<typeof parseArgs<{ options: typeof definitions }>>['values'];
  try {
    ({ values } = parseArgs({ args: [...args], options: definitions }));
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error));
  }
  if (values.help === true) return { kind: 'help' };
  const isShort = values.short === true;
  const wanted = split(values.profile ?? values.only);
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

/** Names that stand one by one or with commas between them. */
function split(texts: readonly string[] | undefined): readonly string[] | undefined {
  return texts?.flatMap((text) => text.split(','));
}

/** The one of this name, or those of this number, or else those whose names begin so. */
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
