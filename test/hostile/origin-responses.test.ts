/**
 * Hostile, false and broken responses: what a client gets through the whole server, what is stored, and whether the next
 * response is the right one. The origin is a raw socket.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { RawClient, rawValues } from '../support/clients/raw-client.ts';
import { asUndiciWaits } from '../support/clocks/undici-time.ts';
import { openScriptedOrigin, type Play, type ScriptedOrigin } from '../support/origins/scripted-origin.ts';

/**
 * `first` is the client's response: status, body, and `cut` where it is visibly incomplete. `then` is the source of the next
 * response to the same request: `stored` for the same bytes from the store, `fresh` for a new response of the origin.
 */
type Row = [name: string, play: Play, first: string, then: 'stored' | 'fresh', method?: string];

const plays = new Map<string, Play>();
let origin: ScriptedOrigin;
let server: RunningServer;
let port: number;

/** The first request for a path gets the response of its row. All others get a correct response. */
beforeAll(async () => {
  origin = await openScriptedOrigin(async (exchange) => {
    const { target, method } = exchange.request;
    const play = plays.get(target);
    plays.delete(target);
    if (typeof play === 'function') return await play(exchange);
    if (play !== undefined) return await exchange.send(play);
    const body = `fresh ${target}`;
    const head = `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nCache-Control: max-age=60\r\n\r\n`;
    return await exchange.send(head + (method === 'HEAD' ? '' : body));
  });
  const url = origin.url;
  const checked = checkConfig(
    {
      listen: '127.0.0.1:0',
      store: { type: 'memory' },
      routes: [
        {
          origin: { url, connections: 1, retries: { attempts: 0 } },
          fill: { resumeAttempts: 0 },
        },
      ],
    },
    '/',
  );
  if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
  server = await start(checked.config);
  port = Number(new URL(server.url).port);
});
afterAll(async () => {
  await server.close({ graceMs: 0 });
  await origin.close();
});

/** Sends the bytes, then FIN, RST or nothing. */
const after =
  (end: 'end' | 'cut' | 'closed') =>
  (bytes: string): Play =>
  async (exchange) => {
    await exchange.send(bytes);
    await (end === 'closed' ? exchange.closed : exchange[end]());
  };
const thenEnd = after('end');
const thenCut = after('cut');
const thenSilence = after('closed');

/** Returns the head of a response that may be stored. */
const head = (...lines: readonly string[]) =>
  ['HTTP/1.1 200 OK', 'Cache-Control: max-age=60', ...lines, '', ''].join('\r\n');
const four = head('Content-Length: 4');
const nine = head('Content-Length: 9');
const chunked = head('Transfer-Encoding: chunked');
const evil = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\nevil';

