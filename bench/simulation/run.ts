/** Runs simulations on all cores. */

import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { type SimulationResult, simulate } from './fleet.ts';
import { type Policy, policies, type Scenario } from './scenario.ts';
import { createTrace, type Trace } from './trace.ts';

/** One simulation: a scenario and a policy. */
interface Task {
  readonly scenario: Scenario;
  readonly policy: Policy;
}

/**
 * Simulates every policy for every number of nodes. Returns the results in the order of the numbers, then of the policies. Uses one
 * thread for each core; with `threads` 1, this one. Rejects where a thread fails.
 */
export async function simulateAll(
  scenario: Omit<Scenario, 'nodes'>,
  nodeCounts: readonly number[],
  threads: number = availableParallelism(),
): Promise<readonly SimulationResult[]> {
  const tasks = nodeCounts.flatMap((nodes) => policies.map((policy) => ({ scenario: { ...scenario, nodes }, policy })));
  if (threads === 1) return tasks.map(createRunner());
  const results: SimulationResult[] = [];
  // The last tasks are the largest fleets, which take longest: they begin first.
  const waiting = tasks.map((task, index) => ({ task, index }));
  const work = async (): Promise<void> => {
    const worker = new Worker(new URL(import.meta.url));
    try {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        worker.postMessage(next.task);
        const [result] = (await once(worker, 'message')) as [SimulationResult];
        results[next.index] = result;
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: Math.min(threads, tasks.length) }, work));
  return results;
}

/** Returns a function that simulates, and creates a trace only where the scenario differs from the one before. */
function createRunner(): (task: Task) => SimulationResult {
  let last: { readonly name: string; readonly trace: Trace } | undefined;
  return ({ scenario, policy }) => {
    const name = JSON.stringify(scenario);
    if (last?.name !== name) last = { name, trace: createTrace(scenario) };
    return simulate(scenario, policy, last.trace);
  };
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort;
  const run = createRunner();
  port.on('message', (task: Task) => port.postMessage(run(task)));
}
