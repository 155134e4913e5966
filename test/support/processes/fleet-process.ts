/** A server with several workers, as its log and the system show them. */

import { readdirSync, readFileSync } from 'node:fs';
import { type RangewayProcess, startConfigured } from './rangeway-process.ts';

/** A worker that has logged that it serves. */
export interface SeenWorker {
  readonly id: number;
  readonly pid: number;
}

/** A started fleet. */
export interface FleetProcess extends RangewayProcess {
  readonly url: string;
  readonly port: number;
  /** Returns the latest worker of each id that has logged that it serves. */
  workers(): readonly SeenWorker[];
  /** Waits until `count` workers have logged it since the start; replacements count too. */
  waitForServing(count: number): Promise<readonly SeenWorker[]>;
  /** Returns the id of the worker that has answered the last request for a target; undefined before that. */
  servedBy(target: string): number | undefined;
}

/** Starts a server with two workers on a free port, unless `config` differs, with a `debug` log. Waits until all serve. */
export async function startFleetProcess(
  dir: string,
  config: object,
  environment: NodeJS.ProcessEnv = {},
): Promise<FleetProcess> {
  const log = { format: 'json', level: 'debug' };
  const options = { listen: '127.0.0.1:0', workers: 2, log, ...config };
  const started = await startConfigured(dir, options, environment);
  const serving = () => linesOf(started.output()).filter(({ msg }) => /^worker \d+ serves/.test(msg));
  const workers = () => {
    const latest = new Map(serving().map(({ worker, detail }) => [worker, Number(detail.replace('process ', ''))]));
    return [...latest].map(([id, pid]) => ({ id, pid })).sort((a, b) => a.id - b.id);
  };
  return {
    ...started,
    port: Number(new URL(started.url).port),
    workers,
    async waitForServing(count) {
      await started.waitFor(new RegExp(`(?:"msg":"worker \\d+ serves[\\s\\S]*?){${count}}`));
      return workers();
    },
    servedBy: (target) => linesOf(started.output()).findLast((line) => line.target === target)?.worker,
  };
}

interface Line {
  readonly worker: number;
  readonly msg: string;
  readonly detail: string;
  readonly target: string | undefined;
}

function linesOf(output: string): Line[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Line);
}

/** Returns whether a process exists and is no zombie. */
export function isRunning(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** Returns the process ids of the children of a process. */
export function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
}
