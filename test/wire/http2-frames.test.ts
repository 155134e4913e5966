/** Frames that HTTP/2 clients must not send (RFC 9113 §5 and §6): one row per frame. */

import { begin, block, expectRows, open, type Row, whole } from '../support/clients/h2-frame-rows.ts';
import {
  errorCode as code,
  flag,
  frameType as frame,
  getFields,
  setting,
  settingsPayload,
  uint32,
} from '../support/clients/h2-raw-client.ts';

const largest = 2 ** 31 - 1;

const streams: readonly Row[] = [
  {
    name: 'DATA on stream 0',
    send: (c) => c.frame(frame.data, 0, 0, Buffer.from('x')),
    sees: { goaway: code.protocol },
  },
  {
    name: 'HEADERS on stream 0',
    send: (c) => c.frame(frame.headers, whole, 0, block),
    sees: { goaway: code.protocol },
  },
  {
    name: 'PRIORITY on stream 0',
    send: (c) => c.frame(frame.priority, 0, 0, Buffer.alloc(5)),
    sees: { goaway: code.protocol },
  },
  { name: 'RST_STREAM on stream 0', send: (c) => c.reset(0), sees: { goaway: code.protocol } },
  {
    name: 'CONTINUATION on stream 0',
    send: (c) => c.frame(frame.continuation, open, 0, block),
    sees: { goaway: code.protocol },
  },
  { name: 'SETTINGS on stream 1', send: (c) => c.frame(frame.settings, 0, 1), sees: { goaway: code.protocol } },
  {
    name: 'PING on stream 1',
    send: (c) => c.frame(frame.ping, 0, 1, Buffer.alloc(8)),
    sees: { goaway: code.protocol },
  },
  {
    name: 'GOAWAY on stream 1',
    send: (c) => c.frame(frame.goaway, 0, 1, Buffer.alloc(8)),
    sees: { goaway: code.protocol },
  },
  {
    name: 'HEADERS on stream 2',
    send: (c) => c.frame(frame.headers, whole, 2, block),
    sees: { goaway: code.protocol },
  },
  { name: 'DATA on an idle stream', send: (c) => c.data(1, 'x'), sees: { goaway: code.protocol } },
  { name: 'RST_STREAM on an idle stream', send: (c) => c.reset(1), sees: { goaway: code.protocol } },
  { name: 'WINDOW_UPDATE on an idle stream', send: (c) => c.windowUpdate(1, 1), sees: { goaway: code.protocol } },
  { name: 'PRIORITY on an idle stream', send: (c) => c.frame(frame.priority, 0, 9, Buffer.alloc(5)), sees: 'ignored' },
  {
    name: 'PUSH_PROMISE',
    send: (c) => {
      begin(c);
      c.frame(frame.pushPromise, open, 1, Buffer.concat([uint32(2), block]));
    },
    sees: { goaway: code.protocol },
    asked: ['/wait'],
  },
  {
    // RFC 9113 §5.1.1.
    name: 'a stream lower than the last',
    send: (c) => {
      c.request(3, getFields('/3'));
      c.request(1, getFields('/1'));
    },
    sees: { goaway: code.protocol },
    asked: ['/3'],
  },
  {
    name: 'HEADERS after END_STREAM',
    send: (c) => {
      c.request(1, getFields('/wait'));
      c.request(1, getFields('/again'));
    },
    sees: { goaway: code.streamClosed },
    asked: ['/wait'],
  },
  {
    name: 'DATA after END_STREAM',
    send: (c) => {
      c.request(1, getFields('/wait'));
      c.data(1, 'x');
    },
    sees: { goaway: code.streamClosed },
    asked: ['/wait'],
  },
  {
    name: 'HEADERS without END_STREAM, within a body',
    send: (c) => {
      begin(c);
      c.request(1, [['x', 'y']], { endStream: false });
    },
    sees: { reset: code.protocol },
    asked: ['/wait'],
  },
  {
    name: 'trailers with a pseudo-field',
    send: (c) => {
      begin(c);
      c.request(1, [[':path', '/']]);
    },
    sees: { reset: code.protocol },
    asked: ['/wait'],
  },
  {
    name: 'trailers with Transfer-Encoding',
    send: (c) => {
      begin(c);
      c.request(1, [['transfer-encoding', 'chunked']]);
    },
    sees: { reset: code.protocol },
    asked: ['/wait'],
  },
];

