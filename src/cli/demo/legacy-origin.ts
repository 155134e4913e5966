/**
 * The origin of the demo: an old server that sends whole files only, at the pace of a slow link. It knows neither Range nor
 * conditional requests, and sends neither Accept-Ranges nor ETag. It also serves the page of the demo and its event stream.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { formatListenAddress, type ListenAddress } from '../../config/address.ts';
import type { Clock } from '../../http/clock.ts';

/** The demo page's own requests: facts about the demo, and its event stream. Neither is counted. */
const aboutPath = '/demo.json';
const newsPath = '/demo-events';

/** Checks whether a target is one of the demo page's own requests. */
export function isDemoPageRequest(target: string): boolean {
  return target === aboutPath || target === newsPath;
}

/** Long before any clone of the repository, so that a cache may treat the files as fresh for a while (RFC 9111 §4.2.2). */
const lastModified = 'Wed, 01 Jan 2020 00:00:00 GMT';

/** What reaches a server on this machine that listens on all addresses. */
const wildcardHosts: ReadonlyMap<string, string> = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
]);

const newsEveryMs = 250;
/** After so many rounds without a change the statistics are sent all the same, so that the stream does not look dead. */
const quietRounds = 40;

/** The requests for the body of one file, and the bytes sent. */
interface FileStats {
  readonly requests: number;
  /** Requests that had a Range field, which was ignored. */
  readonly rangeRequests: number;
  /** Bytes of body handed to connections: of all requests, and of the latest one. */
  readonly bytes: number;
  readonly latestBytes: number;
  /** Size of the file; undefined where the server states no length. */
  readonly sizeBytes: number | undefined;
}

/** The requests so far; HEAD does not count. */
export interface LegacyStats {
  readonly requests: number;
  readonly bytes: number;
  /** By path; only files that were requested. */
  readonly files: Readonly<Record<string, FileStats>>;
}

/** How to open the server. */
interface LegacyOriginOptions {
  /** The files that it serves by name, `/` being its index.html. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Where it listens; by default on a free port of 127.0.0.1. */
  readonly listen?: ListenAddress | undefined;
  /** Whether the requests of a proxy in front of it are published, so that its page can show them. */
  readonly isFollowed: boolean;
  /** The pace of each response. */
  readonly bytesPerSecond: number;
  readonly clock: Clock;
}

/** A running server. */
export interface LegacyOrigin {
  /** Its address, such as `http://127.0.0.1:40123`. */
  readonly url: string;
  stats(): LegacyStats;
  /** Sends an event to every open page; pages that are opened later get the latest events too. `data` becomes JSON. */
  publish(name: string, data: unknown): void;
  /** Ends the event streams, cuts the other connections, and stops listening. */
  close(): Promise<void>;
}

/** Opens the server. Rejects with Node's error where it cannot listen. */
export async function openLegacyOrigin(options: LegacyOriginOptions): Promise<LegacyOrigin> {
  const { clock, isFollowed, listen = { host: '127.0.0.1', port: 0 } } = options;
  const files = openLegacyFiles(options.files);
  const tally = createTally();
  const feed = createLiveFeed();
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').replace(/\?.*/, '');
    const file = files.get(path);
    if (request.method !== 'GET' && request.method !== 'HEAD') refuse(response, 405, { allow: 'GET, HEAD' });
    else if (path === aboutPath) tell(response, { origin: url, isFollowed, trials, stats: tally.stats() });
    else if (path === newsPath) feed.subscribe(response, 'stats', tally.stats());
    else if (file === undefined) refuse(response, 404, {});
    else if (request.method === 'HEAD') describeFile(response, file).end();
    else void sendFile(describeFile(response, file), file, tally.begin(path, file, request), options);
  });
  server.listen(listen.port, listen.host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://${formatListenAddress({ host: wildcardHosts.get(listen.host) ?? listen.host, port })}`;
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

/** Counts requests and bytes. `begin` counts a request for a file and returns the function that counts its response's bytes. */
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

/** Publishes the statistics when they have changed, and after `quietRounds` rounds. Returns the function that stops this. */
function repeatNews(
  clock: Clock,
  stats: () => LegacyStats,
  publish: (name: string, data: unknown) => void,
): () => void {
  let lastText = '';
  let quiet = 0;
  let cancel = (): void => {};
  const round = (): void => {
    const now = stats();
    const text = JSON.stringify(now);
    quiet = text === lastText ? quiet + 1 : 0;
    if (quiet % quietRounds === 0) publish('stats', now);
    lastText = text;
    cancel = clock.after(newsEveryMs, round);
  };
  round();
  return () => cancel();
}

/** The size of `/download.bin`. */
const downloadBytes = 16 * 1024 * 1024;

const chunkBytes = 64 * 1024;
const reportRows = 4000;

const mediaTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mp4': 'video/mp4',
  '.svg': 'image/svg+xml',
};

