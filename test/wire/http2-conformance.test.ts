/**
 * The cases of h2spec, the conformance suite for HTTP/2 (generic, http2, hpack), in its sections of RFC 7540 and RFC 7541, in
 * cleartext and over TLS. Left out are the two cases of §5.3.1, which RFC 9113 §5.3.2 has removed with priorities.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Field } from '../../src/http/fields.ts';
import { encodeFields, encodeIndexed, encodeInteger } from '../support/clients/h2-hpack.ts';
import {
  errorCode as code,
  flag,
  frameType as frame,
  H2RawClient,
  preface,
  setting,
  settingsPayload,
  uint32,
} from '../support/clients/h2-raw-client.ts';
import { openListener, type TestListener, textResponse } from '../support/proxies/open-listener.ts';

/** What the client sees: the end of the connection or of stream 1 with one of these codes, a response, an answered PING, a size. */
type Outcome =
  | { readonly connection: readonly number[] }
  | { readonly stream: readonly number[] }
  | { readonly dataBytes: number }
  | 'a response'
  | 'a response to each'
  | 'an answered PING'
  | 'a close';

type Row = readonly [name: string, send: (c: H2RawClient) => unknown, sees: Outcome];

const { endHeaders, endStream, padded, priority, ack } = flag;
const largest = 2 ** 31 - 1;
const connection = (...connectionCodes: readonly number[]): Outcome => ({ connection: connectionCodes });
const stream = (...streamCodes: readonly number[]): Outcome => ({ stream: streamCodes });
const { protocol, frameSize, flowControl, streamClosed, compression } = code;