const sizes: readonly Row[] = [
  {
    name: 'a frame above the maximum',
    send: (c) => {
      begin(c);
      c.data(1, 'x'.repeat(16_385));
    },
    sees: { goaway: code.frameSize },
    asked: ['/wait'],
  },
  {
    name: 'a frame whose length field says 16 MiB',
    send: (c) => c.frame(frame.data, 0, 1, Buffer.from('x'), 2 ** 24 - 1),
    sees: { goaway: code.frameSize },
  },
  {
    name: 'SETTINGS of 5 bytes',
    send: (c) => c.frame(frame.settings, 0, 0, Buffer.alloc(5)),
    sees: { goaway: code.frameSize },
  },
  {
    name: 'an acknowledgement with settings',
    send: (c) => c.frame(frame.settings, flag.ack, 0, Buffer.alloc(6)),
    sees: { goaway: code.frameSize },
  },
  {
    name: 'PING of 7 bytes',
    send: (c) => c.frame(frame.ping, 0, 0, Buffer.alloc(7)),
    sees: { goaway: code.frameSize },
  },
  {
    name: 'PRIORITY of 4 bytes',
    send: (c) => c.frame(frame.priority, 0, 1, Buffer.alloc(4)),
    sees: { goaway: code.frameSize },
  },
  {
    name: 'RST_STREAM of 3 bytes',
    send: (c) => {
      begin(c);
      c.frame(frame.reset, 0, 1, Buffer.alloc(3));
    },
    sees: { goaway: code.frameSize },
    asked: ['/wait'],
  },
  {
    name: 'WINDOW_UPDATE of 3 bytes',
    send: (c) => c.frame(frame.windowUpdate, 0, 0, Buffer.alloc(3)),
    sees: { goaway: code.frameSize },
  },
  {
    name: 'GOAWAY of 7 bytes',
    send: (c) => c.frame(frame.goaway, 0, 0, Buffer.alloc(7)),
    sees: { goaway: code.frameSize },
  },
  {
    name: 'DATA with more padding than payload',
    send: (c) => {
      begin(c);
      c.frame(frame.data, flag.padded, 1, Buffer.from([9, 0]));
    },
    sees: { goaway: code.protocol },
    asked: ['/wait'],
  },
  {
    name: 'HEADERS with more padding than payload',
    send: (c) => c.frame(frame.headers, whole | flag.padded, 1, Buffer.from([200, ...block])),
    sees: { goaway: code.protocol },
  },
  {
    name: 'padded DATA of no bytes',
    send: (c) => {
      begin(c);
      c.frame(frame.data, flag.padded, 1);
    },
    sees: { goaway: code.protocol },
    asked: ['/wait'],
  },
];

const settings: readonly Row[] = [
  {
    name: 'ENABLE_PUSH of 2',
    send: (c) => c.frame(frame.settings, 0, 0, settingsPayload([setting.enablePush, 2])),
    sees: { goaway: code.protocol },
  },
  {
    name: 'an initial window over 2^31-1',
    send: (c) => c.frame(frame.settings, 0, 0, settingsPayload([setting.windowSize, 2 ** 31])),
    sees: { goaway: code.flowControl },
  },
  {
    name: 'a maximum frame size of 100',
    send: (c) => c.frame(frame.settings, 0, 0, settingsPayload([setting.frameSize, 100])),
    sees: { goaway: code.protocol },
  },
  {
    name: 'a maximum frame size of 2^24',
    send: (c) => c.frame(frame.settings, 0, 0, settingsPayload([setting.frameSize, 2 ** 24])),
    sees: { goaway: code.protocol },
  },
  {
    name: 'an initial window that makes the window of a stream too large',
    send: (c) => {
      begin(c);
      c.windowUpdate(1, largest - 65_535);
      c.frame(frame.settings, 0, 0, settingsPayload([setting.windowSize, largest]));
    },
    sees: { goaway: code.flowControl },
    asked: ['/wait'],
  },
  {
    name: 'one acknowledgement too many',
    send: (c) => c.frame(frame.settings, flag.ack, 0),
    sees: { goaway: code.protocol },
  },
  {
    name: 'unknown settings',
    send: (c) => c.frame(frame.settings, 0, 0, settingsPayload([0x99, 1], [0, 7])),
    sees: 'ignored',
  },
  {
    name: '1,000 settings in one frame',
    send: (c) =>
      c.frame(frame.settings, 0, 0, settingsPayload(...Array.from({ length: 1000 }, () => [0x99, 1] as const))),
    sees: { goaway: code.calm },
  },
];

const windows: readonly Row[] = [
  { name: 'WINDOW_UPDATE of 0 for the connection', send: (c) => c.windowUpdate(0, 0), sees: { goaway: code.protocol } },
  {
    name: 'WINDOW_UPDATE of 0 for a stream',
    send: (c) => {
      begin(c);
      c.windowUpdate(1, 0);
    },
    sees: { reset: code.protocol },
    asked: ['/wait'],
  },
  {
    name: 'a window of the connection over 2^31-1',
    send: (c) => {
      c.windowUpdate(0, largest);
      c.windowUpdate(0, largest);
    },
    sees: { goaway: code.flowControl },
  },
  {
    name: 'a window of a stream over 2^31-1',
    send: (c) => {
      begin(c);
      c.windowUpdate(1, largest);
    },
    sees: { reset: code.flowControl },
    asked: ['/wait'],
  },
  {
    name: 'more content than the window of the connection',
    send: (c) => {
      begin(c);
      for (let sent = 0; sent < 128; sent += 1) c.data(1, 'x'.repeat(16_384));
    },
    sees: { goaway: code.flowControl },
    asked: ['/wait'],
  },
];

expectRows([
  ['a stream', streams],
  ['the size of a frame', sizes],
  ['settings', settings],
  ['flow control', windows],
]);
