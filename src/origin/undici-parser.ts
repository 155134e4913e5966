/**
 * Reaches undici's parser, which is not exported: undici has no option that would mend heads. Where a version of undici keeps its
 * parser elsewhere, heads that need mending get 502.
 */

import type { Client } from 'undici';
import errors from 'undici/lib/core/errors.js';
import { HeadMender } from './head-mending.ts';

/**
 * Has the heads of a new connection mended before undici's parser gets them, and returns the mender. A line of more than `maxHeadBytes` ends
 * the connection.
 */
export function mendHeads(client: Client, maxHeadBytes: number): HeadMender | undefined {
  const socket = hiddenMember(client, 'socket') as { destroy(error: Error): unknown } | undefined;
  const parser = hiddenMember(socket, 'parser') as OpenParser | undefined;
  const execute = parser?.execute;
  if (socket === undefined || parser === undefined || execute === undefined) return undefined;
  // Old servers pad the size of a chunk with spaces (RFC 9112 §7.1 has none); browsers, curl and nginx take them.
  parser.llhttp?.llhttp_set_lenient_spaces_after_chunk_size?.(parser.ptr, 1);
  const mender = new HeadMender((isBare) =>
    parser.llhttp?.llhttp_set_lenient_optional_cr_before_lf?.(parser.ptr, isBare ? 1 : 0),
  );
  parser.execute = (chunk) => {
    // Between responses the parser has no status. What comes without a request it must see at once, to end the connection.
    if (parser.statusCode !== 0 || chunk.length === 0 || client.stats.running === 0) return execute.call(parser, chunk);
    const bytes = mender.read(chunk);
    if (mender.heldBytes > maxHeadBytes) socket.destroy(new errors.HeadersOverflowError());
    else if (bytes.length > 0) execute.call(parser, bytes);
  };
  return mender;
}

/** The parts of undici's parser that are used. */
interface OpenParser {
  readonly ptr: number;
  readonly statusCode: number;
  readonly llhttp?: {
    llhttp_set_lenient_optional_cr_before_lf?(parser: number, isLenient: 0 | 1): void;
    llhttp_set_lenient_spaces_after_chunk_size?(parser: number, isLenient: 0 | 1): void;
  };
  execute?(chunk: Buffer): void;
}

/** The value of an object under a symbol that is not exported. */
function hiddenMember(owner: unknown, description: string): unknown {
  if (typeof owner !== 'object' || owner === null) return undefined;
  const symbol = Object.getOwnPropertySymbols(owner).find((each) => each.description === description);
  return symbol === undefined ? undefined : Reflect.get(owner, symbol);
}