/** The sections, with the scheme of the connection. */
function sections(scheme: 'http' | 'https'): readonly (readonly [string, readonly Row[]])[] {
  const common: readonly Field[] = [
    [':method', 'GET'],
    [':scheme', scheme],
    [':path', '/'],
    [':authority', 'a'],
  ];
  const posting = common.map((field): Field => (field[0] === ':method' ? [':method', 'POST'] : field));
  const block = encodeFields(common);
  const dummy = encodeFields([['x-dummy', 'dummy']]);
  const head = (c: H2RawClient, flags: number, payload: Uint8Array = block, id = 1): void =>
    c.frame(frame.headers, flags, id, payload);
  const whole = endHeaders | endStream;
  const get = (c: H2RawClient, more: readonly Field[] = [], id = 1): void => c.request(id, [...common, ...more]);
  const begin = (c: H2RawClient, more: readonly Field[] = []): void =>
    c.request(1, [...posting, ...more], { endStream: false });
  const without = (name: string): readonly Field[] => common.filter((field) => field[0] !== name);
  const settings = (c: H2RawClient, ...values: readonly (readonly [number, number])[]): Promise<boolean> => {
    c.frame(frame.settings, 0, 0, settingsPayload(...values));
    return c.roundTrip();
  };
  const answered = async (c: H2RawClient): Promise<void> => {
    get(c);
    await c.whenOver(1);
  };
  const prioritised = (c: H2RawClient, id: number, on: number, exclusive = 0): void =>
    c.frame(frame.priority, 0, id, Buffer.concat([uint32(on + exclusive * 2 ** 31), Buffer.from([255])]));
  const withField = (bytes: Uint8Array) => (c: H2RawClient) => head(c, whole, Buffer.concat([block, bytes]));
  const literal = (first: number, text: string): Buffer =>
    Buffer.concat([Buffer.from([first]), Buffer.from(text, 'latin1')]);
  const plainNew = '\x06x-test\x06h2spec';
  const codedNew = '\x85\xf2\xb2\x4a\x84\xff\x84\x9c\x48\xac\xa4';
  const plainAgent = '\x0auser-agent\x06h2spec';
  const codedAgent = '\x87\xb5\x05\xb1\x61\xcc\x5a\x93\x84\x9c\x48\xac\xa4';

  return [
    ['generic 1', [['the preface', () => {}, 'an answered PING']]],
    [
      'generic 2',
      [
        ['PRIORITY on an idle stream', (c) => prioritised(c, 1, 0), 'an answered PING'],
        [
          'WINDOW_UPDATE on a half-closed stream',
          async (c) => {
            await settings(c, [setting.windowSize, 0]);
            get(c);
            c.windowUpdate(1, 1);
          },
          { dataBytes: 1 },
        ],
        [
          'PRIORITY on a half-closed stream',
          async (c) => {
            await settings(c, [setting.windowSize, 0]);
            get(c);
            prioritised(c, 1, 0);
            c.windowUpdate(1, 1);
          },
          { dataBytes: 1 },
        ],
        [
          'RST_STREAM on a half-closed stream',
          (c) => {
            get(c);
            c.reset(1);
          },
          'an answered PING',
        ],
        [
          'PRIORITY on a closed stream',
          async (c) => {
            await answered(c);
            prioritised(c, 1, 0);
          },
          'an answered PING',
        ],
      ],
    ],
    [
      'generic 3.1 to 3.10',
      [
        [
          'DATA',
          (c) => {
            begin(c);
            c.data(1, 'test', { endStream: true });
          },
          'a response',
        ],
        [
          'several frames of DATA',
          (c) => {
            begin(c);
            c.data(1, 'test');
            c.data(1, 'test', { endStream: true });
          },
          'a response',
        ],
        [
          'DATA with padding',
          (c) => {
            begin(c);
            c.frame(frame.data, padded | endStream, 1, Buffer.from('\x06test\0\0\0\0\0\0', 'latin1'));
          },
          'a response',
        ],
        ['HEADERS', (c) => get(c), 'a response'],
        [
          'HEADERS with padding',
          (c) => head(c, whole | padded, Buffer.concat([Buffer.from([6]), block, Buffer.alloc(6)])),
          'a response',
        ],
        [
          'HEADERS with a priority',
          (c) => head(c, whole | priority, Buffer.concat([uint32(0), Buffer.from([255]), block])),
          'a response',
        ],
        ['PRIORITY with priority 1', (c) => prioritised(c, 1, 0), 'an answered PING'],
        ['PRIORITY with the exclusive flag', (c) => prioritised(c, 1, 0, 1), 'an answered PING'],
        [
          'PRIORITY for an idle stream, then HEADERS for a lower one',
          (c) => {
            prioritised(c, 3, 0);
            get(c);
          },
          'a response',
        ],
        [
          'RST_STREAM',
          (c) => {
            begin(c);
            c.reset(1);
          },
          'an answered PING',
        ],
        ['SETTINGS', (c) => settings(c, [setting.windowSize, 100]), 'an answered PING'],
        ['PING', () => {}, 'an answered PING'],
        ['GOAWAY', (c) => c.frame(frame.goaway, 0, 0, uint32(0, 0)), 'a close'],
        [
          'WINDOW_UPDATE for the connection',
          (c) => {
            c.windowUpdate(0, 1);
            get(c);
          },
          'a response',
        ],
        [
          'WINDOW_UPDATE for a stream',
          (c) => {
            begin(c);
            c.windowUpdate(1, 1);
            c.data(1, '', { endStream: true });
          },
          'a response',
        ],
        [
          'CONTINUATION',
          (c) => {
            head(c, endStream);
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          'a response',
        ],
        [
          'several frames of CONTINUATION',
          (c) => {
            head(c, endStream);
            c.frame(frame.continuation, 0, 1, dummy);
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          'a response',
        ],
      ],
    ],
    [
      'generic 4',
      [
        ['GET', (c) => get(c), 'a response'],
        [
          'HEAD',
          (c) =>
            c.request(
              1,
              common.map(([name, value]) => [name, name === ':method' ? 'HEAD' : value]),
            ),
          'a response',
        ],
        [
          'POST',
          (c) => {
            begin(c);
            c.data(1, 'test', { endStream: true });
          },
          'a response',
        ],
        [
          'POST with trailers',
          (c) => {
            begin(c, [['trailer', 'x-test']]);
            c.data(1, 'test');
            c.request(1, [['x-test', 'ok']]);
          },
          'a response',
        ],
      ],
    ],
    [
      'generic 5 (RFC 7541 §6)',
      [
        ['an indexed field', withField(Buffer.from([0xba])), 'a response'],
        ['with indexing, an indexed name', withField(literal(0x7a, '\x06h2spec')), 'a response'],
        ['with indexing, a name in Huffman code', withField(literal(0x40, codedAgent)), 'a response'],
        ['with indexing, a plain name', withField(literal(0x40, plainAgent)), 'a response'],
        ['with indexing, a new name', withField(literal(0x40, plainNew)), 'a response'],
        ['with indexing, a new name in Huffman code', withField(literal(0x40, codedNew)), 'a response'],
        ['without indexing, a plain name', withField(literal(0, plainAgent)), 'a response'],
        ['without indexing, a name in Huffman code', withField(literal(0, codedAgent)), 'a response'],
        ['without indexing, a new name', withField(literal(0, plainNew)), 'a response'],
        ['without indexing, a new name in Huffman code', withField(literal(0, codedNew)), 'a response'],
        ['never indexed, a plain name', withField(literal(0x10, plainAgent)), 'a response'],
        ['never indexed, a name in Huffman code', withField(literal(0x10, codedAgent)), 'a response'],
        ['never indexed, a new name', withField(literal(0x10, plainNew)), 'a response'],
        ['never indexed, a new name in Huffman code', withField(literal(0x10, codedNew)), 'a response'],
        [
          'an update of the table size',
          (c) => head(c, whole, Buffer.concat([Buffer.from([0x20]), block])),
          'a response',
        ],
        [
          'two updates of the table size',
          (c) => head(c, whole, Buffer.concat([Buffer.from([0x20]), encodeInteger(4096, 5, 0x20), block])),
          'a response',
        ],
      ],
    ],
    [
      '4.1',
      [
        ['an unknown type', (c) => c.frame(0x16, 0, 0, Buffer.alloc(8)), 'an answered PING'],
        ['an undefined flag', (c) => c.frame(frame.ping, 0x16, 0, Buffer.alloc(8)), 'an answered PING'],
        ['the reserved bit', (c) => c.frame(frame.ping, 0x16, 2 ** 31, Buffer.alloc(8)), 'an answered PING'],
      ],
    ],
    [
      '4.2',
      [
        [
          'DATA of 2^14 bytes',
          (c) => {
            begin(c);
            c.data(1, 'x'.repeat(2 ** 14), { endStream: true });
          },
          'a response',
        ],
        [
          'DATA beyond the maximum',
          (c) => {
            begin(c);
            c.data(1, 'x'.repeat(2 ** 14 + 1), { endStream: true });
          },
          stream(frameSize),
        ],
        [
          'HEADERS beyond the maximum',
          (c) => head(c, whole, Buffer.concat([block, encodeFields([['x', 'x'.repeat(2 ** 14)]])])),
          connection(frameSize),
        ],
      ],
    ],
    [
      '4.3',
      [
        ['an invalid fragment', (c) => head(c, whole, Buffer.from([0x40, 0xff])), connection(compression)],
        [
          'PRIORITY within a field section',
          (c) => {
            head(c, endStream);
            prioritised(c, 1, 0);
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          connection(protocol),
        ],
        [
          'HEADERS of another stream within a field section',
          (c) => {
            head(c, endStream);
            head(c, whole, block, 3);
          },
          connection(protocol),
        ],
      ],
    ],
    [
      '5.1',
      [
        ['idle: DATA', (c) => c.data(1, 'test', { endStream: true }), connection(protocol)],
        ['idle: RST_STREAM', (c) => c.reset(1), connection(protocol)],
        ['idle: WINDOW_UPDATE', (c) => c.windowUpdate(1, 100), connection(protocol)],
        ['idle: CONTINUATION', (c) => c.frame(frame.continuation, endHeaders, 1, block), connection(protocol)],
        [
          'half closed: DATA',
          (c) => {
            get(c);
            c.data(1, 'test', { endStream: true });
          },
          stream(streamClosed),
        ],
        [
          'half closed: HEADERS',
          (c) => {
            get(c);
            get(c);
          },
          stream(streamClosed),
        ],
        [
          'half closed: CONTINUATION',
          (c) => {
            get(c);
            c.frame(frame.continuation, endHeaders, 1, block);
          },
          stream(streamClosed, protocol),
        ],
        [
          'closed by RST_STREAM: DATA',
          (c) => {
            begin(c);
            c.reset(1);
            c.data(1, 'test', { endStream: true });
          },
          stream(streamClosed),
        ],
        [
          'closed by RST_STREAM: HEADERS',
          (c) => {
            begin(c);
            c.reset(1);
            get(c);
          },
          stream(streamClosed),
        ],
        [
          'closed by RST_STREAM: CONTINUATION',
          (c) => {
            begin(c);
            c.reset(1);
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          stream(streamClosed, protocol),
        ],
        [
          'closed: DATA',
          async (c) => {
            await answered(c);
            c.data(1, 'test', { endStream: true });
          },
          connection(streamClosed),
        ],
        [
          'closed: HEADERS',
          async (c) => {
            await answered(c);
            get(c);
          },
          connection(streamClosed),
        ],
        [
          'closed: CONTINUATION',
          async (c) => {
            await answered(c);
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          connection(streamClosed, protocol),
        ],
      ],
    ],
    [
      '5.1.1 and 5.1.2',
      [
        ['an even identifier', (c) => get(c, [], 2), connection(protocol)],
        [
          'a lower identifier',
          (c) => {
            get(c, [], 5);
            get(c, [], 3);
          },
          connection(protocol),
        ],
        [
          'more streams than are allowed',
          (c) => {
            for (let id = 1; id <= 201; id += 2) c.request(id, posting, { endStream: false });
          },
          { stream: [protocol, code.refused] },
        ],
      ],
    ],
    [
      '5.4.1',
      [
        ['a PING that is too long', (c) => c.frame(frame.ping, 0, 0, Buffer.alloc(6)), connection(frameSize)],
        ['a connection error closes', (c) => c.frame(frame.data, 0, 0, Buffer.from('x')), 'a close'],
      ],
    ],
    [
      '5.5',
      [
        ['an extension', (c) => c.frame(0x16, 0, 0, Buffer.alloc(8)), 'an answered PING'],
        [
          'an extension within a field section',
          (c) => {
            head(c, endStream);
            c.frame(0x16, 0, 0, Buffer.alloc(8));
          },
          connection(protocol),
        ],
      ],
    ],
    [
      '6.1',
      [
        ['DATA on stream 0', (c) => c.data(0, 'test'), connection(protocol)],
        [
          'DATA on a stream that is not open',
          (c) => {
            get(c);
            c.data(1, 'test', { endStream: true });
          },
          stream(streamClosed),
        ],
        [
          'DATA with invalid padding',
          (c) => {
            begin(c);
            c.frame(frame.data, padded | endStream, 1, Buffer.from('\x06test', 'latin1'));
          },
          connection(protocol),
        ],
      ],
    ],
    [
      '6.2',
      [
        [
          'HEADERS without END_HEADERS, then PRIORITY',
          (c) => {
            head(c, endStream);
            prioritised(c, 1, 0);
          },
          connection(protocol),
        ],
        [
          'HEADERS of another stream before END_HEADERS',
          (c) => {
            head(c, endStream);
            head(c, whole, block, 3);
          },
          connection(protocol),
        ],
        ['HEADERS on stream 0', (c) => head(c, whole, block, 0), connection(protocol)],
        [
          'HEADERS with invalid padding',
          (c) => head(c, whole | padded, Buffer.concat([Buffer.from([block.length + 1]), block])),
          connection(protocol),
        ],
      ],
    ],
    [
      '6.3 and 6.4',
      [
        ['PRIORITY on stream 0', (c) => prioritised(c, 0, 0), connection(protocol)],
        ['PRIORITY of 4 bytes', (c) => c.frame(frame.priority, 0, 1, Buffer.alloc(4)), stream(frameSize)],
        ['RST_STREAM on stream 0', (c) => c.reset(0), connection(protocol)],
        ['RST_STREAM on an idle stream', (c) => c.reset(1), connection(protocol)],
        [
          'RST_STREAM of 3 bytes',
          (c) => {
            begin(c);
            c.frame(frame.reset, 0, 1, Buffer.alloc(3));
          },
          connection(frameSize),
        ],
      ],
    ],
    [
      '6.5 and 6.5.2',
      [
        [
          'an acknowledgement with payload',
          (c) => c.frame(frame.settings, ack, 0, Buffer.alloc(1)),
          connection(frameSize),
        ],
        ['SETTINGS on a stream', (c) => c.frame(frame.settings, 0, 1, settingsPayload([3, 100])), connection(protocol)],
        ['SETTINGS of 3 bytes', (c) => c.frame(frame.settings, 0, 0, Buffer.alloc(3)), connection(frameSize)],
        ['ENABLE_PUSH of 2', (c) => settings(c, [setting.enablePush, 2]), connection(protocol)],
        ['INITIAL_WINDOW_SIZE of 2^31', (c) => settings(c, [setting.windowSize, 2 ** 31]), connection(flowControl)],
        ['MAX_FRAME_SIZE of 2^14 - 1', (c) => settings(c, [setting.frameSize, 2 ** 14 - 1]), connection(protocol)],
        ['MAX_FRAME_SIZE of 2^24', (c) => settings(c, [setting.frameSize, 2 ** 24]), connection(protocol)],
        ['an unknown setting', (c) => settings(c, [0xff, 0]), 'an answered PING'],
      ],
    ],
    [
      '6.5.3',
      [
        [
          'two values of INITIAL_WINDOW_SIZE',
          async (c) => {
            await settings(c, [setting.windowSize, 100], [setting.windowSize, 1]);
            get(c);
          },
          { dataBytes: 1 },
        ],
        [
          'SETTINGS is acknowledged',
          (c) => {
            const before = c.frames.length;
            c.frame(frame.settings, 0, 0, settingsPayload([setting.enablePush, 0]));
            return c.until(() =>
              c.frames.slice(before).some(({ type, flags }) => type === frame.settings && flags === ack),
            );
          },
          'an answered PING',
        ],
      ],
    ],
    [
      '6.7 and 6.8',
      [
        ['PING', () => {}, 'an answered PING'],
        ['PING with ACK', (c) => c.frame(frame.ping, ack, 0, Buffer.from('invalid!')), 'an answered PING'],
        ['PING on a stream', (c) => c.frame(frame.ping, 0, 1, Buffer.alloc(8)), connection(protocol)],
        ['PING of 6 bytes', (c) => c.frame(frame.ping, 0, 0, Buffer.alloc(6)), connection(frameSize)],
        ['GOAWAY on a stream', (c) => c.frame(frame.goaway, 0, 1, uint32(0, 0)), connection(protocol)],
      ],
    ],
    [
      '6.9 and 6.9.1',
      [
        ['an increment of 0', (c) => c.windowUpdate(0, 0), connection(protocol)],
        [
          'an increment of 0 on a stream',
          (c) => {
            begin(c);
            c.windowUpdate(1, 0);
          },
          stream(protocol),
        ],
        ['WINDOW_UPDATE of 3 bytes', (c) => c.frame(frame.windowUpdate, 0, 0, Buffer.alloc(3)), connection(frameSize)],
        [
          'an initial window of 1',
          async (c) => {
            await settings(c, [setting.windowSize, 1]);
            get(c);
          },
          { dataBytes: 1 },
        ],
        [
          'a window of the connection above 2^31 - 1',
          (c) => {
            c.windowUpdate(0, largest);
            c.windowUpdate(0, largest);
          },
          connection(flowControl),
        ],
        [
          'a window of a stream above 2^31 - 1',
          (c) => {
            begin(c);
            c.windowUpdate(1, largest);
            c.windowUpdate(1, largest);
          },
          stream(flowControl),
        ],
      ],
    ],
    [
      '6.9.2',
      [
        [
          'a window that is opened after HEADERS',
          async (c) => {
            await settings(c, [setting.windowSize, 0]);
            get(c);
            await settings(c, [setting.windowSize, 1]);
          },
          { dataBytes: 1 },
        ],
        [
          'a window that becomes negative',
          async (c) => {
            await settings(c, [setting.windowSize, 3]);
            get(c);
            await c.until(() => c.outcome(1).body.length === 3);
            await settings(c, [setting.windowSize, 2]);
            c.windowUpdate(1, 2);
            await c.until(() => c.outcome(1).body.length > 3);
            c.frames.splice(0, c.frames.length - 1);
          },
          { dataBytes: 1 },
        ],
        ['a window of 2^31', (c) => settings(c, [setting.windowSize, 2 ** 31]), connection(flowControl)],
      ],
    ],
    [
      '6.10',
      [
        [
          'several frames of CONTINUATION',
          (c) => {
            head(c, endStream);
            c.frame(frame.continuation, 0, 1, dummy);
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          'a response',
        ],
        [
          'CONTINUATION, then another frame',
          (c) => {
            head(c, 0, encodeFields(posting));
            c.frame(frame.continuation, 0, 1, dummy);
            c.data(1, 'test', { endStream: true });
          },
          connection(protocol),
        ],
        [
          'CONTINUATION on stream 0',
          (c) => {
            head(c, endStream);
            c.frame(frame.continuation, endHeaders, 0, dummy);
          },
          connection(protocol),
        ],
        [
          'CONTINUATION after END_HEADERS',
          (c) => {
            get(c);
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          connection(protocol),
        ],
        [
          'CONTINUATION after a CONTINUATION with END_HEADERS',
          (c) => {
            head(c, endStream);
            c.frame(frame.continuation, endHeaders, 1, dummy);
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          connection(protocol),
        ],
        [
          'CONTINUATION after DATA',
          (c) => {
            head(c, 0, encodeFields(posting));
            c.data(1, 'test', { endStream: true });
            c.frame(frame.continuation, endHeaders, 1, dummy);
          },
          connection(protocol),
        ],
      ],
    ],
    [
      '7',
      [
        ['GOAWAY with an unknown code', (c) => c.frame(frame.goaway, 0, 0, uint32(0, 0xff)), 'a close'],
        [
          'RST_STREAM with an unknown code',
          (c) => {
            begin(c);
            c.reset(1, 0xff);
          },
          'an answered PING',
        ],
      ],
    ],
    [
      '8.1 and 8.1.2',
      [
        [
          'a second HEADERS without END_STREAM',
          (c) => {
            begin(c);
            c.request(1, posting, { endStream: false });
          },
          stream(protocol),
        ],
        ['a name with capitals', (c) => get(c, [['X-TEST', 'ok']]), stream(protocol)],
        ['an unknown pseudo-field', (c) => c.request(1, [...common, [':test', 'ok']]), stream(protocol)],
        ['a pseudo-field of responses', (c) => c.request(1, [...common, [':status', '200']]), stream(protocol)],
        [
          'a pseudo-field in trailers',
          (c) => {
            begin(c, [['trailer', 'x-test']]);
            c.data(1, 'test');
            c.request(1, [[':method', 'GET']]);
          },
          stream(protocol),
        ],
        [
          'a pseudo-field after a field',
          (c) => c.request(1, [...without(':path'), ['x-test', 'ok'], [':path', '/']]),
          stream(protocol),
        ],
        ['Connection', (c) => get(c, [['connection', 'keep-alive']]), stream(protocol)],
        ['TE other than trailers', (c) => get(c, [['te', 'trailers, deflate;q=0.5']]), stream(protocol)],
        [
          'an empty :path',
          (c) =>
            c.request(
              1,
              common.map(([name, value]) => [name, name === ':path' ? '' : value]),
            ),
          stream(protocol),
        ],
        ['no :method', (c) => c.request(1, without(':method')), stream(protocol)],
        ['no :scheme', (c) => c.request(1, without(':scheme')), stream(protocol)],
        ['no :path', (c) => c.request(1, without(':path')), stream(protocol)],
        ['two of :method', (c) => c.request(1, [...common, [':method', 'GET']]), stream(protocol)],
        ['two of :scheme', (c) => c.request(1, [...common, [':scheme', scheme]]), stream(protocol)],
        ['two of :path', (c) => c.request(1, [...common, [':path', '/']]), stream(protocol)],
        [
          'a Content-Length that differs from one DATA',
          (c) => {
            begin(c, [['content-length', '1']]);
            c.data(1, 'test', { endStream: true });
          },
          stream(protocol),
        ],
        [
          'a Content-Length that differs from several DATA',
          (c) => {
            begin(c, [['content-length', '1']]);
            c.data(1, 'test');
            c.data(1, 'test', { endStream: true });
          },
          stream(protocol),
        ],
        [
          'PUSH_PROMISE',
          (c) => {
            begin(c);
            c.frame(frame.pushPromise, endHeaders, 1, Buffer.concat([uint32(2), block]));
          },
          connection(protocol),
        ],
      ],
    ],
    [
      'hpack (RFC 7541)',
      [
        ['§2.3.3: an index beyond both tables', withField(Buffer.from([0xc6])), connection(compression)],
        ['§2.3.3: a name beyond both tables', withField(literal(0x7f, '\x09\x05empty')), connection(compression)],
        ['§4.2: an update of the table size at the end', withField(Buffer.from([0x20])), connection(compression)],
        [
          '§5.2: padding of more than 7 bits',
          withField(literal(0, '\x85\xf2\xb2\x4a\x84\xff\x85\x9c\x48\xac\xa4\xff')),
          connection(compression),
        ],
        [
          '§5.2: padding of zeros',
          withField(literal(0, '\x85\xf2\xb2\x4a\x84\xff\x83\x9c\x48\xa9')),
          connection(compression),
        ],
        [
          '§5.2: the symbol EOS',
          withField(literal(0, '\x85\xf2\xb2\x4a\x87\xff\xff\xff\xff\xff\xff\xff\x04test')),
          connection(compression),
        ],
        ['§6.1: index 0', withField(Buffer.from([0x80])), connection(compression)],
        [
          '§6.3: a table size beyond the limit',
          (c) => head(c, whole, Buffer.concat([encodeInteger(4097, 5, 0x20), block])),
          connection(compression),
        ],
        ['a field that is indexed', withField(encodeIndexed(['x-indexed', 'yes'])), 'a response'],
      ],
    ],
  ];
}

/** Waits until the client sees what the row says, or something else that is final. */
async function expectOutcome(client: H2RawClient, sees: Outcome): Promise<void> {
  const { frames } = client;
  const resets = (): number[] =>
    frames.filter(({ type }) => type === frame.reset).map(({ payload }) => payload.readUInt32BE(0));
  if (sees === 'a close') await client.closed;
  else if (sees === 'an answered PING') expect(await client.roundTrip()).toBe(true);
  else if (typeof sees === 'string') {
    expect(await client.whenOver(1)).toMatchObject({ status: 200, isEnded: true, resetCode: undefined });
  } else if ('connection' in sees) {
    await client.closed;
    expect(sees.connection).toContain(client.goawayCode);
  } else if ('stream' in sees) {
    await Promise.race([client.until(() => resets().length > 0), client.closed]);
    expect(sees.stream).toContain(client.goawayCode ?? resets()[0]);
  } else {
    await client.until(() => frames.some(({ type }) => type === frame.data));
    expect(frames.find(({ type }) => type === frame.data)?.payload).toHaveLength(sees.dataBytes);
  }
}

describe.each([
  ['in cleartext', 'looked', 'http'],
  ['over TLS', 'tls', 'https'],
] as const)('%s', (_name, carrier, scheme) => {
  let listener: TestListener;
  beforeAll(async () => {
    listener = await openListener(
      async ({ body }) => {
        for await (const _chunk of body ?? []);
        return textResponse('hello, world');
      },
      { carrier, http2: true },
    );
  });
  afterAll(() => listener[Symbol.asyncDispose]());
  const tls = carrier === 'tls';

  describe.each(sections(scheme))('%s', (_section, rows) => {
    it.each(rows)('%s', async (_row, send, sees) => {
      await using client = await H2RawClient.open(listener.port, { tls });
      await send(client);
      await expectOutcome(client, sees);
    });
  });

  it('3.5: SETTINGS is the first frame of the server', async () => {
    await using client = await H2RawClient.open(listener.port, { tls });
    expect(client.frames[0]?.type).toBe(frame.settings);
  });

  it.each([
    ['3.5: bytes of no protocol', 'INVALID CONNECTION PREFACE\r\n\r\n'],
    ['a preface that goes on otherwise', preface.replace('SM', 'XX')],
    ['a preface without its last byte', `${preface.slice(0, -1)}x`],
  ])('%s end the connection', async (_what, bytes) => {
    await using client = await H2RawClient.connect(listener.port, { tls });
    client.send(bytes);
    await client.closed;
    // In cleartext, bytes of no protocol are those of a malformed request of HTTP/1.
    if (tls || bytes.startsWith('PRI')) expect(client.goawayCode).toBe(protocol);
  });
});

it('a malformed request gets a 400 before the reset of its stream, with and without a body to come (RFC 9113 §8.1.1)', async () => {
  await using listener = await openListener(() => textResponse('well'), { http2: true });
  await using client = await H2RawClient.open(listener.port);
  const malformed: readonly Field[] = [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', '/'],
    [':authority', 'a'],
    ['TE', 'x'],
  ];
  client.request(1, malformed);
  client.request(3, malformed, { endStream: false });
  client.data(3, 'on its way', { endStream: true });
  for (const id of [1, 3]) {
    const { status, body, isEnded, resetCode } = await client.whenOver(id);
    expect({ status, isEnded, resetCode }).toEqual({ status: 400, isEnded: false, resetCode: protocol });
    expect(body.toString()).toContain('malformed');
  }
  client.request(5, [
    [':method', 'GET'],
    [':scheme', 'http'],
    [':path', '/'],
    [':authority', 'a'],
  ]);
  expect((await client.whenOver(5)).status).toBe(200);
});
