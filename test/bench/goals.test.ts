/** Evaluation of benchmark figures: goals, merged runs, costs and the chart; and the choice of workloads. */

import { describe, expect, it } from 'vitest';
import { formatChart } from '../../bench/chart.ts';
import { judge, missedCounts, verdictRows } from '../../bench/goals.ts';
import { formatMarkdown } from '../../bench/markdown.ts';
import { mergeRuns } from '../../bench/merge-runs.ts';
import { parseOptions } from '../../bench/options.ts';
import { costRows, formatSummary, workloadRows } from '../../bench/report.ts';
import type { WorkloadResult } from '../../bench/rounds.ts';
import type { Goal, Workload } from '../../bench/workloads/workload.ts';

const rate: Goal = { key: 'rate', of: 'ratio', atLeast: 1 };
const requests: Goal = { key: 'requests', of: 'figure', atMost: 3, isCounted: true };

/** Returns a result in which peers have these rates and `asked` requests to the origin. */
function resultOf(goal: Goal, rates: Readonly<Record<string, number>>, asked = 1): WorkloadResult {
  const workload: Workload = {
    name: 'ranges',
    number: 'W2',
    title: 'ranges',
    kind: 'speed',
    goals: [goal],
    origin: { kind: 'windows', patternBytes: 1, bytesPerSecond: undefined },
    bodyBytes: 1,
    metrics: [
      { key: 'rate', label: 'req/s', digits: 0, isCompared: true },
      { key: 'requests', label: 'requests', digits: 0, isCompared: false },
    ],
    prepare: () => Promise.reject(new Error('nothing is run here')),
  };
  const peers = Object.entries(rates).map(([name, rate]) => {
    const measurement = { rate, requests: asked };
    return { name, rounds: [measurement], median: measurement, periods: [] };
  });
  return { workload, load: 'node', peers, leftOut: [] };
}

describe('a goal', () => {
  it.each<[name: string, goal: Goal, rates: Record<string, number>, asked: number, isMet: boolean | undefined]>([
    ['as a ratio, reached', rate, { rangeway: 100, nginx: 100 }, 1, true],
    ['as a ratio, not reached', rate, { rangeway: 99, nginx: 100 }, 1, false],
    ['as a ratio, without nginx', rate, { rangeway: 99 }, 1, undefined],
    ['as a figure, reached', requests, { rangeway: 1 }, 3, true],
    ['as a figure, not reached', requests, { rangeway: 1 }, 4, false],
    ['of a peer that was not measured', requests, { nginx: 1 }, 1, undefined],
  ])('%s', (_, goal, rates, asked, isMet) => {
    expect(judge([resultOf(goal, rates, asked)])[0]?.isMet).toBe(isMet);
  });

  it('fails a short run only where it is a count', () => {
    const slow = judge([resultOf(rate, { rangeway: 1, nginx: 2 })]);
    const greedy = judge([resultOf(requests, { rangeway: 1, nginx: 1 }, 4)]);
    expect(missedCounts([...slow, ...greedy])).toEqual(['W2 ranges: requests ≤ 3 is 4']);
  });

  it('has a verdict for each of several runs', () => {
    const runs = [90, 110, 120].map((own) => judge([resultOf(rate, { rangeway: own, nginx: 100 })]));
    expect(verdictRows(runs)).toEqual([['W2 ranges', 'req/s ÷ nginx ≥ 1', '0.90', '1.10', '1.20', 'MISSED in 1 of 3']]);
  });
});

describe('a workload with rows of its own', () => {
  const { workload, ...result } = resultOf(rate, { rangeway: 90, 'disk store': 100, nginx: 1 });
  const rows = { names: ['rangeway', 'disk store'], yardstick: 'disk store', needsEngine: true };
  const own: WorkloadResult = { ...result, workload: { ...workload, rows } };

  it('has ratios to the row that it names', () => {
    expect(verdictRows([judge([own])])).toEqual([['W2 ranges', 'req/s ÷ disk store ≥ 1', '0.90', 'MISSED']]);
    expect(workloadRows(own)[0]).toContain('÷ disk store');
  });

  it('has a table of its own in the document, and no line in the summary of the peers', () => {
    const run = { command: 'npm run bench', machine: 'a machine', peers: [] };
    const markdown = formatMarkdown(run, [own], []);
    expect(markdown).toContain('W2 ranges: ranges\n\n|  | req/s | ÷ disk store | ± | requests |');
    expect(markdown).toContain('| rangeway | 90 | 0.90 | – | 1 |');
    expect(formatSummary([own])).toBeUndefined();
  });
});