/** One file of the server. */
interface LegacyFile {
  readonly mediaType: string;
  /** Content-Length; a file without one is sent in chunks and has no validator either. */
  readonly sizeBytes: number | undefined;
  /** Reads the file from its first byte; it cannot be read from elsewhere. */
  open(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/**
 * Returns the files by path: those given whose media type is known, with `/` for index.html, and `/download.bin` and
 * `/report.csv`.
 */
function openLegacyFiles(given: ReadonlyMap<string, Uint8Array>): ReadonlyMap<string, LegacyFile> {
  const files = new Map<string, LegacyFile>([
    ['/download.bin', { mediaType: 'application/octet-stream', sizeBytes: downloadBytes, open: downloadChunks }],
    ['/report.csv', { mediaType: 'text/csv; charset=utf-8', sizeBytes: undefined, open: reportChunks }],
  ]);
  for (const [name, bytes] of given) {
    const mediaType = mediaTypes[extname(name)];
    if (mediaType === undefined) continue;
    const file = { mediaType, sizeBytes: bytes.byteLength, open: () => [bytes] };
    files.set(name === 'index.html' ? '/' : `/${name}`, file);
  }
  return files;
}

/** Yields bytes that look random, and are the same each time. */
function* downloadChunks(): Generator<Uint8Array, void, undefined> {
  for (let start = 0; start < downloadBytes; start += chunkBytes) {
    const words = new Uint32Array(chunkBytes / 4);
    for (let i = 0; i < words.length; i++) {
      const seed = Math.imul(start / 4 + i + 1, 0x9e3779b1);
      words[i] = Math.imul(seed ^ (seed >>> 15), 0x85ebca6b);
    }
    yield new Uint8Array(words.buffer);
  }
}

function* reportChunks(): Generator<Uint8Array, void, undefined> {
  const encoder = new TextEncoder();
  yield encoder.encode('day,requests,megabytes\n');
  for (let day = 1; day <= reportRows; day++) {
    yield encoder.encode(`${day},${(day * 7919) % 10_007},${(day * 104_729) % 997}\n`);
  }
}

/** How many bytes are sent at a time; few enough to watch a fill grow. */
const pieceBytes = 16 * 1024;

/** How fast bytes may pass. */
interface Pace {
  readonly bytesPerSecond: number;
  /** How many bytes may pass at once after a pause. */
  readonly burstBytes: number;
}

/** Holds bytes to a pace. */
export interface TokenBucket {
  /** Takes bytes, on credit where too few are left. Returns how many milliseconds to wait before they pass. */
  take(bytes: number): number;
}

/** Creates a bucket that starts full. */
export function createTokenBucket(pace: Pace, clock: Clock): TokenBucket {
  let tokens = pace.burstBytes;
  let countedAt = clock.now();
  return {
    take(bytes) {
      const now = clock.now();
      tokens = Math.min(pace.burstBytes, tokens + ((now - countedAt) / 1000) * pace.bytesPerSecond) - bytes;
      countedAt = now;
      return tokens >= 0 ? 0 : Math.ceil((-tokens / pace.bytesPerSecond) * 1000);
    },
  };
}

/** Yields the bytes of a body at the pace of a bucket. Nothing is read ahead: a reader that pauses makes the body pause. */
export async function* paceBody(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  bucket: TokenBucket,
  clock: Clock,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of body) {
    for (let start = 0; start < chunk.byteLength; start += pieceBytes) {
      const piece = chunk.subarray(start, start + pieceBytes);
      const waitMs = bucket.take(piece.byteLength);
      if (waitMs > 0) await new Promise<void>((resolve) => void clock.after(waitMs, resolve));
      yield piece;
    }
  }
}

/** How many messages are kept for later subscribers. */
const keptMessages = 100;

/** An event stream to all subscribers. */
interface LiveFeed {
  /** Answers a request with the stream, which begins with this message and the messages that were kept. */
  subscribe(response: ServerResponse, name: string, data: unknown): void;
  /** Sends a message to every subscriber; `data` becomes JSON. A subscriber that reads too slowly misses it. */
  publish(name: string, data: unknown): void;
  /** Publishes a message, and keeps it among the latest for later subscribers. */
  publishAndKeep(name: string, data: unknown): void;
  /** Ends every stream. */
  end(): void;
}

/** Creates a feed without subscribers. */
function createLiveFeed(): LiveFeed {
  const subscribers = new Set<ServerResponse>();
  const kept: string[] = [];
  const send = (message: string): void => {
    for (const response of subscribers) if (!response.writableNeedDrain) response.write(message);
  };
  return {
    subscribe(response, name, data) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      response.write([formatMessage(name, data), ...kept].join(''));
      subscribers.add(response);
      response.once('close', () => subscribers.delete(response));
    },
    publish: (name, data) => send(formatMessage(name, data)),
    publishAndKeep(name, data) {
      const message = formatMessage(name, data);
      if (kept.push(message) > keptMessages) kept.shift();
      send(message);
    },
    end() {
      for (const response of subscribers) response.end();
    },
  };
}

