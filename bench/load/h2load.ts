/** Load by h2load: HTTP/2 over TLS. h2load has one header section for all requests, so all requests of a round have the same range. */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { type CoreList, pinned } from '../cores.ts';
import { streamsPerConnection } from './http2-connection.ts';
import { bodyBytesOf, type LoadGenerator, type LoadPlan, type LoadResult } from './load.ts';
import { commonCipher } from './load-connection.ts';

const run = promisify(execFile);

/** Time after the end of a round until h2load is killed, in milliseconds. */
const patienceMs = 10_000;

/** Creates the generator, on these cores. */
export function h2loadGenerator(program: string, cores: CoreList | undefined): LoadGenerator {
  return {
    name: 'h2load',
    async run(port, plan) {
      const { connections, request } = plan;
      const seconds = Math.ceil(plan.seconds);
      const url = `https://127.0.0.1:${port}${'file' in request ? request.file.path : '/'}`;
      const options = [
        '-t1',
        `-c${connections}`,
        `-m${streamsPerConnection}`,
        `-D${seconds}s`,
        '-w20',
        '-W26',
        `--tls13-ciphers=${commonCipher}`,
        ...rangeOf(plan),
      ];
      const [command = '', ...args] = pinned(plan.cores ?? cores, [program, ...options, url]);
      try {
        const { stdout } = await run(command, args, { timeout: seconds * 1000 + patienceMs });
        return parseReport(stdout, { ...plan, seconds });
      } catch (error) {
        // h2load never ends if a connection opens only after the end of the round.
        if (isKilled(error)) return { ...noAnswers, seconds };
        throw error;
      }
    },
  };
}

const noAnswers = { requests: 0, bytes: 0, p50Us: undefined, p99Us: undefined, p999Us: undefined, failures: 0 };

function isKilled(error: unknown): boolean {
  return error instanceof Error && 'killed' in error && error.killed === true;
}

function rangeOf({ request }: LoadPlan): readonly string[] {
  if (request.kind !== 'ranges') return [];
  const { file, sizeBytes } = request;
  const start = Math.floor(Math.random() * (file.window.end - file.window.start - sizeBytes + 1));
  return ['-H', `range: bytes=${start}-${start + sizeBytes - 1}`];
}

/** Parses h2load's text report. It counts 206 and 200 alike, so a wrong 200 is detected by the number of bytes. */
function parseReport(report: string, { seconds, request }: LoadPlan): LoadResult {
  const number = (pattern: RegExp) => Number(pattern.exec(report)?.[1] ?? Number.NaN);
  const rate = number(/finished in [^,]+, ([0-9.]+) req\/s/);
  const requests = number(/([0-9]+) succeeded/);
  const bytes = number(/traffic: .*, [^ ]+ \(([0-9]+)\) data/);
  const failed = number(/([0-9]+) failed/);
  const other = number(/2xx, ([0-9]+) 3xx/) + number(/3xx, ([0-9]+) 4xx/) + number(/4xx, ([0-9]+) 5xx/);
  const isPlausible =
    bytes >= requests * bodyBytesOf(request) && bytes < (requests + 1000) * bodyBytesOf(request) * 1.1;
  return {
    requests,
    bytes,
    seconds: rate > 0 ? requests / rate : seconds,
    p50Us: undefined,
    p99Us: undefined,
    p999Us: undefined,
    failures: failed + other + Number(!isPlausible),
  };
}