const framing: readonly Row[] = [
  ['a length', `${four}good`, '200 good', 'stored'],
  ['two lengths that differ', `${head('Content-Length: 4', 'Content-Length: 9')}good`, '502', 'fresh'],
  ['two lengths that agree', `${head('Content-Length: 4', 'Content-Length: 4')}good`, '200 good', 'stored'],
  ['a list of lengths that agree', `${head('Content-Length: 4, 4')}good`, '200 good', 'stored'],
  ['a list of lengths that differ', `${head('Content-Length: 4, 9')}good`, '502', 'fresh'],
  ['a length with a sign', `${head('Content-Length: +4')}good`, '502', 'fresh'],
  ['a negative length', `${head('Content-Length: -4')}good`, '502', 'fresh'],
  ['a hexadecimal length', `${head('Content-Length: 0x4')}good`, '502', 'fresh'],
  ['a length with a space in it', `${head('Content-Length: 4 0')}good`, '502', 'fresh'],
  ['a length past 2^64', `${head('Content-Length: 18446744073709551620')}good`, '502', 'fresh'],
  ['an empty length', `${head('Content-Length:')}good`, '502', 'fresh'],
  [
    'length and chunks',
    `${head('Content-Length: 4', 'Transfer-Encoding: chunked')}4\r\ngood\r\n0\r\n\r\n`,
    '502',
    'fresh',
  ],
  [
    'chunks and length',
    `${head('Transfer-Encoding: chunked', 'Content-Length: 4')}4\r\ngood\r\n0\r\n\r\n`,
    '502',
    'fresh',
  ],
  [
    'length 0 and chunks',
    `${head('Content-Length: 0', 'Transfer-Encoding: chunked')}4\r\nevil\r\n0\r\n\r\n`,
    '502',
    'fresh',
  ],
  ['chunks', `${chunked}4\r\ngood\r\n0\r\n\r\n`, '200 good', 'stored'],
  [
    'a coding that was not requested',
    `${head('Transfer-Encoding: gzip, chunked')}4\r\ngood\r\n0\r\n\r\n`,
    '502',
    'fresh',
  ],
  [
    'chunked twice',
    `${head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')}4\r\ngood\r\n0\r\n\r\n`,
    '502',
    'fresh',
  ],
  ['chunked not last', `${head('Transfer-Encoding: chunked, identity')}4\r\ngood\r\n0\r\n\r\n`, '502', 'fresh'],
  ['xchunked', `${head('Transfer-Encoding: xchunked')}4\r\ngood\r\n0\r\n\r\n`, '502', 'fresh'],
  ['a tab before chunked', `${head('Transfer-Encoding:\tchunked')}4\r\ngood\r\n0\r\n\r\n`, '200 good', 'stored'],
  ['a vertical tab before chunked', `${head('Transfer-Encoding: \x0bchunked')}4\r\ngood\r\n0\r\n\r\n`, '502', 'fresh'],
  ['chunked in quotes', `${head('Transfer-Encoding: "chunked"')}4\r\ngood\r\n0\r\n\r\n`, '502', 'fresh'],
  [
    'a space before the colon of chunked',
    `${head('Transfer-Encoding : chunked')}4\r\ngood\r\n0\r\n\r\n`,
    '200 good',
    'stored',
  ],
  ['a folded chunked', `${head('Transfer-Encoding:\r\n chunked')}4\r\ngood\r\n0\r\n\r\n`, '200 good', 'stored'],
  ['chunks of HTTP/1.0', `${chunked.replace('1.1', '1.0')}4\r\ngood\r\n0\r\n\r\n`, '200 good', 'stored'],
  ['a length of HTTP/1.0', `${four.replace('1.1', '1.0')}good`, '200 good', 'stored'],
];

const chunks: readonly Row[] = [
  ['an invalid chunk size', `${chunked}4\r\ngood\r\nz\r\nevil\r\n0\r\n\r\n`, '200 good cut', 'fresh'],
  ['a negative chunk size', `${chunked}-4\r\nevil\r\n0\r\n\r\n`, '200 cut', 'fresh'],
  ['a chunk size in 0x', `${chunked}0x4\r\nevil\r\n0\r\n\r\n`, '200 cut', 'fresh'],
  ['a chunk size past 2^64', `${chunked}10000000000000004\r\nevil\r\n0\r\n\r\n`, '200 cut', 'fresh'],
  ['a chunk longer than its size', `${chunked}4\r\ngoodevil\r\n0\r\n\r\n`, '200 good cut', 'fresh'],
  ['a chunk shorter than its size', `${chunked}9\r\ngood\r\n0\r\n\r\n`, '200 good\r\n0\r\n cut', 'fresh'],
  ['a chunk extension', `${chunked}4;a=b\r\ngood\r\n0\r\n\r\n`, '200 good', 'stored'],
  ['a huge chunk extension', `${chunked}4;${'a'.repeat(200_000)}\r\ngood\r\n0\r\n\r\n`, '200 good', 'stored'],
  ['a line break in a chunk extension', `${chunked}4;a\nb\r\ngood\r\n0\r\n\r\n`, '200 cut', 'fresh'],
  ['chunk lines that end in LF', `${chunked}4\ngood\n0\n\n`, '200 cut', 'fresh'],
  ['space before a chunk size', `${chunked} 4\r\ngood\r\n0\r\n\r\n`, '200 cut', 'fresh'],
  ['space behind a chunk size', `${chunked}4 \r\ngood\r\n0\r\n\r\n`, '200 good', 'stored'],
  ['no last chunk', thenEnd(`${chunked}4\r\ngood\r\n`), '200 good cut', 'fresh'],
  ['no end of the trailers', thenEnd(`${chunked}4\r\ngood\r\n0\r\n`), '200 good cut', 'fresh'],
  ['reset between chunks', thenCut(`${chunked}4\r\ngood\r\n`), '200 good cut', 'fresh'],
  ['trailers', `${chunked}4\r\ngood\r\n0\r\nX-Sum: 1\r\n\r\n`, '200 good', 'stored'],
  [
    'trailers that belong into the head',
    `${chunked}4\r\ngood\r\n0\r\nSet-Cookie: a=1\r\nCache-Control: no-store\r\n\r\n`,
    '200 good',
    'stored',
  ],
  ['a length among the trailers', `${chunked}4\r\ngood\r\n0\r\nContent-Length: 9\r\n\r\n`, '200 good cut', 'fresh'],
  [
    'trailers without end',
    `${chunked}4\r\ngood\r\n0\r\n${'X: 0123456789\r\n'.repeat(10_000)}`,
    '200 good cut',
    'fresh',
  ],
  ['a response behind the last chunk', `${chunked}4\r\ngood\r\n0\r\n\r\n${evil}`, '200 good', 'stored'],
];

