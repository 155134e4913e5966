/** A client that reads the large body of the periodic origin and compares every byte. */

import { get, type IncomingMessage } from 'node:http';
import type { Span } from '../src/bytes/span.ts';
import { isPeriodic } from '../test/support/values/periodic-body.ts';
import { BenchFault } from './fault.ts';

/** A client gives up after this time without a byte. */
const patienceMs = 60_000;

/** The request of a client, and when it leaves. */
export interface PeriodicRead {
  readonly path: string;
  /** The size of the whole body. */
  readonly sizeBytes: number;
  /** First byte of the range; undefined for a request without a range. */
  readonly start?: number;
  /** End of the range, exclusive; undefined for an open range. */
  readonly end?: number;
  /** Whether the range is sent as a suffix (`bytes=-n`), as by a client that does not know the size. */
  readonly isSuffix?: true;
  /** The client leaves once it has this many bytes. */
  readonly leaveAfterBytes?: number;
}

/**
 * Reads on a new connection, to the end or until the client leaves. Resolves with the span that was read. Throws
 * `BenchFault` for wrong bytes, for a wrong head, and when the connection breaks before the end.
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
      request.destroy(new BenchFault(`${path}: no byte within ${patienceMs / 1000} s`)),
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
