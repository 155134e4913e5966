/** Field sections that HTTP/2 clients must not send (RFC 9113 §4.3, RFC 7541), frames that are allowed, and the preface. */

import { describe, expect, it } from 'vitest';
import { begin, block, expectRows, open, openFrameServer, type Row, whole } from '../support/clients/h2-frame-rows.ts';
import { encodeFields, encodeInteger, encodeText } from '../support/clients/h2-hpack.ts';
import {
  errorCode as code,
  flag,
  frameType as frame,
  getFields,
  H2RawClient,
  postFields,
  preface,
  uint32,
} from '../support/clients/h2-raw-client.ts';

const sections: readonly Row[] = [
  {
    name: 'CONTINUATION without HEADERS',
    send: (c) => {
      begin(c);
      c.frame(frame.continuation, open, 1, block);
    },
    sees: { goaway: code.protocol },
    asked: ['/wait'],
  },
  {
    name: 'DATA within a field section',
    send: (c) => {
      c.frame(frame.headers, 0, 1, block);
      c.data(1, 'x');
    },
    sees: { goaway: code.protocol },
  },
  {
    name: 'PING within a field section',
    send: (c) => {
      c.frame(frame.headers, 0, 1, block);
      c.frame(frame.ping, 0, 0, Buffer.alloc(8));
    },
    sees: { goaway: code.protocol },
  },
  {
    name: 'an unknown frame within a field section',
    send: (c) => {
      c.frame(frame.headers, 0, 1, block);
      c.frame(0x77, 0, 1);
    },
    sees: { goaway: code.protocol },
  },
  {
    name: 'CONTINUATION of another stream',
    send: (c) => {
      c.frame(frame.headers, 0, 1, block);
      c.frame(frame.continuation, open, 3, block);
    },
    sees: { goaway: code.protocol },
  },
  {
    name: 'HEADERS within a field section',
    send: (c) => {
      c.frame(frame.headers, 0, 1, block);
      c.frame(frame.headers, whole, 3, block);
    },
    sees: { goaway: code.protocol },
  },
  {
    name: 'a flood of CONTINUATION',
    send: (c) => {
      c.frame(frame.headers, flag.endStream, 1, block);
      for (let sent = 0; sent < 100; sent += 1) c.frame(frame.continuation, 0, 1, encodeFields([['x', 'y']]));
    },
    sees: { goaway: code.calm },
  },
  {
    name: 'a flood of empty CONTINUATION',
    send: (c) => {
      c.frame(frame.headers, flag.endStream, 1, block);
      for (let sent = 0; sent < 100; sent += 1) c.frame(frame.continuation, 0, 1);
    },
    sees: { goaway: code.calm },
  },
];

const compression: readonly Row[] = [
  ['index 0', Buffer.from([0x80])],
  ['an index of the dynamic table, which is empty', Buffer.from([0xbe])],
  ['an index far beyond the tables', encodeInteger(1_000_000, 7, 0x80)],
  ['a name with an index beyond the tables', Buffer.concat([encodeInteger(4000, 4, 0), encodeText('x')])],
  ['a table larger than allowed', encodeInteger(1_000_000, 5, 0x20)],
  ['a new table size after a field', Buffer.concat([block, encodeInteger(0, 5, 0x20)])],
  ['a text longer than the section', Buffer.from([0x00, 0x7f, 0xff, 0xff, 0x07])],
  ['an integer without end', Buffer.from([0x00, 0x7f, ...Array.from({ length: 12 }, () => 0xff)])],
  ['a section that ends within a field', block.subarray(0, block.length - 1)],
  ['Huffman code with its end of string', Buffer.from([0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, 0x61])],
  ['Huffman code with padding of zeros', Buffer.from([0x00, 0x81, 0x00, 0x01, 0x61])],
].map(([name, bytes]) => ({
  name: String(name),
  send: (client) => client.frame(frame.headers, whole, 1, bytes as Buffer),
  sees: { goaway: code.compression },
}));

