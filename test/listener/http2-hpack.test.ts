/** HPACK (RFC 7541): the examples of its Appendix C, the code of each octet as node:http2 writes it, and faults. */

import { connect } from 'node:http2';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { encodeField, encodeStatus, HpackDecoder, HpackFault } from '../../src/listener/http2/hpack.ts';
import { encodeFields, encodeIndexed, encodeInteger, encodeText } from '../support/clients/h2-hpack.ts';

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex');
const decode = (decoder: HpackDecoder, block: Uint8Array, limitBytes = 100_000) =>
  decoder.decode(block, 0, block.length, limitBytes);
const listOf = (text: string) => text.split('|');

describe('the examples of RFC 7541', () => {
  it.each([
    [
      'C.3',
      [
        '828684410f7777772e6578616d706c652e636f6d',
        '828684be58086e6f2d6361636865',
        '828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565',
      ],
    ],
    [
      'C.4',
      [
        '828684418cf1e3c2e5f23a6ba0ab90f4ff',
        '828684be5886a8eb10649cbf',
        '828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf',
      ],
    ],
  ])('%s: three requests on one connection', (_name, blocks) => {
    const decoder = new HpackDecoder();
    const lists = blocks.map((block) => decode(decoder, hex(block)).list);
    expect(lists).toEqual([
      listOf(':method|GET|:scheme|http|:path|/|:authority|www.example.com'),
      listOf(':method|GET|:scheme|http|:path|/|:authority|www.example.com|cache-control|no-cache'),
      listOf(':method|GET|:scheme|https|:path|/index.html|:authority|www.example.com|custom-key|custom-value'),
    ]);
  });

  it('C.2: single fields', () => {
    const decoder = new HpackDecoder();
    expect(decode(decoder, hex('400a637573746f6d2d6b65790d637573746f6d2d686561646572')).list).toEqual([
      'custom-key',
      'custom-header',
    ]);
    expect(decode(decoder, hex('040c2f73616d706c652f70617468')).list).toEqual([':path', '/sample/path']);
    expect(decode(decoder, hex('100870617373776f726406736563726574')).list).toEqual(['password', 'secret']);
    // Of the three, only the first is in the dynamic table.
    expect(decode(decoder, hex('be')).list).toEqual(['custom-key', 'custom-header']);
    expect(() => decode(decoder, hex('bf'))).toThrow(HpackFault);
  });
});

