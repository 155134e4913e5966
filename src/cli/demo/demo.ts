/**
 * `rangeway demo`: starts a slow origin without ranges, Rangeway in front of it, and prints what to try, until a signal stops
 * both.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { styleText } from 'node:util';
import { checkConfig, type LoadedConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import type { Clock } from '../../http/clock.ts';
import { type RunningServer, start } from '../../main.ts';
import { readPackageFolder } from '../../setup/package-files.ts';
import { systemClock } from '../../setup/system.ts';
import type { Emit } from '../../telemetry/events.ts';
import { createLog } from '../../telemetry/log.ts';
import { type CliIo, exitCode, fail, openStopRequest } from '../io.ts';
import { describeStartFailure } from '../serve.ts';
import { formatProblem } from '../serve-config.ts';
import { isDemoPageRequest, type LegacyOrigin, openLegacyOrigin, trials, withAddresses } from './legacy-origin.ts';

/** Slow enough to watch a file arrive: some 5 s for the video, 40 s for the download. */
const bytesPerSecond = 400_000;

const originPort = 3000;
const firstPort = 8080;
const lastPort = 8099;

const clock: Clock = {
  now: () => Date.now(),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/** The options of the demo. */
export interface DemoOptions {
  /** `[host:]port`; without it the first free port of 127.0.0.1 from 8080 on, and 3000 for the origin alone. */
  readonly listen?: string | undefined;
  /** Whether the origin is started without a proxy in front of it. */
  readonly originOnly?: boolean | undefined;
}

/** Runs the demo until a signal stops it; resolves with the exit code. Its store is removed at the end. */
export async function runDemo({ listen, originOnly }: DemoOptions, io: CliIo): Promise<number> {
  if (originOnly === true) return await runOrigin(listen ?? `127.0.0.1:${originPort}`, io);
  using stop = openStopRequest(io);
  await using held = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-demo-'));
  held.defer(() => rm(dir, { recursive: true, force: true }));
  const origin = await openLegacyOrigin({ files: readDemoFiles(), bytesPerSecond, clock, isFollowed: true });
  held.defer(() => origin.close());

  const configure = (address: string): LoadedConfig =>
    checkConfig(
      { listen: address, store: { dir }, admin: { listen: '127.0.0.1:0' }, routes: [{ origin: origin.url }] },
      '.',
    );
  const started = await startOnFreePort(listen, configure, tellRequests(origin, io));
  if (started.kind === 'refused') {
    io.stderr.write(`${started.line}\n`);
    return started.code;
  }
  held.defer(() => started.server.close({ graceMs: 0 }));
  const addresses = {
    origin: origin.url,
    rangeway: started.server.url,
    dashboard: started.server.createDashboardLink() ?? '',
  };
  io.stdout.write(formatInvitation(addresses, io.stdout.hasColors?.() ?? false));
  await stop.requested;
  await held.disposeAsync();
  io.stdout.write('\nStopped; its store was removed.\n');
  return exitCode.done;
}

/** Runs the origin alone until a signal stops it; resolves with the exit code. */
async function runOrigin(listen: string, io: CliIo): Promise<number> {
  using stop = openStopRequest(io);
  // The listener of the origin is checked as one of a server would be.
  const checked = checkConfig(
    { listen, store: { type: 'memory' }, routes: [{ origin: 'http://origin.invalid' }] },
    '.',
  );
  if (checked.kind === 'invalid') {
    for (const problem of checked.problems) io.stderr.write(`${formatProblem(undefined, problem)}\n`);
    return exitCode.misused;
  }
  const place = checked.config.listen[0]?.address;
  if (place?.kind !== 'tcp') return fail(io, '--listen: the origin listens on [host:]port', exitCode.misused);
  let origin: LegacyOrigin;
  try {
    origin = await openLegacyOrigin({
      files: readDemoFiles(),
      bytesPerSecond,
      clock,
      listen: place,
      isFollowed: false,
    });
  } catch (error) {
    return fail(io, describeStartFailure(error, checked.config), exitCode.failed);
  }
  io.stdout.write(`origin    ${origin.url}  a slow server that sends whole files only. Ctrl-C stops it.\n`);
  await stop.requested;
  await origin.close();
  return exitCode.done;
}

/** Returns the page and its video. */
function readDemoFiles(): ReadonlyMap<string, Uint8Array> {
  return readPackageFolder('assets/demo');
}

type Started =
  | { readonly kind: 'ok'; readonly server: RunningServer }
  | { readonly kind: 'refused'; readonly line: string; readonly code: number };

/** Starts at `listen`, or without it on the first free port. */
async function startOnFreePort(
  listen: string | undefined,
  configure: (address: string) => LoadedConfig,
  emit: Emit,
): Promise<Started> {
  for (let port = firstPort; ; port += 1) {
    const checked = configure(listen ?? `127.0.0.1:${port}`);
    if (checked.kind === 'invalid') return refuse(checked.problems.map((problem) => formatProblem(undefined, problem)));
    try {
      return { kind: 'ok', server: await start(checked.config, { emit, adminSocket: true }) };
    } catch (error) {
      if (listen === undefined && port < lastPort && isPortTaken(error)) continue;
      return failed(error, checked.config);
    }
  }
}

function refuse(lines: readonly string[]): Started {
  return { kind: 'refused', line: lines.join('\n'), code: exitCode.misused };
}

function failed(error: unknown, config: Config): Started {
  return { kind: 'refused', line: `rangeway: ${describeStartFailure(error, config)}`, code: exitCode.failed };
}

function isPortTaken(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('code' in error && error.code === 'EADDRINUSE') || isPortTaken(error.cause);
}

/** Writes each request to the terminal and to every open page, except the page's own requests. */
function tellRequests(origin: LegacyOrigin, io: CliIo): Emit {
  const log = createLog({ level: 'info', format: 'pretty', stream: io.stdout, now: systemClock.now });
  const totals = new Map<string, { requests: number; bytes: number }>();
  return (event) => {
    if (event.kind === 'life' || (event.kind === 'request' && isDemoPageRequest(event.target))) return;
    log(event);
    if (event.kind !== 'request') return;
    const { target, range, status, outcome, bytesSent, durationMs } = event;
    const { requests, bytes } = totals.get(target) ?? { requests: 0, bytes: 0 };
    const total = { requests: requests + 1, bytes: bytes + bytesSent };
    totals.set(target, total);
    origin.publish('request', { target, range, status, outcome, bytesSent, durationMs, total });
  };
}

/** Formats the text, which ends with a line feed. With `colors` the lines to copy are coloured. */
function formatInvitation(
  addresses: { readonly origin: string; readonly rangeway: string; readonly dashboard: string },
  colors: boolean,
): string {
  const paint = (text: string): string => (colors ? styleText('cyan', text, { validateStream: false }) : text);
  const invitation = [
    `Rangeway  ${paint(addresses.rangeway)}  open it in a browser: a video to seek in`,
    `origin    ${paint(addresses.origin)}  the same files from a slow server that sends whole files only`,
    `dashboard ${paint(addresses.dashboard)}  what Rangeway does, live; the link logs in once, within 5 minutes`,
    ...trials.flatMap(({ title, command, shows }) => [
      '',
      `${title}:`,
      `  ${paint(withAddresses(command, addresses))}`,
      `  ${withAddresses(shows, addresses)}`,
    ]),
    '',
    'Ctrl-C stops both. Requests to Rangeway:',
    '',
  ];
  return `${invitation.join('\n')}\n`;
}