const allowed: readonly Row[] = [
  { name: 'a frame of an unknown type', send: (c) => c.frame(0x77, 0xff, 0, Buffer.from('what?')), sees: 'ignored' },
  {
    name: 'a frame of an unknown type on a stream',
    send: (c) => {
      begin(c);
      c.frame(0x77, 0xff, 1, Buffer.from('what?'));
    },
    sees: 'ignored',
    asked: ['/wait'],
  },
  {
    name: 'PRIORITY with a dependency cycle',
    send: (c) => {
      for (const [a, b] of [
        [3, 5],
        [5, 7],
        [7, 3],
      ] as const)
        c.frame(frame.priority, 0, a, Buffer.concat([uint32(b), Buffer.from([1])]));
    },
    sees: 'ignored',
  },
  {
    name: 'PRIORITY_UPDATE',
    send: (c) => c.frame(0x10, 0, 0, Buffer.concat([uint32(1), Buffer.from('u=1')])),
    sees: 'ignored',
  },
  {
    name: 'padding, and a priority',
    send: (c) =>
      c.frame(
        frame.headers,
        whole | flag.padded | flag.priority,
        1,
        Buffer.concat([Buffer.from([3, 0, 0, 0, 0, 15]), block, Buffer.alloc(3)]),
      ),
    sees: { status: 200 },
    asked: ['/'],
  },
  {
    name: 'unknown flags',
    send: (c) => c.frame(frame.headers, whole | 0x40 | 0x02, 1, block),
    sees: { status: 200 },
    asked: ['/'],
  },
  {
    name: 'a reserved bit that is set',
    send: (c) => c.frame(frame.headers, whole, 0x8000_0001, block),
    sees: { status: 200 },
    asked: ['/'],
  },
  {
    name: 'a section in two frames',
    send: (c) => {
      c.frame(frame.headers, flag.endStream, 1, block.subarray(0, 7));
      c.frame(frame.continuation, open, 1, block.subarray(7));
    },
    sees: { status: 200 },
    asked: ['/'],
  },
  {
    name: 'trailers',
    send: (c) => {
      c.request(1, postFields('/read'), { endStream: false });
      c.data(1, 'body');
      c.request(1, [['x', 'y']]);
    },
    sees: { status: 200 },
    asked: ['/read'],
  },
  {
    name: 'empty DATA',
    send: (c) => {
      c.request(1, postFields('/read'), { endStream: false });
      c.data(1, '');
      c.data(1, '', { endStream: true });
    },
    sees: { status: 200 },
    asked: ['/read'],
  },
  {
    name: 'GOAWAY without an error',
    send: (c) => {
      c.request(1, getFields('/'));
      c.frame(frame.goaway, 0, 0, Buffer.alloc(8));
    },
    sees: { goaway: code.none },
    asked: ['/'],
  },
  {
    name: 'GOAWAY with an error',
    send: (c) => c.frame(frame.goaway, 0, 0, Buffer.concat([uint32(0), uint32(code.internal)])),
    sees: { goaway: code.none },
  },
];

expectRows([
  ['a field section', sections],
  ['compression', compression],
  ['allowed frames', allowed],
]);

describe('an invalid preface', () => {
  it.each<[string, string | Uint8Array]>([
    ['of HTTP/1.1', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['that differs in its last byte', `${preface.slice(0, -1)}x`],
    ['of garbage', Buffer.alloc(200, 0xff)],
  ])('%s closes the connection, and no request is read', async (_name, bytes) => {
    await using listener = await openFrameServer();
    await using client = await H2RawClient.connect(listener.port);
    client.send(bytes);
    await client.closed;
    expect(listener.requests).toEqual([]);
    await expect.poll(() => listener.sockets.size).toBe(0);
  });

  it('without SETTINGS after it is a connection error', async () => {
    await using listener = await openFrameServer();
    await using client = await H2RawClient.connect(listener.port);
    client.send(preface);
    client.frame(frame.ping, 0, 0, Buffer.alloc(8));
    await client.closed;
    expect(client.goawayCode).toBe(code.protocol);
  });
});
