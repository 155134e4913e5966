/**
 * `node bench/prefetch.ts`: plays an HLS stream through Rangeway in real time, before an origin with latency and a limited rate,
 * without prefetches and with 1, 2 and 4 segments (`fill.prefetch`). Prints a table in Markdown.
 *
 * The origin waits 100 ms before each response. Its rate is limited for each connection, as by the window of TCP on a long line, or
 * for all connections together. The player keeps two segments ahead of the picture, asks for one segment at a time, and stops before
 * the end, so that what was prefetched in vain counts.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, createServer, get, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { medianOf } from './median.ts';
import { formatFigure } from './table.ts';

const usage = `node bench/prefetch.ts [--segments N] [--seconds N]

  --segments N   how many segments are played (30)
  --seconds N    how long a segment is, in seconds (1)`;

const executable = fileURLToPath(new URL('../bin/rangeway.js', import.meta.url));

const latencyMs = 100;

/** How many segments the player keeps ahead, and how many of the playlist it leaves unplayed. */
const aheadSegments = 2;
const unplayedSegments = 10;

/** An origin, and the stream that it has. Rates are in bits per second. */
interface Line {
  readonly title: string;
  readonly streamRate: number;
  readonly connectionRate: number;
  readonly totalRate: number;
}

const lines: readonly Line[] = [
  {
    title: 'fast enough: 8 Mbit/s for each connection',
    streamRate: 3e6,
    connectionRate: 8e6,
    totalRate: Number.POSITIVE_INFINITY,
  },
  {
    title: 'too slow by itself: 3 Mbit/s for each connection',
    streamRate: 3e6,
    connectionRate: 3e6,
    totalRate: Number.POSITIVE_INFINITY,
  },
  { title: 'full: 3.3 Mbit/s for all connections', streamRate: 3e6, connectionRate: 3.3e6, totalRate: 3.3e6 },
];

/** What a play shows. */
interface Play {
  readonly firstByteMs: readonly number[];
  readonly startMs: number;
  readonly stalls: number;
  readonly stalledMs: number;
  readonly playedBytes: number;
  readonly originBytes: number;
}

interface Stream {
  readonly segments: number;
  readonly seconds: number;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: { segments: { type: 'string' }, seconds: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
  });
  const stream = { segments: Number(values.segments ?? 30), seconds: Number(values.seconds ?? 1) };
  const isRight = Number.isInteger(stream.segments) && stream.segments > 0 && stream.seconds > 0;
  if (values.help === true || !isRight) {
    (values.help === true ? console.log : console.error)(usage);
    return values.help === true ? 0 : 2;
  }
  console.log(
    '| origin | prefetched | first byte, median | first byte, p95 | start | stalls | stalled | origin bytes ÷ played |',
  );
  console.log('| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |');
  for (const line of lines) {
    // One after the other: they would take time from each other.
    for (const ahead of [0, 1, 2, 4]) console.log(rowOf(line, ahead, await measure(line, ahead, stream)));
  }
  return 0;
}

function rowOf({ title }: Line, ahead: number, play: Play): string {
  const ms = (value: number | undefined) => `${formatFigure(value, 0)} ms`;
  const cells = [
    title,
    ahead === 0 ? '–' : String(ahead),
    ms(medianOf(play.firstByteMs)),
    ms(percentile(play.firstByteMs, 0.95)),
    ms(play.startMs),
    String(play.stalls),
    `${formatFigure(play.stalledMs / 1000, 1)} s`,
    formatFigure(play.originBytes / play.playedBytes, 2),
  ];
  return `| ${cells.join(' | ')} |`;
}

function percentile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** Plays the stream once through a Rangeway of its own. */
async function measure(line: Line, ahead: number, stream: Stream): Promise<Play> {
  const segmentBytes = Math.round((line.streamRate / 8) * stream.seconds);
  const origin = new LimitedServer(line, segmentBytes, stream);
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-bench-prefetch-'));
  const config = {
    listen: '127.0.0.1:0',
    admin: 'off',
    store: { type: 'memory' },
    routes: [{ origin: await origin.open(), fill: ahead === 0 ? {} : { prefetch: { segments: ahead } } }],
  };
  await writeFile(join(dir, 'rangeway.json'), JSON.stringify(config));
  const child = spawn(process.execPath, [executable, '--config', join(dir, 'rangeway.json')]);
  try {
    const play = await playThrough(await readUrl(child.stdout), segmentBytes, stream);
    // What was begun before the player stopped is still fetched.
    while (origin.running > 0) await delay(50);
    return { ...play, originBytes: origin.sentBytes };
  } finally {
    child.kill();
    if (child.exitCode === null) await once(child, 'exit');
    origin.close();
    await rm(dir, { recursive: true, force: true });
  }
}