describe('several runs', () => {
  it('have the median of all their rounds', () => {
    const runs = [10, 30, 20].map((own) => [resultOf(rate, { rangeway: own, nginx: 40 })]);
    const [merged] = mergeRuns(runs);
    expect(merged?.peers.map(({ name, rounds, median }) => [name, rounds.length, median['rate']])).toEqual([
      ['rangeway', 3, 20],
      ['nginx', 3, 40],
    ]);
  });
});

describe('the costs', () => {
  const costs = (cpus: Readonly<Record<string, number>>, more: Partial<Workload> = {}) => {
    const { workload, ...result } = resultOf(rate, cpus);
    const metrics = [{ key: 'cpu', label: 'CPU µs/req', digits: 1, isCompared: true }];
    const peers = result.peers.map((peer) => ({ ...peer, median: { cpu: peer.median['rate'] } }));
    return costRows([{ ...result, workload: { ...workload, metrics, ...more }, peers }]);
  };

  it("are those of nginx, Rangeway and the floor, and nginx's divided by each", () => {
    expect(costs({ rangeway: 40, nginx: 20, floor: 10 }, { hasFloor: true })).toEqual([
      ['W2 ranges', '20.0', '40.0', '10.0', '0.50', '2.00'],
    ]);
  });

  it('are listed for workloads that have a floor, also where it was left out', () => {
    expect(costs({ rangeway: 40, nginx: 20 }, { hasFloor: true })).toEqual([
      ['W2 ranges', '20.0', '40.0', '–', '0.50', '–'],
    ]);
    expect(costs({ rangeway: 40, nginx: 20 })).toEqual([]);
  });
});

describe('the chart', () => {
  it('has a bar for each peer but nginx, as long as its ratio', () => {
    const chart = formatChart([resultOf(rate, { rangeway: 100, nginx: 100, varnish: 50 })]) ?? '';
    const widths = [...chart.matchAll(/<rect class="p\d" x="\d+" y="\d+" width="(\d+)" height="11" \/>\n/g)];
    expect(widths.slice(-2).map(([, width]) => Number(width))).toEqual([230, 115]);
  });

  it('is undefined without nginx', () => {
    expect(formatChart([resultOf(rate, { rangeway: 100 })])).toBeUndefined();
  });
});

describe('--only', () => {
  const known = [{ name: 'ranges', number: 'W2' }, { name: 'ranges-big' }, { name: 'other-a' }, { name: 'other-b' }];

  it.each<[wanted: string, names: readonly string[]]>([
    ['ranges', ['ranges']],
    ['W2', ['ranges']],
    ['other', ['other-a', 'other-b']],
    ['other-b,W2', ['ranges', 'other-b']],
  ])('%s', (wanted, names) => {
    expect(parseOptions(['--only', wanted], known)).toMatchObject({ kind: 'ok', options: { names } });
  });

  it('may be left out before the names', () => {
    expect(parseOptions(['other', '--only', 'W2'], known)).toMatchObject({
      kind: 'ok',
      options: { names: ['ranges', 'other-a', 'other-b'] },
    });
    expect(parseOptions([], known)).toMatchObject({ kind: 'ok', options: { names: known.map(({ name }) => name) } });
  });

  it('works for --profile too, which runs Rangeway alone', () => {
    expect(parseOptions(['--profile', 'W2,other'], known)).toMatchObject({
      kind: 'ok',
      options: { names: ['ranges', 'other-a', 'other-b'], isProfiled: true },
    });
  });

  it('refuses an unknown name', () => {
    expect(parseOptions(['--only', 'rang'], known)).toMatchObject({ kind: 'refused' });
  });
});
