/**
 * The demo's origin: a server as old ones are. It sends whole files only, at the pace of a slow link, knows no Range and
 * no conditional requests, and sends no Accept-Ranges and no ETag.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Clock } from '../../http/clock.ts';
import { type LegacyFile, openLegacyFiles } from './legacy-files.ts';
import { createLiveFeed } from './live-feed.ts';
import { createTokenBucket, paceBody } from './token-bucket.ts';
import { trials } from './trials.ts';

/** Where the page learns about the demo, and where it hears news of it; neither counts as a request. */
const aboutPath = '/demo.json';
const newsPath = '/demo-events';

/** Whether a target is one of the page's own, by which it learns what the rest is doing. */
export function isPagesOwn(target: string): boolean {
  return target === aboutPath || target === newsPath;
}

/** Older by far than any fresh clone, so that a cache may take the files for fresh for a while (RFC 9111 §4.2.2). */
const lastModified = 'Wed, 01 Jan 2020 00:00:00 GMT';

const newsEveryMs = 250;
/** A stream of news is never silent for longer than this many rounds, lest somebody take it for dead. */
const quietRounds = 40;

/** How often the body of one file was asked for, and what of it was sent. */
export interface FileStats {
  readonly requests: number;
  /** Requests that had a Range field, which was ignored. */
  readonly rangeRequests: number;
  /** Bytes of body handed to connections, of all requests together and of the latest alone. */
  readonly bytes: number;
  readonly latestBytes: number;
  /** The size of the whole, where the server tells it. */
  readonly sizeBytes: number | undefined;
}

/** What the server was asked for so far; requests for a head alone do not count. */
export interface LegacyStats {
  readonly requests: number;
  readonly bytes: number;
  /** By path; a file is here once it was asked for. */
  readonly files: Readonly<Record<string, FileStats>>;
}

/** How to open the server. */
export interface LegacyOriginOptions {
  /** The directory whose files it serves, `/` being its index.html. */
  readonly dir: string;
  /** The pace of each response. */
  readonly bytesPerSecond: number;
  readonly clock: Clock;
}

/** A running server. */
export interface LegacyOrigin {
  /** Its address, such as `http://127.0.0.1:40123`. */
  readonly url: string;
  stats(): LegacyStats;
  /** Tells every open page something, and the latest of it also those that are opened later; `data` becomes JSON. */
  publish(name: string, data: unknown): void;
  /** Ends the streams of news, cuts the other connections, and stops listening. */
  close(): Promise<void>;
}

/** Opens the server on a free port of 127.0.0.1. Throws when the directory cannot be read or no port is free. */
export async function openLegacyOrigin(options: LegacyOriginOptions): Promise<LegacyOrigin> {
  const { clock } = options;
  const files = await openLegacyFiles(options.dir);
  const tally = createTally();
  const feed = createLiveFeed();
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').replace(/\?.*/, '');
    const file = files.get(path);
    if (request.method !== 'GET' && request.method !== 'HEAD') refuse(response, 405, { allow: 'GET, HEAD' });
    else if (path === aboutPath) tell(response, { origin: url, trials, stats: tally.stats() });
    else if (path === newsPath) feed.subscribe(response, 'stats', tally.stats());
    else if (file === undefined) refuse(response, 404, {});
    else if (request.method === 'HEAD') describeFile(response, file).end();
    else void sendFile(describeFile(response, file), file, tally.begin(path, file, request), options);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stopNews = repeatNews(clock, () => tally.stats(), feed.publish);
  return {
    url,
    stats: tally.stats,
    publish: feed.publishAndKeep,
    async close() {
      stopNews();
      feed.end();
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function refuse(response: ServerResponse, status: number, fields: Record<string, string>): void {
  response.writeHead(status, { ...fields, 'content-length': 0 }).end();
}

function tell(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify(value));
}

function describeFile(response: ServerResponse, file: LegacyFile): ServerResponse {
  response.setHeader('content-type', file.mediaType);
  if (file.sizeBytes !== undefined) {
    response.setHeader('content-length', file.sizeBytes);
    response.setHeader('last-modified', lastModified);
  }
  return response;
}

async function sendFile(
  response: ServerResponse,
  file: LegacyFile,
  count: (bytes: number) => void,
  { bytesPerSecond, clock }: LegacyOriginOptions,
): Promise<void> {
  const bucket = createTokenBucket({ bytesPerSecond, burstBytes: bytesPerSecond / 8 }, clock);
  const counted = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const piece of paceBody(file.open(), bucket, clock)) {
      count(piece.byteLength);
      yield piece;
    }
  };
  try {
    await pipeline(Readable.from(counted(), { objectMode: false, highWaterMark: 1 }), response);
  } catch {
    // The client has left, or the file cannot be read: pipeline has cut the connection, which is what an old server does.
  }
}

/** Counts requests and bytes. `begin` counts a request for a file and gives what counts the bytes of its response. */
function createTally(): {
  begin(path: string, file: LegacyFile, request: IncomingMessage): (bytes: number) => void;
  stats(): LegacyStats;
} {
  const files: Record<string, { -readonly [name in keyof FileStats]: FileStats[name] }> = {};
  return {
    begin(path, { sizeBytes }, request) {
      files[path] ??= { requests: 0, rangeRequests: 0, bytes: 0, latestBytes: 0, sizeBytes };
      const stats = files[path];
      stats.requests += 1;
      stats.rangeRequests += request.headers.range === undefined ? 0 : 1;
      const number = stats.requests;
      stats.latestBytes = 0;
      return (bytes) => {
        stats.bytes += bytes;
        if (number === stats.requests) stats.latestBytes += bytes;
      };
    },
    stats() {
      const all = Object.values(files);
      return {
        requests: all.reduce((sum, { requests }) => sum + requests, 0),
        bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
        files: structuredClone(files),
      };
    },
  };
}

/** Publishes the numbers whenever they have changed. Gives what ends it. */
function repeatNews(
  clock: Clock,
  stats: () => LegacyStats,
  publish: (name: string, data: unknown) => void,
): () => void {
  let told = '';
  let quiet = 0;
  let cancel = (): void => {};
  const round = (): void => {
    const now = stats();
    const text = JSON.stringify(now);
    quiet = text === told ? quiet + 1 : 0;
    if (quiet % quietRounds === 0) publish('stats', now);
    told = text;
    cancel = clock.after(newsEveryMs, round);
  };
  round();
  return () => cancel();
}
