/** A reader of Prometheus' text format, as strict as promtool. */

/** One metric of a text. */
export interface ReadMetric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly samples: ReadonlyMap<string, number>;
}

const sampleLine =
  /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)$/;

/** Parses a text. Throws unless each metric occurs once, has HELP and TYPE before its samples, and has each sample once. */
export function readMetricText(text: string): ReadonlyMap<string, ReadMetric> {
  const metrics = new Map<string, ReadMetric & { readonly samples: Map<string, number> }>();
  let current: (ReadMetric & { readonly samples: Map<string, number> }) | undefined;
  let help: readonly string[] | undefined;
  if (!text.endsWith('\n')) throw new Error('it does not end with a line feed');
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (keyword === 'HELP') help = [name, rest];
    else if (keyword === 'TYPE') {
      if (help?.[0] !== name || metrics.has(name)) throw new Error(`TYPE out of place: ${line}`);
      current = { name, type: rest, help: help[1] ?? '', samples: new Map() };
      metrics.set(name, current);
    } else addSample(line, current);
  }
  return metrics;
}

function addSample(
  line: string,
  metric: { name: string; type: string; samples: Map<string, number> } | undefined,
): void {
  const [, name = '', labels = '', value = ''] = sampleLine.exec(line) ?? [];
  const endings = metric?.type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
  if (metric === undefined || !endings.some((ending) => name === metric.name + ending)) {
    throw new Error(`a sample out of place: ${line}`);
  }
  const id = labels === '' ? name : `${name}{${labels.replace(/,$/, '')}}`;
  if (metric.samples.has(id)) throw new Error(`twice: ${line}`);
  if (Number.isNaN(Number(value))) throw new Error(`no number: ${line}`);
  metric.samples.set(id, Number(value));
}

/** Returns the value of a sample such as `rangeway_requests_total{route="media"}`; 0 where it is absent. */
export function sampleOf(text: string, id: string): number {
  for (const { samples } of readMetricText(text).values()) {
    const value = samples.get(id);
    if (value !== undefined) return value;
  }
  return 0;
}

/** Returns the sum of the samples of a metric whose labels contain each of these, such as `outcome="hit"`. */
export function sumOf(text: string, name: string, ...labels: readonly string[]): number {
  let sum = 0;
  for (const [id, value] of readMetricText(text).get(name)?.samples ?? []) {
    if (labels.every((label) => id.includes(label))) sum += value;
  }
  return sum;
}