async function readUrl(output: NodeJS.ReadableStream): Promise<string> {
  let text = '';
  for await (const chunk of output) {
    text += chunk;
    const [, url] = /ready on (http:[^\s",]+)/.exec(text) ?? [];
    if (url !== undefined) {
      output.resume();
      return url;
    }
  }
  throw new Error(`Rangeway did not start: ${text}`);
}

/** Plays in real time: the picture starts with the first segment, and stands still while the next one is missing. */
async function playThrough(
  url: string,
  segmentBytes: number,
  { segments, seconds }: Stream,
): Promise<Omit<Play, 'originBytes'>> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const segmentMs = seconds * 1000;
  const firstByteMs: number[] = [];
  const began = performance.now();
  await download(`${url}/index.m3u8`, agent);
  let startMs = 0;
  let stalls = 0;
  let stalledMs = 0;
  /** When the picture needs the segment after the last one that is there. */
  let endsAt = 0;
  for (let at = 0; at < segments; at += 1) {
    const aheadMs = endsAt - performance.now();
    if (at > 0 && aheadMs > aheadSegments * segmentMs) await delay(aheadMs - aheadSegments * segmentMs);
    firstByteMs.push(await download(`${url}/${at}.ts`, agent));
    const now = performance.now();
    if (at === 0) startMs = now - began;
    else if (now > endsAt) {
      stalls += 1;
      stalledMs += now - endsAt;
    }
    endsAt = Math.max(endsAt, now) + segmentMs;
  }
  agent.destroy();
  return { firstByteMs, startMs, stalls, stalledMs, playedBytes: segments * segmentBytes };
}

/** Reads a resource; resolves with the time to its first byte, in milliseconds. */
async function download(url: string, agent: Agent): Promise<number> {
  const began = performance.now();
  const [response] = (await once(get(url, { agent }), 'response')) as [IncomingMessage];
  let firstMs: number | undefined;
  for await (const _ of response) firstMs ??= performance.now() - began;
  if (response.statusCode !== 200) throw new Error(`${url}: ${response.statusCode}`);
  return firstMs ?? 0;
}

/** How often the origin sends bytes, in milliseconds. */
const stepMs = 10;

/** An origin with latency, and a rate for each connection and for all together. */
class LimitedServer {
  sentBytes = 0;
  readonly #line: Line;
  readonly #segmentBytes: number;
  readonly #playlist: string;
  readonly #server: Server;
  /** The responses that are being sent, with the bytes that are left of each. */
  readonly #sending = new Map<ServerResponse, number>();
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;
  #steppedAt = 0;

  constructor(line: Line, segmentBytes: number, { segments, seconds }: Stream) {
    this.#line = line;
    this.#segmentBytes = segmentBytes;
    const names = Array.from({ length: segments + unplayedSegments }, (_, at) => `#EXTINF:${seconds},\n${at}.ts`);
    this.#playlist = ['#EXTM3U', `#EXT-X-TARGETDURATION:${Math.ceil(seconds)}`, ...names, '#EXT-X-ENDLIST'].join('\n');
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** The number of responses that are not over yet. */
  get running(): number {
    return this.#waiting + this.#sending.size;
  }

  async open(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#steppedAt = performance.now();
    this.#timer = setInterval(() => this.#step(), stepMs);
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #answer({ url = '' }: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#waiting += 1;
    await delay(latencyMs);
    this.#waiting -= 1;
    response.setHeader('cache-control', 'max-age=600');
    if (url.endsWith('.m3u8')) return void response.end(this.#playlist);
    response.setHeader('content-length', this.#segmentBytes);
    this.#sending.set(response, this.#segmentBytes);
    response.on('close', () => this.#sending.delete(response));
  }

  #step(): void {
    const now = performance.now();
    const seconds = (now - this.#steppedAt) / 1000;
    this.#steppedAt = now;
    const { connectionRate, totalRate } = this.#line;
    const rate = Math.min(connectionRate, totalRate / Math.max(1, this.#sending.size));
    const most = Math.round((rate / 8) * seconds);
    for (const [response, left] of this.#sending) {
      const bytes = Math.min(most, left);
      this.sentBytes += bytes;
      if (bytes === left) {
        this.#sending.delete(response);
        response.end(Buffer.alloc(bytes));
      } else {
        this.#sending.set(response, left - bytes);
        response.write(Buffer.alloc(bytes));
      }
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main();
