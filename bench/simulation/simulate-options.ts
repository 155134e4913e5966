/** The command line of the simulator. */

import { parseArgs } from 'node:util';
import { defaultScenario, mebibyte, type Scenario } from './scenario.ts';

/** The options of a run. */
export interface SimulateOptions {
  readonly nodeCounts: readonly number[];
  readonly scenario: Omit<Scenario, 'nodes'>;
  /** Whether the table is printed as Markdown. */
  readonly isMarkdown: boolean;
  /** The file that the plot is written to; undefined: no plot. */
  readonly svg: string | undefined;
}

/** The options, or the reason why the arguments were refused. */
export type ParsedSimulateOptions =
  | { readonly kind: 'ok'; readonly options: SimulateOptions }
  | { readonly kind: 'help' }
  | { readonly kind: 'refused'; readonly reason: string };

/** Sizes of a fleet in a run without `--nodes`. */
export const defaultNodeCounts = [1, 3, 10, 30, 100, 300, 1000] as const;
/** Each node takes some 100 KB of memory in each thread, with default options. */
const mostNodes = 1000;
const shortNodeCounts = [1, 3, 10, 30] as const;

/** One option with a number: what it sets, from `min` to `max`, and by which factor its unit is larger than that of the scenario. */
interface NumberOption {
  readonly key: keyof Scenario;
  readonly help: string;
  readonly min: number;
  readonly max: number;
  readonly isWhole: boolean;
  readonly unit: number;
}

const numbers: Readonly<Record<string, NumberOption>> = {
  seed: { key: 'seed', help: 'of the traces', min: 0, max: 1e9, isWhole: true, unit: 1 },
  requests: { key: 'requestsPerNode', help: 'for each node', min: 10, max: 100_000, isWhole: true, unit: 1 },
  titles: { key: 'titles', help: 'in the catalogue', min: 1, max: 100_000, isWhole: true, unit: 1 },
  skew: { key: 'skew', help: 'of the Zipf distribution', min: 0, max: 3, isWhole: false, unit: 1 },
  title: {
    key: 'meanTitleBytes',
    help: 'mean size of a title in MiB',
    min: 1,
    max: 1024,
    isWhole: true,
    unit: mebibyte,
  },
  room: { key: 'roomBytes', help: 'of each node in MiB', min: 1, max: 1_000_000, isWhole: true, unit: mebibyte },
  memory: {
    key: 'memoryShare',
    help: 'share of the room that stays at the node beside a shared store',
    min: 0.001,
    max: 0.999,
    isWhole: false,
    unit: 1,
  },
  factor: {
    key: 'loadFactor',
    help: 'load over the mean at which a node is passed over',
    min: 1,
    max: 1000,
    isWhole: false,
    unit: 1,
  },
  crowd: {
    key: 'crowdShare',
    help: 'share of the plays that a flash crowd adds',
    min: 0,
    max: 1,
    isWhole: false,
    unit: 1,
  },
  churn: {
    key: 'churnShare',
    help: 'share of the nodes that are lost and come back',
    min: 0,
    max: 0.5,
    isWhole: false,
    unit: 1,
  },
};

/** The text of `--help`. */
export const simulateUsage = [
  'npm run simulate -- [options]',
  '',
  `  --nodes N,…     sizes of the fleet, up to ${mostNodes} (${defaultNodeCounts.join(',')})`,
  ...Object.entries(numbers).map(
    ([name, { key, help, unit }]) =>
      `  ${`--${name} N`.padEnd(15)} ${help} (${Number(defaultScenario[key as keyof typeof defaultScenario]) / unit})`,
  ),
  `  --short         fleets of ${shortNodeCounts.join(', ')}`,
  '  --markdown      the table as Markdown',
  '  --svg FILE      writes the plot',
].join('\n');

/** Parses the command's arguments. */
export function parseSimulateOptions(args: readonly string[]): ParsedSimulateOptions {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  let values: Readonly<Record<string, string | boolean | undefined>>;
  try {
    ({ values } = parseArgs({
      args: [...args],
      options: {
        ...Object.fromEntries(Object.keys(numbers).map((name) => [name, text])),
        nodes: text,
        svg: text,
        short: flag,
        markdown: flag,
        help: { type: 'boolean', short: 'h' },
      },
    }));
  } catch (error) {
    return { kind: 'refused', reason: error instanceof Error ? error.message : String(error) };
  }
  if (values['help'] === true) return { kind: 'help' };
  const scenario: Record<string, number> = {};
  for (const [name, { key, min, max, isWhole, unit }] of Object.entries(numbers)) {
    const value = values[name];
    if (value === undefined) continue;
    const number = numberOf(value, isWhole);
    if (number === undefined || number < min || number > max) {
      return { kind: 'refused', reason: `--${name} takes a ${isWhole ? 'whole ' : ''}number from ${min} to ${max}` };
    }
    scenario[key] = number * unit;
  }
  const { nodes, svg } = values;
  const isShort = values['short'] === true;
  const nodeCounts = typeof nodes === 'string' ? nodes.split(',').map((each) => numberOf(each, true)) : undefined;
  if (nodeCounts?.every((count) => count !== undefined && count >= 1 && count <= mostNodes) === false) {
    return { kind: 'refused', reason: `--nodes takes whole numbers from 1 to ${mostNodes}, with commas between them` };
  }
  return {
    kind: 'ok',
    options: {
      nodeCounts: (nodeCounts as readonly number[] | undefined) ?? (isShort ? shortNodeCounts : defaultNodeCounts),
      scenario: { ...defaultScenario, ...scenario },
      isMarkdown: values['markdown'] === true,
      svg: typeof svg === 'string' ? svg : undefined,
    },
  };
}

function numberOf(text: string | boolean, isWhole: boolean): number | undefined {
  const pattern = isWhole ? /^[0-9]{1,10}$/ : /^[0-9]{1,10}(\.[0-9]{1,6})?$/;
  return typeof text === 'string' && pattern.test(text) ? Number(text) : undefined;
}
