/** `redis-benchmark`: how many values an engine sends to a bare client. */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type CoreList, pinned } from '../cores.ts';
import { BenchFault } from '../fault.ts';
import { findProgram } from '../programs.ts';

const run = promisify(execFile);

/** Number of GETs of the first run, which finds out how many fit into a round. */
const firstCount = 2000;

/** GETs of one value. */
export interface GetLoad {
  /** Path of the Unix socket of the engine. */
  readonly socket: string;
  readonly sizeBytes: number;
  readonly connections: number;
  readonly seconds: number;
  readonly cores: CoreList | undefined;
}

/** The result of a run. */
export interface GetResult {
  /** Number of GETs in the measured run, and of all in this call. */
  readonly gets: number;
  readonly runs: number;
  readonly seconds: number;
  readonly p50Us: number;
  readonly p99Us: number;
}

/** Stores a value and reads it for about so many seconds. Throws `BenchFault` where the program fails. */
export async function benchmarkGets(load: GetLoad): Promise<GetResult> {
  // Without a value, the engine would answer that there is none, which costs it less.
  await printTest('set', 1, load);
  const { rate } = parseCsv(await printTest('get', firstCount, load));
  const gets = Math.max(firstCount, Math.round(rate * load.seconds));
  const result = parseCsv(await printTest('get', gets, load));
  return { ...result, gets, runs: firstCount + gets, seconds: gets / result.rate };
}

/** Runs one of the program's tests. Returns what it has printed. */
async function printTest(
  test: 'set' | 'get',
  count: number,
  { socket, sizeBytes, connections, cores }: GetLoad,
): Promise<string> {
  const program = findProgram('redis-benchmark') ?? 'redis-benchmark';
  const options = ['-s', socket, '-t', test, '-d', sizeBytes, '-c', connections, '-n', count, '--csv'];
  const [command = '', ...args] = pinned(cores, [program, ...options.map(String)]);
  const { stdout } = await run(command, args);
  return stdout;
}

/** Parses the output of `--csv`: a line of headings and a line with requests per second and latencies. Throws `BenchFault`. */
export function parseCsv(output: string): { readonly rate: number; readonly p50Us: number; readonly p99Us: number } {
  const [head = [], row = []] = output
    .trim()
    .split('\n')
    .map((line) => line.split(',').map((cell) => cell.replaceAll('"', '')));
  const cell = (name: string) => Number(row[head.indexOf(name)] ?? Number.NaN);
  const rate = cell('rps');
  if (!(rate > 0)) throw new BenchFault(`redis-benchmark printed no rate: ${output}`);
  return { rate, p50Us: cell('p50_latency_ms') * 1000, p99Us: cell('p99_latency_ms') * 1000 };
}
