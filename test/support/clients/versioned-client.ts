/** A client that compares every byte that it gets with the version under which it was served. */

import { once } from 'node:events';
import { get, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { type FileVersion, isOfVersion, nameOf, versionNamed } from '../origins/versioned-file.ts';
import { versionField } from '../origins/versioned-origin.ts';

/** What came of a request. Nothing of it was wrong. */
export interface Verified {
  /** 0 where the connection ended before the head. */
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly version: FileVersion | undefined;
  /** Whether all came that was promised, the whole or a part of it. */
  readonly isComplete: boolean;
  readonly bytes: number;
  /** Whether it came from the store, without a word to the origin. */
  readonly isHit: boolean;
}

/** What to ask. */
export interface VerifiedRequest {
  /** Where Rangeway is now, such as `http://127.0.0.1:8080`. It is asked for the same host, wherever it is. */
  readonly base: string;
  readonly path: string;
  readonly range?: string | undefined;
  /** Told, when the head has come, of the port that was asked from. */
  readonly onHead?: (port: number) => void;
  /** Told of each chunk that has come and was right, and how many bytes it is. */
  readonly onChunk?: (bytes: number) => void;
}

/**
 * Asks, reads and verifies. A connection that ends too early is reported, for a server may be killed; a wrong byte, and a
 * response that is called complete and is not, are thrown.
 */
export async function askVerified({ base, path, range, onHead, onChunk }: VerifiedRequest): Promise<Verified> {
  const fields = { host: 'files.example', ...(range === undefined ? {} : { range }) };
  let response: IncomingMessage;
  try {
    [response] = await once(get(base + path, { headers: fields, agent: false }), 'response');
  } catch {
    return { status: 0, headers: {}, version: undefined, isComplete: false, bytes: 0, isHit: false };
  }
  const { statusCode: status = 0, headers } = response;
  onHead?.(response.socket.localPort ?? 0);
  const isHit = /; ?hit/.test(headers['cache-status']?.toString() ?? '');
  if (status !== 200 && status !== 206) {
    response.resume();
    const isComplete = await ending(response);
    return { status, headers, version: undefined, isComplete, bytes: 0, isHit };
  }
  const where = `${path} ${range ?? ''}: ${status}`;
  const version = versionOf(headers, where);
  const span = status === 200 ? { start: 0, end: version.sizeBytes } : spanOf(headers, version, where);
  let offset = span.start;
  response.on('data', (chunk: Buffer) => {
    if (!isOfVersion(version, chunk, offset)) {
      response.destroy(new Error(`${where}: wrong bytes of ${nameOf(version)} after ${offset}`));
      return;
    }
    offset += chunk.length;
    onChunk?.(chunk.length);
  });
  const isComplete = await ending(response);
  if (response.errored?.message.includes('wrong bytes')) throw response.errored;
  if (offset > span.end || (isComplete && offset !== span.end)) {
    throw new Error(`${where}: ${offset - span.start} bytes instead of ${span.end - span.start}`);
  }
  return { status, headers, version, isComplete, bytes: offset - span.start, isHit };
}

function versionOf(headers: IncomingHttpHeaders, where: string): FileVersion {
  const name = headers[versionField]?.toString() ?? '';
  const version = versionNamed(name);
  // The end of a file may be passed on as the origin sends it, without a tag: then nobody can combine it with anything.
  const isTail = headers.etag === undefined && / bytes=-\d+: 206$/.test(where);
  const isTagged = /\/(?:ranged|tagged|weak)\//.test(where) && !isTail;
  if (isTagged && headers.etag?.replace(/^W\//, '') !== `"${name}"`) {
    throw new Error(`${where}: ${headers.etag} for version ${name}`);
  }
  return version;
}

function spanOf(
  headers: IncomingHttpHeaders,
  { sizeBytes }: FileVersion,
  where: string,
): { start: number; end: number } {
  const [, first, last, size] = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(headers['content-range'] ?? '') ?? [];
  const isRight =
    Number(first) <= Number(last) && Number(last) < sizeBytes && ['*', String(sizeBytes)].includes(size ?? '');
  if (!isRight) throw new Error(`${where}: Content-Range ${headers['content-range']} of ${sizeBytes} bytes`);
  return { start: Number(first), end: Number(last) + 1 };
}

/** Waits for the end of a response; tells whether it was a regular one. */
function ending(response: IncomingMessage): Promise<boolean> {
  return new Promise((resolve) => {
    response.on('error', () => {});
    response.on('close', () => resolve(response.complete && response.errored === null));
  });
}
