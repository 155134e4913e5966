/** A client that compares every byte with the version that the response names. */

import { once } from 'node:events';
import { get, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { type FileVersion, isOfVersion, nameOf, versionNamed } from '../origins/versioned-file.ts';
import { versionField } from '../origins/versioned-origin.ts';

/** A verified response. */
export interface Verified {
  /** 0 where the connection ended before the head. */
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly version: FileVersion | undefined;
  /** Whether the body, whole or a range, is complete. */
  readonly isComplete: boolean;
  readonly bytes: number;
  /** Whether it was a hit, without a request to the origin. */
  readonly isHit: boolean;
}

/** The request. */
export interface VerifiedRequest {
  /** The base URL of the server, such as `http://127.0.0.1:8080`. The Host field is the same for every server. */
  readonly base: string;
  readonly path: string;
  readonly range?: string | undefined;
  /** Called with the client's port when the head has arrived. */
  readonly onHead?: (port: number) => void;
  /** Called with the size of each right chunk, in bytes. */
  readonly onChunk?: (bytes: number) => void;
}

/**
 * Sends a request, and verifies the response. A connection that ends early is reported, because the server may have been killed. A
 * wrong byte, or a complete response with a wrong length, is thrown.
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
  // A suffix range may be relayed as the origin sends it. Without a tag, no client can combine it with other parts.
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

/** Waits for the end of a response. Returns whether it ended regularly. */
function ending(response: IncomingMessage): Promise<boolean> {
  return new Promise((resolve) => {
    response.on('error', () => {});
    response.on('close', () => resolve(response.complete && response.errored === null));
  });
}
