/** A client that reads the large body of the periodic origin, and compares every byte. */

import { get, type IncomingMessage } from 'node:http';
import type { Span } from '../src/bytes/span.ts';
import { isPeriodic } from '../test/support/values/periodic-body.ts';
import { BenchFault } from './fault.ts';

/** A client to which nothing comes for so long gives up. */
const patienceMs = 60_000;

/** What a client asks for. */
export interface PeriodicRead {
  readonly path: string;
  /** The size of the whole body. */
  readonly sizeBytes: number;
  /** Where it begins; undefined to ask without a range. */
  readonly start?: number;
  /** The end of its range, exclusive; undefined for an open one. */
  readonly end?: number;
  /** Whether it asks for what follows `start` as for so many bytes at the end, as who does not know the size does. */
  readonly isSuffix?: true;
  /** It leaves when it has so many bytes. */
  readonly leaveAfterBytes?: number;
}

/**
 * Reads, on a connection of its own, to the end or until it leaves. Resolves with the bytes that came. Throws `BenchFault`
 * for wrong ones, for a wrong head, and when the connection breaks before the end.
 */
export async function readPeriodic(port: number, read: PeriodicRead): Promise<Span> {
  const { path, sizeBytes, start, leaveAfterBytes = Number.POSITIVE_INFINITY } = read;
  const wanted = { start: start ?? 0, end: read.end ?? sizeBytes };
  const message = await ask(port, read);
  checkHead(message, read, wanted);
  let offset = wanted.start;
  try {
    for await (const chunk of message as AsyncIterable<Buffer>) {
      if (!isPeriodic(chunk, offset)) throw new BenchFault(`its client gets wrong bytes after ${inMiB(offset)} MiB`);
      offset += chunk.length;
      if (offset - wanted.start >= leaveAfterBytes) return { start: wanted.start, end: offset };
    }
  } catch (error) {
    if (error instanceof BenchFault) throw error;
    throw new BenchFault(`its client is cut off after ${inMiB(offset)} of ${inMiB(wanted.end)} MiB`);
  }
  if (offset !== wanted.end) throw new BenchFault(`${path}: ended at ${offset}, not at ${wanted.end}`);
  return wanted;
}

function ask(port: number, { path, sizeBytes, start, end, isSuffix }: PeriodicRead): Promise<IncomingMessage> {
  const last = end === undefined ? '' : end - 1;
  const headers =
    start === undefined ? {} : { range: isSuffix ? `bytes=-${sizeBytes - start}` : `bytes=${start}-${last}` };
  return new Promise((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path, headers, agent: false }, resolve);
    request.setTimeout(patienceMs, () =>
      request.destroy(new BenchFault(`${path}: nothing for ${patienceMs / 1000} s`)),
    );
    request.on('error', (error) => {
      reject(error instanceof BenchFault ? error : new BenchFault(`its client gets no answer: ${error.message}`));
    });
  });
}

function checkHead(message: IncomingMessage, { path, sizeBytes, start }: PeriodicRead, wanted: Span): void {
  const status = start === undefined ? 200 : 206;
  const contentRange = start === undefined ? undefined : `bytes ${wanted.start}-${wanted.end - 1}/${sizeBytes}`;
  const { statusCode, headers } = message;
  if (statusCode === status && headers['content-range'] === contentRange) return;
  message.destroy();
  const got = `status ${statusCode}, Content-Range ${headers['content-range']}`;
  throw new BenchFault(`${path}: ${got}, not status ${status}, Content-Range ${contentRange}`);
}

function inMiB(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}
