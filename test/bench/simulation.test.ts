/** The simulator of fleets: conservation, determinism, known results on small traces, and the figures of docs/scaling.md. */

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type SimulationResult, simulate } from '../../bench/simulation/fleet.ts';
import { InFlight, mix32, Ring } from '../../bench/simulation/ring.ts';
import { simulateAll } from '../../bench/simulation/run.ts';
import { defaultScenario, mebibyte, type Policy, policies, type Scenario } from '../../bench/simulation/scenario.ts';
import { parseSimulateOptions } from '../../bench/simulation/simulate-options.ts';
import { drawSimulation, formatSimulation } from '../../bench/simulation/simulation-report.ts';
import { createTrace, type Trace } from '../../bench/simulation/trace.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';

/** A small fleet without a warm-up, so that everything is counted. */
const small: Scenario = { ...defaultScenario, nodes: 4, requestsPerNode: 500, titles: 60, warmUpShare: 0 };
const quiet: Scenario = { ...small, churnShare: 0, crowdShare: 0 };
const roomy = 100_000 * mebibyte;

function policyNamed(name: string): Policy {
  const policy = policies.find((each) => each.name === name);
  if (policy === undefined) throw new Error(`no policy is called ${name}`);
  return policy;
}

const roundRobin = policyNamed('round robin, own caches');
const hash = policyNamed('hash');
const bounded = policyNamed('hash, bounded load');
const shared = policyNamed('round robin, shared store');

/** Returns the bytes of all blocks that a trace touches, each counted once: what an endless cache fetches. */
function bytesTouched({ catalogue, urls, starts, ends }: Trace, blockSizeBytes: number): number {
  const seen = new Set<number>();
  let bytes = 0;
  urls.forEach((url, at) => {
    const first = Math.floor((starts[at] ?? 0) / blockSizeBytes);
    for (let index = first; index * blockSizeBytes < (ends[at] ?? 0); index += 1) {
      const block = (catalogue.firstBlock[url] ?? 0) + index;
      if (seen.has(block)) continue;
      seen.add(block);
      bytes += Math.min(blockSizeBytes, (catalogue.urlBytes[url] ?? 0) - index * blockSizeBytes);
    }
  });
  return bytes;
}

describe('a simulation', () => {
  it('is the same for the same seed, and another for another one', () => {
    const run = (seed: number) =>
      policies.map((policy) => simulate({ ...small, seed }, policy, createTrace({ ...small, seed })));
    expect(run(7)).toEqual(run(7));
    expect(run(8)).not.toEqual(run(7));
  });

  it('is the same on one thread and on two', async () => {
    const scenario = { ...defaultScenario, requestsPerNode: 100 };
    expect(await simulateAll(scenario, [2, 5], 2)).toEqual(await simulateAll(scenario, [2, 5], 1));
  });

  it.each(policies)('delivers every byte once: $name', (policy) => {
    const trace = createTrace(small);
    const result = simulate(small, policy, trace);
    let requested = 0;
    for (const [at, end] of trace.ends.entries()) requested += end - (trace.starts[at] ?? 0);
    expect(result.deliveredBytes).toBe(requested);
    expect(result.ownBytes + result.engineBytes + result.originBytes).toBe(requested);
    // Whole blocks are fetched, so the origin and the engine send at least what is delivered from them.
    expect(result.fetchedBytes).toBeGreaterThanOrEqual(result.originBytes);
    expect(result.engineReadBytes).toBeGreaterThanOrEqual(result.engineBytes);
    expect(result.engineWrittenBytes).toBe(policy.hasEngine ? result.fetchedBytes : 0);
    expect(result.requests).toBe(2000);
  });
});

