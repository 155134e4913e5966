/** Faults of origins on HTTP/2 streams and connections, frame by frame, and what is read of the response: one row per fault. */

import { describe, expect, it } from 'vitest';
import { createHttp2Origin } from '../../src/origin/http2/http2-origin.ts';
import type { OriginResponse } from '../../src/origin/origin.ts';
import { uint32 } from '../support/clients/h2-raw-client.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import {
  endHeaders,
  endStream,
  type FramePlay,
  frame,
  lines,
  openFrameOrigin,
} from '../support/origins/http2-frames.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { testAuthority } from '../support/values/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

/** `want`: interim statuses, head and body, or the codes that end them. `nextConnection`: that of the next request; 0 for none. */
type Row = [name: string, play: FramePlay, want: string, nextConnection: number, method?: string];
type Lines = readonly (readonly [string, string])[];
type Send = (stream: number) => Buffer;

const bytes = (text: string) => Buffer.from(text, 'latin1');
const head =
  (status: number, fields: Lines = [], flags = 0): Send =>
  (stream) =>
    frame('headers', endHeaders | flags, stream, lines([':status', String(status)], ...fields));
const trailers =
  (...fields: Lines): Send =>
  (stream) =>
    frame('headers', endHeaders | endStream, stream, lines(...fields));
const data =
  (text: string, flags = 0): Send =>
  (stream) =>
    frame('data', flags, stream, bytes(text));
const reset =
  (code: number): Send =>
  (stream) =>
    frame('reset', 0, stream, uint32(code));
const goaway =
  (lastStream: number, code: number): Send =>
  () =>
    frame('goaway', 0, 0, uint32(lastStream, code));
/** Sends these frames at once. */
const play =
  (...sends: readonly Send[]): FramePlay =>
  ({ send, stream }) =>
    send(...sends.map((each) => each(stream)));
/** Sends these frames, and plays `then` once they have left. */
const playThen =
  (sends: readonly Send[], then: FramePlay): FramePlay =>
  (exchange) =>
    exchange.socket.write(Buffer.concat(sends.map((each) => each(exchange.stream))), () => then(exchange));

const noError = 0;
const protocolError = 1;
const internalError = 2;
const refusedStream = 7;
const cancel = 8;
const enhanceYourCalm = 11;
const http11Required = 13;
const length = (count: number): Lines => [['content-length', String(count)]];
const good = play(head(200, length(4)), data('next', endStream));

