/** The names of all metrics follow the conventions of Prometheus, and docs/operations.md describes each metric. */

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { metricKinds, secondsBounds } from '../../src/telemetry/counters.ts';
import { createMetrics, formatMetrics } from '../../src/telemetry/metrics.ts';
import { readMetricText } from '../support/values/metric-text.ts';

const kinds = Object.values(metricKinds);
const metrics = createMetrics({ version: '1', role: { kind: 'alone' }, now: () => 0 });
const read = readMetricText(await formatMetrics(await metrics.read()));

/** The rows of the tables in the document: name, type, labels and description of each metric. */
const rows = [
  ...readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8').matchAll(
    /^\| `([a-z0-9_]+)` \| (counter|gauge|histogram) \| (.*?) \| (.*) \|$/gm,
  ),
].map(([, name, type, labels, help]) => ({ name, type, labels, help }));

describe('our metrics', () => {
  it('are all exposed, and no others', () => {
    const shown = [...read.keys()].filter((name) => name.startsWith('rangeway_'));
    expect(shown.toSorted()).toEqual(kinds.map(({ name }) => name).toSorted());
  });

  it.each(kinds)('$name is named by the conventions', ({ name, type, help, labels }) => {
    expect(name).toMatch(/^rangeway_[a-z]+(_[a-z]+)*$/);
    expect(name.endsWith('_total')).toBe(type === 'counter');
    // Base units only, at the end of the name.
    expect(name).not.toMatch(/_(ms|milliseconds|minutes|kb|mb|percent|ratio)(_|$)/);
    expect(name).toMatch(type === 'histogram' ? /_seconds$/ : /./);
    expect(name).not.toMatch(/_(count|sum|bucket)$/);
    expect(help).toMatch(/^[A-Z].*[.]$/);
    for (const label of labels) expect(label).toMatch(/^[a-z]+(_[a-z]+)*$/);
    expect(labels).not.toContain('le');
    expect(new Set(labels).size).toBe(labels.length);
    expect(read.get(name)).toMatchObject({ type, help });
  });

  it('measure durations from 1 ms to 10 minutes', () => {
    expect([secondsBounds[0], secondsBounds.at(-1)]).toEqual([0.001, 600]);
    expect(secondsBounds).toEqual(secondsBounds.toSorted((one, other) => one - other));
  });
});

describe('docs/operations.md', () => {
  it('has a row for each of our metrics, and no other', () => {
    const want = kinds.map(({ name, type, labels, help }) => ({
      name,
      type,
      labels: labels.map((label) => `\`${label}\``).join(', '),
      help,
    }));
    expect(rows.filter(({ name }) => name?.startsWith('rangeway_'))).toEqual(want);
  });

  it('names each metric of the process', () => {
    const ofProcess = [...read.keys()].filter((name) => !name.startsWith('rangeway_'));
    const named = new Set(rows.map(({ name }) => name));
    expect(ofProcess.filter((name) => !named.has(name))).toEqual([]);
  });
});