describe('known results', () => {
  it.each([roundRobin, hash, bounded])('one node with room for all fetches each block once: $name', (policy) => {
    const scenario = { ...quiet, nodes: 1, roomBytes: roomy };
    const trace = createTrace(scenario);
    const result = simulate(scenario, policy, trace);
    expect(result.fetchedBytes).toBe(bytesTouched(trace, scenario.blockSizeBytes));
    expect(result.peakLoad).toBe(1);
  });

  it.each([hash, shared])('so does a fleet with room for all: $name', (policy) => {
    const scenario = { ...quiet, nodes: 20, roomBytes: roomy };
    const trace = createTrace(scenario);
    expect(simulate(scenario, policy, trace).fetchedBytes).toBe(bytesTouched(trace, scenario.blockSizeBytes));
  });

  it('round robin fetches more than once, and at most once for each node', () => {
    const scenario = { ...quiet, roomBytes: roomy };
    const trace = createTrace(scenario);
    const once = bytesTouched(trace, scenario.blockSizeBytes);
    const { fetchedBytes, peakLoad } = simulate(scenario, roundRobin, trace);
    expect(fetchedBytes).toBeGreaterThan(1.5 * once);
    expect(fetchedBytes).toBeLessThanOrEqual(scenario.nodes * once);
    expect(peakLoad).toBeLessThan(1.2);
  });

  it('a cache without room for a block has no hit', () => {
    const scenario = { ...quiet, roomBytes: 1000 };
    const result = simulate(scenario, roundRobin, createTrace(scenario));
    expect(result).toMatchObject({ ownBytes: 0, ownRequests: 0, originBytes: result.deliveredBytes });
  });

  it('a lost node costs its share, and a shared store keeps it', () => {
    const scenario: Scenario = { ...quiet, roomBytes: roomy };
    const lossy = { ...scenario, churnShare: 0.25 };
    const trace = createTrace(scenario);
    const fetched = (used: Scenario, policy: Policy) => simulate(used, policy, trace).fetchedBytes;
    expect(fetched(lossy, hash)).toBeGreaterThan(fetched(scenario, hash));
    expect(fetched(lossy, shared)).toBe(fetched(scenario, shared));
  });

  it('a flash crowd overloads one node by plain hashing, and none by bounded load', () => {
    const scenario = { ...small, nodes: 20, churnShare: 0, crowdShare: 0.5 };
    const trace = createTrace(scenario);
    const peak = (policy: Policy) => simulate(scenario, policy, trace).peakLoad;
    expect(peak(hash)).toBeGreaterThan(5);
    expect(peak(bounded)).toBeLessThan(2);
  });
});

describe('a trace', () => {
  const trace = createTrace({ ...small, nodes: 20 });

  it('has ranges of files that exist, and whole segments', () => {
    const { urls, starts, ends, catalogue } = trace;
    let [files, segments] = [0, 0];
    urls.forEach((url, at) => {
      const sizeBytes = catalogue.urlBytes[url] ?? 0;
      const [start = 0, end = 0] = [starts[at], ends[at]];
      if (start < 0 || end <= start || end > sizeBytes)
        throw new Error(`request ${at}: ${start} to ${end} of ${sizeBytes}`);
      if (start === 0 && end === sizeBytes) segments += 1;
      else files += 1;
    });
    expect(Math.min(files, segments)).toBeGreaterThan(2000);
  });

  it('has popular titles and a tail', () => {
    const { titles } = small;
    const counts = new Array<number>(titles).fill(0);
    for (const url of trace.urls) {
      let title = titles - 1;
      while ((trace.catalogue.firstUrl[title] ?? 0) > url) title -= 1;
      counts[title] = (counts[title] ?? 0) + 1;
    }
    const sum = (from: number, to: number) => counts.slice(from, to).reduce((all, count) => all + count, 0);
    // Before the flash crowd, the weights of Zipf with 0.8: a tenth of the titles has more than a quarter of the requests.
    expect(sum(0, 6) / trace.urls.length).toBeGreaterThan(0.25);
    expect(Math.min(...counts)).toBeGreaterThan(0);
  });
});

