/** The rules of the soak, and the sentences about a run that breaks one. Pure. */

import { type AnswerRule, answerRules, type Findings } from './findings.ts';
import { type Bound, flatnessOf } from './flat.ts';
import type { Sample } from './samples.ts';

const mebibyte = 1024 * 1024;

/** What may grow from the middle third of a run to its last one, and by how much. */
export const flatQuantities = {
  memory: {
    sentence: 'resident memory stays flat',
    of: ({ residentBytes }) => residentBytes,
    // A worker that was just replaced has less; the allocator keeps what a burst has freed (docs/operations.md).
    bound: { factor: 1.15, plus: 64 * mebibyte },
    format: (value) => `${(value / mebibyte).toFixed(0)} MiB`,
  },
  descriptors: {
    sentence: 'the number of open descriptors stays flat',
    of: ({ descriptors }) => descriptors,
    bound: { factor: 1.25, plus: 40 },
    format: (value) => value.toFixed(0),
  },
  disk: {
    sentence: 'the bytes of the store stay flat',
    of: ({ storeBytes }) => storeBytes,
    bound: { factor: 1.25, plus: 4 * mebibyte },
    format: (value) => `${(value / mebibyte).toFixed(1)} MiB`,
  },
} as const satisfies Record<string, FlatQuantity>;

/** A quantity that must stay flat. */
export interface FlatQuantity {
  readonly sentence: string;
  readonly of: (sample: Sample) => number;
  readonly bound: Bound;
  readonly format: (value: number) => string;
}

/** What is known at the end of a run. */
export interface RunResult {
  readonly samples: readonly Sample[];
  readonly findings: Pick<Findings, 'countOf' | 'examplesOf'>;
  readonly maxStoreBytes: number;
  readonly kills: number;
  /** Workers that were started in place of others. */
  readonly restarts: number;
  readonly damagedBlocks: number;
  /** Whether all processes ran until they were told to end, and then the exit code. */
  readonly ranToTheEnd: boolean;
  readonly exitCode: number | null;
  /** What was left over once the load had ended, as sentences. */
  readonly leftOver: readonly string[];
  /** The lines of the log with the level `error`, or that are no lines of the log. */
  readonly errorLines: readonly string[];
  /** Requests, of which a run must have had some of each kind. */
  readonly hits: number;
  readonly misses: number;
  /** Kinds of requests that no client sent. */
  readonly missingActions: readonly string[];
}

/** A rule, and what broke it. */
export interface Ruling {
  readonly rule: string;
  /** What was measured, where there is a figure. */
  readonly figure: string;
  /** Empty where the rule was kept. */
  readonly breaches: readonly string[];
}

/** Judges a run by all rules, in the order of a report. */
export function judge(result: RunResult): readonly Ruling[] {
  return [
    ...(Object.keys(answerRules) as AnswerRule[]).map((name) => answerRuling(name, result.findings)),
    ...Object.values(flatQuantities).map((quantity) => flatRuling(quantity, result.samples)),
    sizeRuling(result),
    {
      rule: 'no process ends except the workers that the soak kills',
      figure: `${result.kills} killed, ${result.restarts} replaced`,
      breaches: [
        ...(result.ranToTheEnd ? [] : ['the server ended while it was under load']),
        // A worker that ended by itself would be replaced too.
        ...(result.ranToTheEnd && result.restarts !== result.kills
          ? [`${result.restarts} workers were replaced, but ${result.kills} were killed`]
          : []),
        ...(result.exitCode === 0 ? [] : [`the exit code after SIGTERM was ${result.exitCode} instead of 0`]),
      ],
    },
    {
      rule: 'no block of the store is damaged',
      figure: `${result.damagedBlocks}`,
      breaches: result.damagedBlocks === 0 ? [] : [`${result.damagedBlocks} blocks had a wrong checksum`],
    },
    {
      rule: 'nothing is left over after the load: no request, fill, connection, lease or orphan',
      figure: '',
      breaches: result.leftOver,
    },
    { rule: 'the log has no errors', figure: '', breaches: result.errorLines.slice(0, 20) },
    {
      rule: 'the run had hits, misses and each kind of request',
      figure: `${result.hits} hits, ${result.misses} misses`,
      breaches: [
        ...(result.hits > 0 ? [] : ['no response was a hit']),
        ...(result.misses > 0 ? [] : ['no response was a miss']),
        ...result.missingActions.map((action) => `no client sent "${action}"`),
      ],
    },
  ];
}

function answerRuling(name: AnswerRule, findings: RunResult['findings']): Ruling {
  const count = findings.countOf(name);
  const breaches = findings.examplesOf(name);
  return { rule: answerRules[name], figure: count === 0 ? '' : `${count} times`, breaches };
}

function flatRuling({ sentence, of, bound, format }: FlatQuantity, samples: readonly Sample[]): Ruling {
  const flatness = flatnessOf(samples.map(of), bound);
  const rule = `${sentence}: in the median, the last third has at most ${bound.factor} × the middle third + ${format(bound.plus)}`;
  if (flatness === undefined) {
    return { rule, figure: '', breaches: ['there are too few samples: run the soak for longer'] };
  }
  const { middle, last, allowed, isFlat } = flatness;
  const figure = `${format(middle)} → ${format(last)}`;
  return { rule, figure, breaches: isFlat ? [] : [`${figure}, of which ${format(allowed)} are allowed`] };
}

function sizeRuling({ samples, maxStoreBytes }: RunResult): Ruling {
  const most = Math.max(0, ...samples.map(({ storeBytes }) => storeBytes));
  const { format } = flatQuantities.disk;
  return {
    rule: `the store never takes more than its size, ${format(maxStoreBytes)}`,
    figure: `at most ${format(most)}`,
    breaches: most <= maxStoreBytes ? [] : [`it took ${format(most)}`],
  };
}