const lines: readonly Row[] = [
  [
    'one line that ends in LF',
    `HTTP/1.1 200 OK\r\nX-A: 1\nSet-Cookie: a=1\r\nContent-Length: 4\r\n\r\ngood`,
    '502',
    'fresh',
  ],
  ['lines that end in CR', 'HTTP/1.1 200 OK\rContent-Length: 4\r\rgood', '502', 'fresh'],
  ['CR in a value', `${head('X-A: 1\rSet-Cookie: a=1', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['CR in Set-Cookie', `${head('Set-Cookie: a=1\rX: y', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['NUL in a value', `${head('X-A: 1\0', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['NUL in a name', `${head('X\0A: 1', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['a control character in a value', `${head('X-A: \x01', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['a space in a name', `${head('X A: 1', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['a bracket in a name', `${head('X(A): 1', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['a space before a colon', `${head('X-A : 1', 'Content-Length: 4')}good`, '200 good', 'stored'],
  ['an empty name', `${head(': 1', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['a line without a colon', `${head('X-A', 'Content-Length: 4')}good`, '502', 'fresh'],
  ['a folded line', `${head('X-A: 1\r\n 2', 'Content-Length: 4')}good`, '200 good', 'stored'],
  ['a folded first line', `HTTP/1.1 200 OK\r\n X-A: 1\r\nContent-Length: 4\r\n\r\ngood`, '502', 'fresh'],
  ['bytes beyond ASCII', `${head('X-A: \xff\xe9', 'Content-Length: 4')}good`, '200 good', 'stored'],
  ['a head without end', `${head().slice(0, -2)}${'X-Padding: 0123456789\r\n'.repeat(10_000)}`, '502', 'fresh'],
  ['a field without end', `${head().slice(0, -2)}X-Padding: ${'0123456789'.repeat(20_000)}`, '502', 'fresh'],
  [
    'very many fields',
    `${head(...Array.from({ length: 3000 }, (_, at) => `X-${at}: 1`), 'Content-Length: 4')}good`,
    '200 good',
    'stored',
  ],
  [
    'Connection that names end-to-end fields',
    `${head('Connection: Cache-Control, Content-Length, X-A', 'X-A: 1', 'Content-Length: 4')}good`,
    '200 good',
    'stored',
  ],
  [
    'invalid dates',
    `${head('Date: yesterday', 'Expires: 0', 'Last-Modified: never', 'Age: -1', 'Content-Length: 4')}good`,
    '200 good',
    'stored',
  ],
  ['an invalid entity tag', `${head('ETag: "a', 'Content-Length: 4')}good`, '200 good', 'stored'],
];

const statuses: readonly Row[] = [
  ['garbage', 'SSH-2.0-OpenSSH_9.6\r\n', '502', 'fresh'],
  ['HTTP/0.9', thenEnd('<html>good</html>'), '502', 'fresh'],
  ['HTTP/2 in plain text', `${four.replace('HTTP/1.1', 'HTTP/2')}good`, '502', 'fresh'],
  ['HTTP/3.0', `${four.replace('HTTP/1.1', 'HTTP/3.0')}good`, '502', 'fresh'],
  ['HTTP/1.9', `${four.replace('HTTP/1.1', 'HTTP/1.9')}good`, '502', 'fresh'],
  ['a lower-case version', `${four.replace('HTTP/1.1', 'http/1.1')}good`, '502', 'fresh'],
  ['two spaces before the status', `${four.replace(' 200', '  200')}good`, '502', 'fresh'],
  ['no reason, and no space', `${four.replace(' OK', '')}good`, '200 good', 'stored'],
  ['a status of two digits', `${four.replace('200', '20')}good`, '502', 'fresh'],
  ['a status of four digits', `${four.replace('200', '2000')}good`, '502', 'fresh'],
  ['status 000', `${four.replace('200', '000')}good`, '502', 'fresh'],
  ['status 999', `${four.replace('200', '999')}good`, '502', 'fresh'],
  ['a request in place of a response', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', '502', 'fresh'],
  ['an empty line before the status line', `\r\n${four}good`, '200 good', 'stored'],
  [
    '101 that was not requested',
    'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nevil',
    '502',
    'fresh',
  ],
  ['101 to HTTP/2', 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n', '502', 'fresh'],
  ['102 without end', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000), '502', 'fresh'],
  ['103 and the response', `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${four}good`, '200 good', 'stored'],
  ['103 with a length', `HTTP/1.1 103 Early Hints\r\nContent-Length: 4\r\n\r\n${four}good`, '200 good', 'stored'],
  ['103 and no more', thenEnd('HTTP/1.1 103 Early Hints\r\n\r\n'), '502', 'fresh'],
];

const bodies: readonly Row[] = [
  ['more than the length', `${four}goodevil`, '200 good', 'stored'],
  ['a second response', `${four}good${evil}`, '200 good', 'stored'],
  ['less than the length', thenEnd(`${nine}good`), '200 good cut', 'fresh'],
  ['less than the length, reset', thenCut(`${nine}good`), '200 good cut', 'fresh'],
  ['less than the length, silent', thenSilence(`${nine}good`), '200 good cut', 'fresh'],
  ['no length, closed in order', thenEnd(`${head()}good`), '200 good', 'stored'],
  ['no length, reset', thenCut(`${head()}good`), '200 good cut', 'fresh'],
  ['closed before the head', thenEnd(''), '502', 'fresh'],
  ['reset before the head', thenCut(''), '502', 'fresh'],
  ['silent before the head', thenSilence(''), '504', 'fresh'],
  ['closed in the head', thenEnd(head().slice(0, -8)), '502', 'fresh'],
  ['silent in the head', thenSilence(head().slice(0, -8)), '504', 'fresh'],
  ['204 with a body', `HTTP/1.1 204 No Content\r\nContent-Length: ${evil.length}\r\n\r\n${evil}`, '204', 'fresh'],
  [
    '204 in chunks',
    `HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n`,
    '204',
    'fresh',
  ],
  [
    '304 with a body to a request without condition',
    `HTTP/1.1 304 Not Modified\r\nContent-Length: ${evil.length}\r\n\r\n${evil}`,
    '502',
    'fresh',
  ],
  ['HEAD with a body', `${head(`Content-Length: ${evil.length}`)}${evil}`, '200', 'fresh', 'HEAD'],
  ['205 with a body', `HTTP/1.1 205 Reset Content\r\nContent-Length: 4\r\n\r\nevil`, '205', 'fresh'],
  [
    '206 to a request without Range',
    `HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nContent-Range: bytes 0-3/9\r\nContent-Length: 4\r\n\r\ngood`,
    '206 good',
    'fresh',
  ],
  [
    '206 whose Content-Range differs from its body',
    `HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nContent-Range: bytes 0-8/9\r\nContent-Length: 4\r\n\r\ngood`,
    '206 good',
    'fresh',
  ],
  [
    '416 to a request without Range',
    `HTTP/1.1 416 Range Not Satisfiable\r\nCache-Control: max-age=60\r\nContent-Range: bytes */9\r\nContent-Length: 4\r\n\r\ngood`,
    '416 good',
    'fresh',
  ],
  [
    'Content-Range of a part on a 200',
    `${head('Content-Range: bytes 0-3/9', 'Content-Length: 4')}good`,
    '200 good',
    'fresh',
  ],
  [
    'Content-Range of a whole on a 200',
    `${head('Content-Range: bytes 0-3/4', 'Content-Length: 4')}good`,
    '200 good',
    'stored',
  ],
  [
    'multipart/byteranges to a request without Range',
    `HTTP/1.1 206 Partial Content\r\nCache-Control: max-age=60\r\nContent-Type: multipart/byteranges; boundary=a\r\nContent-Length: 4\r\n\r\ngood`,
    '206 good',
    'fresh',
  ],
];

const order: readonly Row[] = [
  [
    'a response without a request, over an idle connection',
    async ({ send, closed }) => {
      await send(`${four}good`);
      setImmediate(() => void send(evil));
      // Such a connection is closed. Bytes that arrive just as the next request is sent could not be told from its response.
      await closed;
      isClosed.resolve();
    },
    '200 good',
    'stored',
  ],
];
const isClosed = Promise.withResolvers<void>();

/** A status line that ends with LF alone; in the rows whose heads have one. */
const bareLines: readonly Row[] = [
  ['all lines', 'HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 4\n\ngood', '200 good', 'stored'],
  ['some lines', `${four.replace('\r\n', '\n')}good`, '502', 'fresh'],
  ['the empty line alone', `${four.slice(0, -2)}\ngood`, '502', 'fresh'],
  ['chunk lines', `${chunked.replaceAll('\r\n', '\n')}4\ngood\n0\n\n`, '200 cut', 'fresh'],
  [
    'a line break in a chunk extension',
    `${chunked.replaceAll('\r\n', '\n')}4;a\nb\r\ngood\r\n0\r\n\r\n`,
    '200 b\r\ng cut',
    'fresh',
  ],
  ['a folded line', `${head('X-A: 1\n 2', 'Content-Length: 4')}good`, '502', 'fresh'],
  [
    'length and chunks',
    `${head('Content-Length: 4\nTransfer-Encoding: chunked')}4\r\ngood\r\n0\r\n\r\n`,
    '502',
    'fresh',
  ],
];

describe.each([
  ['framing', framing],
  ['chunks', chunks],
  ['lines', lines],
  ['statuses', statuses],
  ['bodies', bodies],
  ['order', order],
  ['LF at the end of', bareLines],
])('%s', (group, rows) => {
  it.each<Row>([...rows])('%s', async (name, play, first, then, method = 'GET') => {
    const target = `/${encodeURIComponent(`${group} ${name}`)}`;
    plays.set(target, play);
    const asked = ask(target, method);
    const got = await (/silent|shorter/.test(name) ? asUndiciWaits(asked) : asked);
    if (group === 'order') await isClosed.promise;
    // This request would use the same connection to the origin, if that were still trusted.
    const other = await ask(`${target}/next`);
    const again = await ask(target);
    const source = new Map([
      [got, 'stored'],
      [`200 fresh ${target}`, 'fresh'],
    ]).get(again);
    expect([got, source ?? again]).toEqual([first, then]);
    expect(other).toBe(`200 fresh ${target}/next`);
  });
});

/** Sends a request over a connection of its own, and reads it to the end. Only one well-formed response may arrive. */
async function ask(target: string, method = 'GET'): Promise<string> {
  await using client = await RawClient.open(port);
  client.send(`${method} ${target} HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n`);
  let response = await client.response(method);
  while (response !== undefined && response.status < 200) response = await client.response(method);
  if (response === undefined) return 'nothing';
  expect(await client.rest()).toBe('');
  expect(response.lines.filter(([name, value]) => hasControls(name + value))).toEqual([]);
  expect(rawValues(response, 'content-length').length + rawValues(response, 'transfer-encoding').length).toBeLessThan(
    2,
  );
  expect(rawValues(response, 'set-cookie')).toEqual([]);
  const isOurs = rawValues(response, 'content-type')[0] === 'application/problem+json';
  const parts = [response.status, isOurs ? '' : response.body.toString('latin1'), response.isWhole ? '' : 'cut'];
  return parts.filter((part) => part !== '').join(' ');
}

function hasControls(text: string): boolean {
  return [...text].some((character) => character < ' ' && character !== '\t');
}
