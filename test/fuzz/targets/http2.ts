/** HTTP/2 frames and field sections as bytes. */

import { encodeField, HpackDecoder, HpackFault } from '../../../src/listener/http2/hpack.ts';
import { encodeFields, encodeIndexed } from '../../support/clients/h2-hpack.ts';
import { flag, frameBytes, frameType, getFields, postFields, uint32 } from '../../support/clients/h2-raw-client.ts';
import { readAsHttp2Listener } from '../../support/clients/own-h2-reader.ts';
import { must, mustEqual, type Target } from '../target.ts';

const preface = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frameBytes(frameType.settings, 0, 0)]);
const text = (...parts: readonly Uint8Array[]) => Buffer.concat(parts).toString('latin1');
const whole = flag.endHeaders | flag.endStream;
const get = encodeFields(getFields('/x'));
const post = encodeFields(postFields('/x', [['content-length', '3']]));

const http2: Target = {
  name: 'http2',
  seeds: [
    text(frameBytes(frameType.headers, whole, 1, get), frameBytes(frameType.headers, whole, 3, get)),
    text(
      frameBytes(frameType.headers, flag.endHeaders, 1, post),
      frameBytes(frameType.data, flag.endStream, 1, Buffer.from('abc')),
    ),
    text(
      frameBytes(frameType.headers, flag.endStream, 1, get.subarray(0, 5)),
      frameBytes(frameType.continuation, flag.endHeaders, 1, get.subarray(5)),
    ),
    text(
      frameBytes(frameType.headers, flag.endHeaders, 1, post),
      frameBytes(frameType.data, flag.padded, 1, Buffer.from([1, 97, 98, 99, 0])),
      frameBytes(frameType.headers, whole, 1, encodeFields([['x', 'y']])),
    ),
    text(
      frameBytes(frameType.settings, 0, 0, Buffer.from([0, 4, 0, 0, 0, 1])),
      frameBytes(frameType.headers, whole, 1, get),
      frameBytes(frameType.windowUpdate, 0, 1, uint32(9)),
    ),
    text(frameBytes(frameType.headers, whole, 1, get), frameBytes(frameType.reset, 0, 1, uint32(8))),
    text(frameBytes(frameType.ping, 0, 0, Buffer.alloc(8)), frameBytes(frameType.priority, 0, 3, Buffer.alloc(5))),
    text(frameBytes(frameType.headers, whole, 5, Buffer.concat([get, encodeIndexed(['x', 'y'])]))),
  ],
  words: [
    ...Object.values(frameType).map((type) => text(frameBytes(type, 0, 1))),
    ...[0, 1, 3].map((stream) => text(uint32(stream))),
    ...[0, flag.endStream, flag.endHeaders, whole, flag.padded, flag.priority].map((bits) => String.fromCharCode(bits)),
    text(get),
    text(post),
    text(encodeFields([['x', 'y']])),
    text(frameBytes(frameType.headers, whole, 7, get)),
    text(frameBytes(frameType.data, flag.endStream, 1, Buffer.from('abc'))),
    text(frameBytes(frameType.settings, flag.ack, 0)),
    text(frameBytes(frameType.goaway, 0, 0, Buffer.alloc(8))),
    '\x00\x00\x04',
    '\x82\x84\x86\x41\x01a',
    '\xbe',
    '\x20',
    '\x7f\xff\xff\xff',
  ],
  check(input) {
    const bytes = Buffer.concat([preface, Buffer.from(input, 'latin1')]);
    const reading = readAsHttp2Listener([bytes]);
    for (const [method, authority, target, ...fields] of reading.requests) {
      must(!/[^!-~]/.test(method + target + authority), 'no character splits the request line');
      must(authority !== '', 'each request has an authority');
      for (const [at, part] of fields.entries()) {
        if (at % 2 === 0) must(/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(part), 'a field name is a token in lower case');
        // biome-ignore lint/suspicious/noControlCharactersInRegex: the result must not contain them
        else must(!/[\0-\x08\x0a-\x1f\x7f]|^[\t ]|[\t ]$/.test(part), 'no character splits a field line');
      }
    }
    checkFrames(reading.sent);
    const pieceBytes = 1 + (input.length % 11) + Math.floor(input.length / 256);
    const pieces: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(bytes.subarray(at, at + pieceBytes));
    const split = readAsHttp2Listener(pieces);
    mustEqual(split.requests, reading.requests, 'the requests do not depend on how the bytes are split');
    mustEqual(split.isEnded, reading.isEnded, 'nor does the end of the connection');
  },
};

/** What the listener sends is whole frames, the last of which is GOAWAY where there is one, and no stream goes on after its end. */
function checkFrames(sent: Buffer): void {
  const ended = new Set<number>();
  let hasLeft = false;
  let at = 0;
  for (; at + 9 <= sent.length; at += 9 + sent.readUIntBE(at, 3)) {
    const type = sent[at + 3] ?? 0;
    const flags = sent[at + 4] ?? 0;
    const stream = sent.readUInt32BE(at + 5);
    must(!hasLeft, 'nothing follows GOAWAY');
    hasLeft = type === frameType.goaway;
    const isContent = type === frameType.data || type === frameType.headers;
    must(!isContent || !ended.has(stream), 'a stream has nothing after its end');
    if ((isContent && (flags & flag.endStream) !== 0) || type === frameType.reset) ended.add(stream);
  }
  must(at === sent.length, 'frames are whole');
}

const hpack: Target = {
  name: 'hpack',
  seeds: [
    text(get),
    text(Buffer.from('828684418cf1e3c2e5f23a6ba0ab90f4ff', 'hex')),
    text(Buffer.from('828684be5886a8eb10649cbf', 'hex')),
    text(encodeIndexed(['x', 'y']), Buffer.from([0xbe])),
    '\x20\x3f\xe1\x1f\x82',
  ],
  words: [
    '\x82',
    '\xbe',
    '\x40',
    '\x00',
    '\x10',
    '\x20',
    '\x3f',
    '\x7f',
    '\xff',
    '\x80',
    '\x01x',
    '\x84\xf1\xe3\xc2\xe5',
  ],
  check(input) {
    const block = Buffer.from(input, 'latin1');
    const decoder = new HpackDecoder();
    try {
      const { list } = decoder.decode(block, 0, block.length, 10_000);
      must(list.length % 2 === 0, 'names and values alternate');
      let again = '';
      for (let at = 0; at < list.length; at += 2) again += encodeField(list[at] ?? '', list[at + 1] ?? '');
      const copy = Buffer.from(again, 'latin1');
      mustEqual(decoder.decode(copy, 0, copy.length, 10_000).list, list, 'what is encoded is decoded as the same');
    } catch (error) {
      must(error instanceof HpackFault, `a fault is a HpackFault: ${error}`);
    }
  },
};

export const http2Targets: readonly Target[] = [http2, hpack];