const rows: readonly Row[] = [
  ['a length, whole', play(head(200, length(4)), data('good', endStream)), '200 length 4: good', 1],
  ['no length, whole', play(head(200), data('good', endStream)), '200 chunked: good', 1],
  ['no length, an empty last frame', play(head(200), data('good'), data('', endStream)), '200 chunked: good', 1],
  ['END_STREAM with the head', play(head(200, [], endStream)), '200 chunked:', 1],
  ['HEAD with a length', play(head(200, length(9), endStream)), '200 none:', 1, 'HEAD'],
  ['204', play(head(204, [], endStream)), '204 none:', 1],
  ['304 with a length', play(head(304, length(9), endStream)), '304 none:', 1],
  [
    'trailers, and some that are not allowed',
    play(head(200), data('good'), trailers(['x-sum', '1'], ['set-cookie', 'a=1'], ['x-sum', '2'])),
    '200 chunked: good + x-sum=1 + x-sum=2',
    1,
  ],
  ['NO_ERROR behind the end', play(head(200), data('good', endStream), reset(noError)), '200 chunked: good', 1],
  [
    'CANCEL behind the end',
    play(head(200, length(4)), data('good', endStream), reset(cancel)),
    '200 length 4: good',
    1,
  ],

  ['NO_ERROR in the body', play(head(200), data('good'), reset(noError)), '200 chunked: good origin_body_short', 1],
  ['CANCEL in the body', play(head(200), data('good'), reset(cancel)), '200 chunked: good origin_reset', 1],
  [
    'INTERNAL_ERROR in the body',
    play(head(200), data('good'), reset(internalError)),
    '200 chunked: good origin_reset',
    1,
  ],
  [
    'NO_ERROR before all that was promised',
    play(head(200, length(9)), data('good'), reset(noError)),
    '200 length 9: good origin_body_short',
    1,
  ],
  [
    'NO_ERROR behind all bytes, no END_STREAM',
    play(head(200, length(4)), data('good'), reset(noError)),
    '200 length 4: good origin_body_short',
    1,
  ],
  [
    'fewer bytes than promised',
    play(head(200, length(9)), data('good', endStream)),
    '200 length 9: good origin_ill_framed',
    1,
  ],
  ['none of the bytes that were promised', play(head(200, length(9), endStream)), 'origin_ill_framed', 1],
  [
    'more bytes than promised',
    play(head(200, length(3)), data('good', endStream)),
    '200 length 3: origin_ill_framed',
    2,
  ],
  ['bytes with a 204', play(head(204), data('good', endStream)), '204 none: origin_ill_framed', 2],
  ['bytes with a 304', play(head(304), data('good', endStream)), '304 none: origin_ill_framed', 2],
  ['bytes for HEAD', play(head(200), data('good', endStream)), '200 none: origin_ill_framed', 2, 'HEAD'],
  [
    'the connection ends in the body',
    playThen([head(200), data('good')], ({ socket }) => socket.end()),
    '200 chunked: good origin_reset',
    2,
  ],
  [
    'the connection dies in the body',
    playThen([head(200, length(9)), data('good')], ({ socket }) => socket.destroy()),
    '200 length 9: good origin_reset',
    2,
  ],
  ['silent in the body', play(head(200), data('good')), '200 chunked: good origin_timeout', 2],

  ['NO_ERROR before the head', play(reset(noError)), 'origin_reset', 1],
  ['CANCEL before the head', play(reset(cancel)), 'origin_reset', 1],
  ['REFUSED_STREAM', play(reset(refusedStream)), 'origin_reset unsent', 1],
  ['REFUSED_STREAM behind the head', play(head(200), reset(refusedStream)), '200 chunked: origin_reset', 1],
  ['ENHANCE_YOUR_CALM', play(reset(enhanceYourCalm)), 'origin_reset', 1],
  ['PROTOCOL_ERROR', play(reset(protocolError)), 'origin_ill_framed', 1],
  ['INTERNAL_ERROR before the head', play(reset(internalError)), 'origin_reset', 1],
  ['HTTP_1_1_REQUIRED', play(reset(http11Required)), 'origin_reset unsent', 0],
  ['the connection ends before the head', ({ socket }) => socket.end(), 'origin_reset', 2],
  ['the connection dies before the head', ({ socket }) => socket.destroy(), 'origin_reset', 2],
  ['silent before the head', () => undefined, 'origin_timeout', 2],
  ['GOAWAY that leaves the stream out', play(goaway(0, noError)), 'origin_reset unsent', 2],
  ['GOAWAY with an error that leaves the stream out', play(goaway(0, enhanceYourCalm)), 'origin_reset unsent', 2],
  [
    'GOAWAY that lets the stream end',
    play(goaway(1, noError), head(200), data('good', endStream)),
    '200 chunked: good',
    2,
  ],
  [
    'GOAWAY for later streams, then the whole',
    play(goaway(2 ** 31 - 1, noError), head(200), data('good', endStream)),
    '200 chunked: good',
    2,
  ],
  ['GOAWAY with an error', play(goaway(1, internalError)), 'origin_reset', 2],
  [
    'GOAWAY with an error in the body',
    play(head(200), data('good'), goaway(1, internalError)),
    '200 chunked: good origin_reset',
    2,
  ],

  [
    '103 before the response',
    play(head(103, [['link', '</a>']]), head(200), data('good', endStream)),
    '103 200 chunked: good',
    1,
  ],
  ['100 that was not requested', play(head(100), head(200), data('good', endStream)), '200 chunked: good', 1],
  [
    '102 without end',
    play(...Array.from({ length: 100 }, () => head(102))),
    `${'102 '.repeat(32)}origin_ill_framed`,
    1,
  ],
  ['an interim head with END_STREAM', play(head(103, [], endStream)), 'origin_ill_framed', 1],
  ['101', play(head(101)), 'origin_ill_framed', 1],
  ['two final heads', play(head(200), head(200), data('good', endStream)), '200 chunked: origin_ill_framed', 1],
  [
    'a head behind the body',
    play(head(200), data('good'), head(200, [], endStream)),
    '200 chunked: good origin_ill_framed',
    1,
  ],
  [
    'an interim head behind the final one',
    play(head(200), head(103), data('good', endStream)),
    '200 chunked: origin_ill_framed',
    1,
  ],
  ['a body without a head', play(data('good', endStream)), 'origin_ill_framed', 2],
  ['no status', play((stream) => frame('headers', endHeaders, stream, lines(['x-a', '1']))), 'origin_ill_framed', 1],
  [
    'an invalid status',
    play((stream) => frame('headers', endHeaders, stream, lines([':status', 'ok']))),
    'origin_ill_framed',
    1,
  ],
  [
    'status 099',
    play((stream) => frame('headers', endHeaders | endStream, stream, lines([':status', '099']))),
    'origin_ill_framed',
    1,
  ],
  ['status 600', play(head(600, [], endStream)), 'origin_ill_framed', 1],
  ['two lengths', play(head(200, [...length(4), ...length(4)]), data('good', endStream)), 'origin_ill_framed', 1],
  [
    'a length that is not a number',
    play(head(200, [['content-length', '4x']]), data('good', endStream)),
    'origin_ill_framed',
    1,
  ],
  [
    'Transfer-Encoding',
    play(head(200, [['transfer-encoding', 'chunked']]), data('good', endStream)),
    'origin_ill_framed',
    1,
  ],
  ['Connection', play(head(200, [['connection', 'close']]), data('good', endStream)), 'origin_ill_framed', 1],
  ['an upper-case name', play(head(200, [['X-A', '1']]), data('good', endStream)), 'origin_ill_framed', 1],
  [
    'a line break in a value',
    play(head(200, [['x-a', '1\r\nset-cookie: a=1']]), data('good', endStream)),
    '200 chunked: good',
    1,
  ],
  ['NUL in a value', play(head(200, [['x-a', '1\0']]), data('good', endStream)), '200 chunked: good', 1],
  ['a line break in a name', play(head(200, [['x-a\r\nb', '1']]), data('good', endStream)), '200 chunked: good', 1],
  ['a space in a name', play(head(200, [['x a', '1']]), data('good', endStream)), '200 chunked: good', 1],
  ['a request pseudo-field', play(head(200, [[':path', '/']]), data('good', endStream)), 'origin_ill_framed', 1],
  [
    'a pseudo-field among trailers',
    play(head(200), data('good'), trailers([':status', '200'])),
    '200 chunked: good origin_ill_framed',
    1,
  ],
  [
    'very many lines',
    play(
      head(
        200,
        Array.from({ length: 2500 }, (_, at): [string, string] => [`x${at}`, '']),
      ),
    ),
    'origin_ill_framed',
    2,
  ],
  [
    'a head of very many bytes',
    play(
      (s) => frame('headers', 0, s, lines([':status', '200'])),
      ...Array.from(
        { length: 20 },
        (_, at): Send =>
          (s) =>
            frame('continuation', at === 19 ? endHeaders : 0, s, lines([`x${at}`, 'a'.repeat(10_000)])),
      ),
    ),
    'origin_ill_framed',
    2,
  ],
  [
    'CONTINUATION without end',
    play(
      (s) => frame('headers', 0, s, lines([':status', '200'])),
      ...Array.from({ length: 200 }, (): Send => (s) => frame('continuation', 0, s, Buffer.alloc(0))),
    ),
    'origin_ill_framed',
    2,
  ],
  [
    'a frame that is too large',
    play(head(200), (s) => frame('data', 0, s, Buffer.alloc(20_000))),
    '200 chunked: origin_ill_framed',
    2,
  ],
  [
    'an invalid field section',
    play((s) => frame('headers', endHeaders, s, Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff))),
    'origin_ill_framed',
    2,
  ],
  [
    'bytes of HTTP/1.1',
    ({ socket }) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood'),
    'origin_ill_framed',
    2,
  ],
  ['a stream that was not opened', play((s) => head(200)(s + 10)), 'origin_ill_framed', 2],
];