function formatMessage(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** A command line, and what it shows. */
interface Trial {
  readonly title: string;
  /** The command, with `{origin}` and `{rangeway}` where the addresses go. */
  readonly command: string;
  /** One sentence. */
  readonly shows: string;
}

/** In the order in which they are shown. */
export const trials: readonly Trial[] = [
  {
    title: 'Ask the origin for the last 100 bytes',
    command: 'curl -s -o /dev/null -D - -r -100 {origin}/range-test.mp4',
    shows: 'It answers 200 and sends the whole file, which takes it some 5 s.',
  },
  {
    title: 'Ask Rangeway for the same',
    command: 'curl -s -o /dev/null -D - -r -100 {rangeway}/range-test.mp4',
    shows:
      'It answers 206 with those 100 bytes: after some 5 s the first time, because the origin sends the whole file; then at once, and Cache-Status says hit.',
  },
  {
    title: 'Ask for two ranges of a file that comes without a length',
    command: 'curl -s -r 0-22,-14 {rangeway}/report.csv',
    shows: 'Its first line and its last come as multipart/byteranges.',
  },
  {
    title: 'Start a download, stop it with Ctrl-C, and run the same line again',
    command: 'curl -C - -O {rangeway}/download.bin',
    shows: 'It goes on where it stopped. The origin itself, {origin}, cannot do that.',
  },
];

/** Fills the addresses, such as `http://127.0.0.1:8080`, into a text. */
export function withAddresses(text: string, addresses: { readonly origin: string; readonly rangeway: string }): string {
  return text.replaceAll('{origin}', addresses.origin).replaceAll('{rangeway}', addresses.rangeway);
}
