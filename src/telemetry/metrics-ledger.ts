/** What all processes of a server have counted, those that are dead included: no total ever goes down. */

import type { MetricReading } from './tally.ts';

/** What one process has counted. */
export type Reading = readonly MetricReading[];

/** Puts readings together: each metric as it says itself. */
export type Combine = (readings: readonly Reading[]) => Promise<Reading>;

/** A metric that names the process of a reading; it is not shown. */
export const processMark = 'rangeway_process';

/** The metric by which the readings of a process are known: `place` is its number, `name` its own among all that had it. */
export function createProcessMark(place: string, name: string): MetricReading {
  const help = 'Names the process of a reading.';
  return {
    name: processMark,
    help,
    type: 'gauge',
    aggregator: 'omit',
    values: [{ labels: { place, name }, value: 1 }],
  };
}

interface Account {
  readonly name: string;
  readonly reading: Reading;
}

/**
 * Keeps the last reading of each process. Who cannot be read counts with what it had counted when it was; when another process
 * has its place, that becomes part of a remainder. What a process has counted after its last reading is gone with it.
 */
export class MetricsLedger {
  readonly #combine: Combine;
  readonly #accounts = new Map<string, Account>();
  #remainder: Reading = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(combine: Combine) {
    this.#combine = combine;
  }

  /** All that is to be put together, with these new readings. One entry after the other: no total is half told. */
  enter(readings: readonly Reading[]): Promise<readonly Reading[]> {
    const entered = this.#last.then(() => this.#enter(readings));
    this.#last = entered.catch(() => undefined);
    return entered;
  }

  async #enter(readings: readonly Reading[]): Promise<readonly Reading[]> {
    const present = new Set<string>();
    for (const reading of readings) {
      const { place, name } = markOf(reading);
      const before = this.#accounts.get(place);
      this.#accounts.set(place, { name, reading });
      present.add(place);
      if (before !== undefined && before.name !== name) await this.#close(before);
    }
    const absent = [...this.#accounts].filter(([place]) => !present.has(place));
    return [...readings, ...absent.map(([, { reading }]) => lasting(reading)), this.#remainder];
  }

  async #close({ reading }: Account): Promise<void> {
    this.#remainder = await this.#combine([this.#remainder, lasting(reading)]);
  }
}

function markOf(reading: Reading): { readonly place: string; readonly name: string } {
  const { place = '', name = '' } = reading.find((metric) => metric.name === processMark)?.values[0]?.labels ?? {};
  return { place: String(place), name: String(name) };
}

/** What has happened is true for ever; how things are is not, nor is what is told of a process by itself. */
function lasting(reading: Reading): Reading {
  return reading.filter(({ type, aggregator }) => aggregator === 'sum' && type !== 'gauge');
}