describe('a response over HTTP/2', () => {
  it.each<Row>(rows)('%s', async (_name, first, want, nextConnection, method = 'GET') => {
    await using server = await openFrameOrigin({}, first, good);
    const origin = createHttp2Origin({
      ...originOptions({ url: server.url, tls: { ca: testAuthority, rejectUnauthorized: true } }),
      ...(want.endsWith('origin_timeout') ? { headersTimeoutMs: 1_000, bodyTimeoutMs: 1_000 } : {}),
      clock: realClock,
    });
    const interims: number[] = [];
    const onInterim = ({ status }: { status: number }) => interims.push(status);
    const got = await outcomeOf(origin.fetch(originRequest({ method, onInterim })));
    const next = nextConnection === 0 ? '' : await outcomeOf(origin.fetch(originRequest()));
    const isNext = next === (nextConnection === 0 ? '' : '200 length 4: next');
    expect([
      [...interims, got].join(' '),
      isNext,
      nextConnection === 0 ? 0 : server.exchanges.at(-1)?.connection,
    ]).toEqual([want, true, nextConnection]);
    await origin.close();
  });
});

async function outcomeOf(fetching: Promise<OriginResponse>): Promise<string> {
  try {
    const response = await fetching;
    const { bytes: body, error } = await readBody(response);
    const heading = [response.status, response.framing, response.sizeBytes].filter((part) => part !== undefined);
    const odd = response.fields
      .filter(([name]) => name !== 'content-length')
      .map(([name, value]) => `${name}=${value}`);
    const behind = (response.body.trailers?.() ?? []).map(([name, value]) => `+ ${name}=${value}`);
    return [`${heading.join(' ')}:`, ...odd, body.toString(), error, ...behind]
      .filter((part) => part !== '' && part !== undefined)
      .join(' ');
  } catch (thrown) {
    const isUnsent = (thrown as { isUnsent?: boolean }).isUnsent === true;
    return `${codeOf(thrown)}${isUnsent ? ' unsent' : ''}`;
  }
}