it('each octet in the Huffman code is read as node:http2 writes it', async () => {
  const octets = Array.from({ length: 256 }, (_, octet) => octet).filter((octet) => octet > 32 && octet !== 127);
  const blocks = Promise.withResolvers<Buffer>();
  const server = createServer((socket) => {
    let bytes: Buffer = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]));
    socket.on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (let at = 24; bytes.length >= at + 9; at += 9 + bytes.readUIntBE(at, 3)) {
        const end = at + 9 + bytes.readUIntBE(at, 3);
        const priorityBytes = ((bytes[at + 4] ?? 0) & 0x20) === 0 ? 0 : 5;
        if (bytes[at + 3] === 1 && bytes.length >= end)
          blocks.resolve(Buffer.from(bytes.subarray(at + 9 + priorityBytes, end)));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const client = connect(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`);
  client.on('error', () => {});
  const request = client.request(
    Object.fromEntries(octets.map((octet) => [`x-${octet}`, String.fromCharCode(octet).repeat(9)])),
  );
  request.on('error', () => {});
  const { list } = decode(new HpackDecoder(), await blocks.promise);
  for (const octet of octets) {
    expect(list[list.indexOf(`x-${octet}`) + 1]).toBe(String.fromCharCode(octet).repeat(9));
  }
  client.destroy();
  server.close();
});

describe('the dynamic table', () => {
  it('evicts the oldest entries, and all for an entry that is larger than itself', () => {
    const decoder = new HpackDecoder();
    // 64 entries of 64 bytes fill 4096 bytes.
    const field = (at: number) => [`name-${String(at).padStart(3, '0')}`, 'v'.repeat(24)] as const;
    for (let at = 0; at < 65; at += 1) decode(decoder, encodeIndexed(field(at)));
    expect(decode(decoder, encodeInteger(62, 7, 0x80)).list).toEqual(field(64));
    expect(decode(decoder, encodeInteger(62 + 63, 7, 0x80)).list).toEqual(field(1));
    expect(() => decode(decoder, encodeInteger(62 + 64, 7, 0x80))).toThrow('an index beyond the tables');
    decode(decoder, encodeIndexed(['x', 'y'.repeat(5_000)]));
    expect(() => decode(decoder, encodeInteger(62, 7, 0x80))).toThrow('an index beyond the tables');
  });

  it('changes its size as an update says, which comes before all fields', () => {
    const decoder = new HpackDecoder();
    decode(decoder, encodeIndexed(['x', 'y']));
    expect(decode(decoder, Buffer.concat([hex('20'), encodeInteger(4096, 5, 0x20)])).list).toEqual([]);
    expect(() => decode(decoder, encodeInteger(62, 7, 0x80))).toThrow(HpackFault);
    expect(() => decode(decoder, encodeInteger(4097, 5, 0x20))).toThrow('a table larger than allowed');
    expect(() => decode(new HpackDecoder(), hex('8220'))).toThrow('a table size update after a field');
  });
});

describe('a fault', () => {
  it.each<[string, Uint8Array]>([
    ['index 0', hex('80')],
    ['an integer that does not end', hex('ff80')],
    ['an integer of too many bytes', hex('ffffffffffffffff7f')],
    ['a name without a value', Buffer.concat([hex('00'), encodeText('x')])],
    ['a text that is longer than its section', hex('000178057a')],
    ['the code of the end of a text', hex('000178 84 ffffffff')],
    ['padding of 8 bits', hex('000178 82 1fff')],
    ['padding of zeros', hex('000178 81 00')],
  ])('%s', (_name, block) => {
    expect(() => decode(new HpackDecoder(), block)).toThrow(HpackFault);
  });

  it.each<[string, readonly (readonly [string, string])[], RegExp]>([
    ['a capital letter', [['X', 'y']], /name/],
    ['an empty name', [['', 'y']], /name/],
    ['a line break', [['x', 'a\r\nb: c']], /value of x/],
    ['white space at the end', [['x', 'a ']], /value of x/],
    ['a field of the connection', [['connection', 'close']], /connection does not exist/],
    ['TE', [['te', 'gzip']], /TE/],
    [
      'a pseudo-field after a field',
      [
        ['x', 'y'],
        [':path', '/'],
      ],
      /after a field/,
    ],
  ])('of a field makes the section malformed, also from the table: %s', (_name, fields, fault) => {
    const decoder = new HpackDecoder();
    expect(decode(decoder, encodeFields(fields)).fault).toMatch(fault);
    const [first] = fields;
    if (first === undefined || fields.length > 1) return;
    decode(decoder, encodeIndexed(first));
    expect(decode(decoder, encodeInteger(62, 7, 0x80)).fault).toMatch(fault);
    expect(decode(decoder, encodeFields([['x', 'y']])).fault).toBeUndefined();
  });

  it('is not what is larger than the limit, whose later fields still enter the table', () => {
    const decoder = new HpackDecoder();
    const section = decode(
      decoder,
      Buffer.concat([encodeFields([['x', 'y'.repeat(100)]]), encodeIndexed(['z', '1'])]),
      100,
    );
    expect(section).toMatchObject({ list: [], isTooLarge: true, fault: undefined });
    expect(decode(decoder, encodeInteger(62, 7, 0x80)).list).toEqual(['z', '1']);
  });
});

it.each([
  [200, '88'],
  [206, '8a'],
  [416, '0803343136'],
])('status %i is encoded', (status, expected) => {
  expect(Buffer.from(encodeStatus(status), 'latin1').toString('hex')).toBe(expected);
});

it.each<[string, string]>([
  ['etag', '"x"'],
  ['cache-status', 'rangeway; hit'],
  ['x'.repeat(300), 'y'.repeat(20_000)],
  ['x', ''],
])('an encoded field is decoded as the same: %.20s', (name, value) => {
  const block = Buffer.from(encodeField(name, value), 'latin1');
  expect(decode(new HpackDecoder(), block).list).toEqual([name, value]);
});
