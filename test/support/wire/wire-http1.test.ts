/** The strict client detects bytes that a listener must not write. */

import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { untilClosed } from '../clocks/until-closed.ts';
import { WireHttp1 } from './wire-http1.ts';

/** Reads a response with the client. Returns status and body, with ` broken` where it broke off; and the number of faults. */
async function readRaw(method: string, text: string): Promise<{ readonly result: string; readonly faults: number }> {
  const server = createServer((socket) => socket.resume().end(text, 'latin1'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const faults: Error[] = [];
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const client = new WireHttp1(socket, (fault) => faults.push(fault));
  const stream = client.begin({ method, target: '/', version: '1.1', fields: [['host', 'a.example']] });
  let result = '';
  try {
    result = `${(await stream.head).status}:`;
    for (let chunk = await stream.take(); chunk !== undefined; chunk = await stream.take()) result += chunk.toString();
  } catch {
    result += ' broken';
  }
  await untilClosed(socket);
  await once(server.close(), 'close');
  return { result, faults: faults.length };
}

it.each([
  ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab', '200:ab', 0],
  ['GET', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nA: b\r\n\r\n', '200:ab', 0],
  ['GET', 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nab', '200:ab', 0],
  ['GET', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n', '204:', 0],
  ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n', '200:', 0],
  ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab', '200:ab broken', 0],
  ['GET', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n', '200:ab broken', 0],
  ['GET', 'HTTP/1.1 200 OK\r\nContent-Le', ' broken', 0],
  ['GET', '', ' broken', 0],
  ['GET', 'HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n', ' broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc', '200:ab', 1],
  ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab', '200:', 1],
  ['GET', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nab', '304:', 1],
  ['GET', 'HTTP/1.1 200 OK\r\n\r\nab', ' broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab', ' broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab', ' broken', 1],
  ['GET', 'HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', ' broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab', ' broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nX :y\r\nContent-Length: 0\r\n\r\n', ' broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nX: y \r\nContent-Length: 0\r\n\r\n', ' broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nX: a\nb\r\nContent-Length: 0\r\n\r\n', ' broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\n\r\n', '200: broken', 1],
  ['GET', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n', '200:ab broken', 1],
])('%s %j is read as %j with %i faults', async (method, text, result, faults) => {
  expect(await readRaw(method, text)).toEqual({ result, faults });
});
