/** GET, with every byte of the answer compared to what the file has there. */

import { Agent, get, type IncomingMessage } from 'node:http';
import type { Span } from '../src/bytes/span.ts';
import { isPeriodic } from '../test/support/periodic-body.ts';
import { BenchFault } from './fault.ts';
import type { SampleFile } from './sample-file.ts';

const agent = new Agent({ keepAlive: true });

/**
 * Asks a proxy for a file, or for one span of it. Throws `BenchFault` for a wrong status, length or byte. The connections
 * are kept until `closeConnections`.
 */
export async function checkedGet(port: number, file: SampleFile, span?: Span): Promise<void> {
  const message = await ask(port, file, span);
  await check(message, message as AsyncIterable<Buffer>, file, span);
}

/** The same, but the bytes are compared when all of them have come; gives the time from the request to then, in ms. */
export async function timedGet(port: number, file: SampleFile, span: Span): Promise<number> {
  const startedAt = performance.now();
  const message = await ask(port, file, span);
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
  const ms = performance.now() - startedAt;
  await check(message, chunks, file, span);
  return ms;
}

async function check(
  message: IncomingMessage,
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>,
  file: SampleFile,
  span: Span | undefined,
): Promise<void> {
  const wanted = span ?? { start: 0, end: file.window.end - file.window.start };
  const what = `${file.path}${span === undefined ? '' : ` bytes ${span.start}-${span.end - 1}`}`;
  const status = span === undefined ? 200 : 206;
  if (message.statusCode !== status) {
    message.destroy();
    throw new BenchFault(`${what}: status ${message.statusCode}, not ${status}`);
  }
  let offset = file.window.start + wanted.start;
  for await (const chunk of chunks) {
    if (!isPeriodic(chunk, offset)) {
      throw new BenchFault(`${what}: wrong bytes after ${offset - file.window.start}`);
    }
    offset += chunk.length;
  }
  const end = offset - file.window.start;
  if (end !== wanted.end) throw new BenchFault(`${what}: ended at ${end}, not at ${wanted.end}`);
}

/** Closes what `checkedGet` has kept. */
export function closeConnections(): void {
  agent.destroy();
}

function ask(port: number, file: SampleFile, span: Span | undefined): Promise<IncomingMessage> {
  const headers = span === undefined ? {} : { range: `bytes=${span.start}-${span.end - 1}` };
  return new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port, path: file.path, headers, agent }, resolve).on('error', reject);
  });
}