describe('the ring', () => {
  const hashes = Array.from({ length: 20_000 }, (_, url) => mix32(url));
  const names = (count: number, without = -1) =>
    Array.from({ length: count }, (_, node) => node).filter((node) => node !== without);

  it.each([2, 5, 20, 100])('of %i nodes: the share of a lost node moves, and nothing else', (count) => {
    const [before, after] = [new Ring(names(count), 160), new Ring(names(count, 1), 160)];
    const moved = hashes.filter((each) => before.nodeOf(each) !== after.nodeOf(each));
    expect(moved.every((each) => before.nodeOf(each) === 1)).toBe(true);
    expect(moved.length / hashes.length).toBeGreaterThan(0.7 / count);
    expect(moved.length / hashes.length).toBeLessThan(1.3 / count);
  });

  it('gives each node its share', () => {
    const counts = new Array<number>(10).fill(0);
    const ring = new Ring(names(10), 160);
    for (const each of hashes) counts[ring.nodeOf(each)] = (counts[ring.nodeOf(each)] ?? 0) + 1;
    expect(Math.max(...counts)).toBeLessThan(1.3 * 2000);
    expect(Math.min(...counts)).toBeGreaterThan(0.7 * 2000);
  });

  it('takes the first node where none accepts, and has none where it is empty', () => {
    const ring = new Ring([4, 5], 10);
    expect(ring.nodeOf(1, () => false)).toBe(ring.nodeOf(1));
    expect(() => new Ring([], 10).nodeOf(1)).toThrow(RangeError);
  });

  it('with bounded load never exceeds the factor', () => {
    const nodes = 8;
    const flying = new InFlight({ nodes, total: nodes * 8, factor: 1.25 });
    const ring = new Ring(names(nodes), 160);
    // All requests are for one URL.
    for (let at = 0; at < 500; at += 1) {
      const limit = flying.limit(nodes);
      flying.begin(ring.nodeOf(99, (node) => flying.at(node) < limit));
      expect(Math.max(...names(nodes).map((node) => flying.at(node)))).toBeLessThanOrEqual(limit);
    }
    expect(names(nodes).reduce((sum, node) => sum + flying.at(node), 0)).toBe(nodes * 8);
  });
});

describe('npm run simulate', () => {
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [join(projectDirectory, 'bench/simulate.ts'), ...args], { encoding: 'utf8' });

  it('prints a table', () => {
    const { status, stdout, stderr } = run('--nodes', '2', '--requests', '50');
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout.trim().split('\n')).toHaveLength(1 + policies.length);
  });

  it.each([
    [['--nodes', '10,1001'], '--nodes takes whole numbers from 1 to 1000'],
    [['--skew', 'x'], '--skew takes a number from 0 to 3'],
    [['--room', '0.5'], '--room takes a whole number from 1 to 1000000'],
    [['--speed', '1'], "Unknown option '--speed'"],
  ])('refuses %j', (args, reason) => {
    expect(parseSimulateOptions(args)).toMatchObject({ kind: 'refused', reason: expect.stringContaining(reason) });
  });

  it('has options that count', () => {
    const parsed = parseSimulateOptions(['--room', '64', '--factor', '1.2', '--nodes', '3,9', '--markdown']);
    expect(parsed).toMatchObject({
      kind: 'ok',
      options: {
        nodeCounts: [3, 9],
        scenario: { roomBytes: 64 * mebibyte, loadFactor: 1.2, seed: 1 },
        isMarkdown: true,
      },
    });
  });
});

describe('docs/scaling.md', () => {
  const page = readFileSync(join(projectDirectory, 'docs/scaling.md'), 'utf8');

  it('shows the figures of a run with default options', async () => {
    const results = await simulateAll(defaultScenario, [1, 10], 1);
    const [head = '', , ...rows] = formatSimulation(results, { isMarkdown: true }).split('\n');
    expect(page).toContain(head);
    for (const row of rows) expect(page).toContain(row);
  });

  it('shows a plot with one line for each policy in each panel, for light and for dark pages', () => {
    const plot = readFileSync(join(projectDirectory, 'docs/images/scaling.svg'), 'utf8');
    expect(plot.match(/<polyline /g)).toHaveLength(4 * policies.length);
    expect(plot).toContain('prefers-color-scheme: dark');
    expect(page).toContain('](images/scaling.svg)');
  });
});

describe('the plot', () => {
  const result = (nodes: number, policy: Policy): SimulationResult => ({
    ...{ policy: policy.name, nodes, requests: 10, ownRequests: 5, deliveredBytes: 100, ownBytes: 50, engineBytes: 0 },
    ...{ originBytes: 50, fetchedBytes: 60, engineReadBytes: 0, engineWrittenBytes: 0, peakLoad: 1 },
  });

  it('places the numbers of nodes on a logarithmic axis', () => {
    const plot = drawSimulation([1, 10, 100].flatMap((nodes) => policies.map((policy) => result(nodes, policy)))) ?? '';
    const xs = [...(/<polyline class="line s0" points="([^"]*)"/.exec(plot)?.[1]?.matchAll(/([\d.]+),/g) ?? [])].map(
      ([, x]) => Number(x),
    );
    expect((xs[1] ?? 0) - (xs[0] ?? 0)).toBeCloseTo((xs[2] ?? 0) - (xs[1] ?? 0));
  });

  it('needs two numbers of nodes', () => expect(drawSimulation([result(3, hash)])).toBeUndefined());
});
