/** Plain numbers under labels: counted at little cost, and read seldom, in the form that prom-client puts together. */

/** Labels by their names. */
export type Labels = Readonly<Record<string, string>>;

/** How the readings of several processes become one. */
export type Aggregation = 'sum' | 'max' | 'min' | 'first';

/** What a metric is. */
export interface MetricKind {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** The names of its labels. */
  readonly labels: readonly string[];
  readonly aggregation: Aggregation;
}

/** One number of a metric. */
export interface MetricValue {
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  /** Of a histogram: which of its parts it is. */
  readonly metricName?: string;
}

/** A metric with all its numbers, as `getMetricsAsJSON` of prom-client gives it. It survives structured cloning. */
export interface MetricReading {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly aggregator: string;
  readonly values: readonly MetricValue[];
}

/** A number that whoever counts holds on to. */
export interface Count {
  value: number;
}

/** A metric that numbers are counted for. */
export interface Tally {
  read(): MetricReading;
}

/** One part of a metric for each of the values that its labels have had. */
class Parts<Part> {
  readonly #names: readonly string[];
  readonly #create: () => Part;
  readonly #parts = new Map<string, { readonly labels: Labels; readonly part: Part }>();

  /** Without labels there is one part from the beginning. */
  constructor(names: readonly string[], create: () => Part) {
    this.#names = names;
    this.#create = create;
    if (names.length === 0) this.of([]);
  }

  of(values: readonly string[]): Part {
    const id = values.join('\0');
    const known = this.#parts.get(id);
    if (known !== undefined) return known.part;
    const part = this.#create();
    this.#parts.set(id, { labels: labelsOf(this.#names, values), part });
    return part;
  }

  read(
    { name, help, type, aggregation }: MetricKind,
    valuesOf: (part: Part, labels: Labels) => readonly MetricValue[],
  ) {
    const values = [...this.#parts.values()].flatMap(({ labels, part }) => valuesOf(part, labels));
    return { name, help, type, aggregator: aggregation, values };
  }
}

/** Counters, or gauges that go up and down. Without labels there is one number, 0 at first. */
export class Counts implements Tally {
  readonly #kind: MetricKind;
  readonly #parts: Parts<Count>;

  constructor(kind: MetricKind) {
    this.#kind = kind;
    this.#parts = new Parts(kind.labels, () => ({ value: 0 }));
  }

  /** The number for these values of the labels, in their order: the same one each time. */
  of(...values: readonly string[]): Count {
    return this.#parts.of(values);
  }

  read(): MetricReading {
    return this.#parts.read(this.#kind, ({ value }, labels) => [{ labels, value }]);
  }
}

/** Histograms with the same bounds. */
export class Spreads implements Tally {
  readonly #kind: MetricKind;
  readonly #parts: Parts<Spread>;

  /** `bounds` rise; each is the largest value of its bucket. */
  constructor(kind: MetricKind, bounds: readonly number[]) {
    this.#kind = kind;
    this.#parts = new Parts(kind.labels, () => new Spread(bounds));
  }

  /** The histogram for these values of the labels, in their order: the same one each time. */
  of(...values: readonly string[]): Spread {
    return this.#parts.of(values);
  }

  read(): MetricReading {
    return this.#parts.read(this.#kind, (spread, labels) => spread.read(this.#kind.name, labels));
  }
}

/** One histogram. */
export class Spread {
  readonly #bounds: readonly number[];
  /** How many values fell into each bucket alone; the last one has no bound. */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array<number>(bounds.length + 1).fill(0);
  }

  /** What is below 0 counts as 0: a clock was set back, and no sum may go down. */
  observe(measured: number): void {
    const value = Math.max(0, measured);
    // Most values are small.
    let at = 0;
    while (at < this.#bounds.length && value > (this.#bounds[at] as number)) at += 1;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += value;
  }

  read(name: string, labels: Labels): readonly MetricValue[] {
    let count = 0;
    const buckets = this.#counts.map((own, at): MetricValue => {
      count += own;
      return { metricName: `${name}_bucket`, labels: { le: this.#bounds[at] ?? '+Inf', ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}

/** The numbers of a metric when it is read: the values of its labels, in their order, and the number. */
export type Asked = Iterable<readonly [values: readonly string[], value: number]>;

/** A metric that is asked for its numbers when it is read. */
export function createAsked({ name, help, type, labels, aggregation }: MetricKind, ask: () => Asked): Tally {
  return {
    read() {
      const values = Array.from(ask(), ([given, value]) => ({ labels: labelsOf(labels, given), value }));
      return { name, help, type, aggregator: aggregation, values };
    },
  };
}

function labelsOf(names: readonly string[], values: readonly string[]): Labels {
  return Object.fromEntries(names.map((name, at) => [name, values[at] ?? '']));
}
