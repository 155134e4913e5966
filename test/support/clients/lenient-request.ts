/** A request reader as lenient as the worst origins, and Node's own reader. */

import { createServer } from 'node:http';
import { duplexPair } from 'node:stream';
import { text } from 'node:stream/consumers';
import { untilClosed } from '../clocks/until-closed.ts';
import type { ReadRequest } from './strict-request.ts';

/** The parts of a request on which readers must agree. */
export type Gist = Pick<ReadRequest, 'method' | 'target' | 'body'>;

/**
 * Reads as many requests as it can find. Lines end with LF, CR or both. Names lose white space and control characters, and any
 * punctuation in them counts as a hyphen. Folded lines are joined. Any Transfer-Encoding with `chunked` in it is chunked, and
 * overrides a length. Of several lengths the last counts. Sizes are read from their digits.
 */
export function readLeniently(bytes: string): Gist[] {
  const requests: Gist[] = [];
  let at = 0;
  while (bytes.slice(at).trim() !== '') {
    const lines: string[] = [];
    for (;;) {
      const line = takeLine(bytes, at);
      at = line.end;
      if (line.text !== '') lines.push(line.text);
      else if (lines.length > 0 || at >= bytes.length) break;
    }
    const [first = '', ...fieldLines] = lines
      .join('\n')
      .replace(/\n[ \t]+/g, ' ')
      .split('\n');
    const [method = '', target = ''] = first.trim().split(/\s+/);
    const body = readBody(bytes, at, fieldLines);
    requests.push({ method, target, body: body.text });
    at = body.end;
  }
  return requests;
}

interface Taken {
  readonly text: string;
  /** Offset of the next bytes. */
  readonly end: number;
}

function takeLine(bytes: string, start: number): Taken {
  const rest = bytes.slice(start);
  const lineEnd = /\r\n|\r|\n/.exec(rest);
  if (lineEnd === null) return { text: rest, end: bytes.length };
  return { text: rest.slice(0, lineEnd.index), end: start + lineEnd.index + lineEnd[0].length };
}

function readBody(bytes: string, start: number, lines: readonly string[]): Taken {
  const fields = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    const name = line
      .slice(0, colon)
      .toLowerCase()
      .replace(/[^!-~]/g, '')
      .replace(/[^a-z0-9]/g, '-');
    return [name, line.slice(colon + 1).toLowerCase()];
  });
  const isChunked = fields.some(([name, value]) => name === 'transfer-encoding' && value.includes('chunked'));
  if (isChunked) return readChunks(bytes, start);
  const length = fields.findLast(([name]) => name === 'content-length')?.[1] ?? '';
  const end = start + Number(/\d+/.exec(length)?.[0] ?? 0);
  return { text: bytes.slice(start, end), end };
}

function readChunks(bytes: string, start: number): Taken {
  let text = '';
  let at = start;
  while (at < bytes.length) {
    const line = takeLine(bytes, at);
    const dataEnd = line.end + (Number.parseInt(line.text.trim(), 16) || 0);
    text += bytes.slice(line.end, dataEnd);
    const isLast = dataEnd === line.end;
    at = takeLine(bytes, dataEnd).end;
    if (isLast) break;
  }
  return { text, end: at };
}

/** Reads complete requests with a server of Node. Throws where Node refuses them. */
export async function readByNode(bytes: string): Promise<Gist[]> {
  const requests: Promise<Gist>[] = [];
  const faults: string[] = [];
  const server = createServer({ insecureHTTPParser: false }, (message, response) => {
    const { method = '', url: target = '' } = message;
    message.setEncoding('latin1');
    requests.push(text(message).then((body) => ({ method, target, body })));
    response.end();
  });
  server.on('clientError', ({ message }) => faults.push(message));
  const [client, connection] = duplexPair();
  server.emit('connection', connection);
  client.resume();
  client.write(bytes, 'latin1');
  client.end();
  await untilClosed(connection);
  if (faults.length > 0) throw new Error(`Node refuses what the origin got: ${faults.join(', ')}`);
  return await Promise.all(requests);
}
