import { SocketAddress } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readProxyHeader } from '../../src/listener/accept/proxy-protocol.ts';

const signature = '\r\n\r\n\0\r\nQUIT\n';

/** A header of version 2: its bytes 13 and 14, and the bytes after the length. */
function v2(
  versionAndCommand: number,
  familyAndTransport: number,
  rest: number[] | Buffer,
  length = rest.length,
): Buffer {
  const fixed = Buffer.from([versionAndCommand, familyAndTransport, length >> 8, length & 0xff]);
  return Buffer.concat([Buffer.from(signature, 'latin1'), fixed, Buffer.from(rest)]);
}

const v4Block = [192, 0, 2, 1, 198, 51, 100, 7, 0xdc, 0x04, 0x01, 0xbb];
const v6Block = [
  ...[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
  ...[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
  ...[0xdc, 0x04, 0x01, 0xbb],
];
const mappedBlock = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1, ...Array(16).fill(0), 0, 1, 0, 2];
const client = { address: '192.0.2.1', port: 56_324 };
const client6 = { address: '2001:db8::1', port: 56_324 };

describe('a header of version 1', () => {
  it.each<[line: string, peer: { address: string; port: number } | undefined]>([
    ['PROXY TCP4 192.0.2.1 198.51.100.7 56324 443', client],
    ['PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535', { address: '255.255.255.255', port: 65_535 }],
    ['PROXY TCP4 192.0.2.1 198.51.100.7 0 0', { address: '192.0.2.1', port: 0 }],
    ['PROXY TCP6 2001:db8::1 2001:db8::2 56324 443', client6],
    ['PROXY TCP6 2001:0DB8:0:0:0:0:0:1 ::1 56324 443', client6],
    [
      'PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535',
      { address: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', port: 65_535 },
    ],
    ['PROXY TCP6 ::ffff:192.0.2.1 ::1 56324 443', client],
    ['PROXY UNKNOWN', undefined],
    ['PROXY UNKNOWN ffff::1 ffff::2 65535 65535', undefined],
    ['PROXY UNKNOWN \x01 whatever', undefined],
  ])('%j', (line, peer) => {
    const want = { kind: 'header', peer, sizeBytes: line.length + 2 };
    expect(readProxyHeader(Buffer.from(`${line}\r\nGET / HTTP/1.1`, 'latin1'))).toEqual(want);
  });

  it.each([
    'PROXY TCP4 192.0.2.1 198.51.100.7 56324 443 \r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 56324\r\n',
    'PROXY TCP4 192.0.2.1  198.51.100.7 56324 443\r\n',
    'PROXY TCP4\t192.0.2.1 198.51.100.7 56324 443\r\n',
    'PROXY TCP4 192.0.2.256 198.51.100.7 56324 443\r\n',
    'PROXY TCP4 192.0.2 198.51.100.7 56324 443\r\n',
    'PROXY TCP4 192.0.2.01 198.51.100.7 56324 443\r\n',
    'PROXY TCP4 2001:db8::1 2001:db8::2 56324 443\r\n',
    'PROXY TCP6 192.0.2.1 198.51.100.7 56324 443\r\n',
    'PROXY TCP6 fe80::1%eth0 ::1 56324 443\r\n',
    'PROXY TCP6 ::1 nonsense 56324 443\r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 65536 443\r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 056 443\r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 -1 443\r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 1e3 443\r\n',
    'PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\n\r\n',
    'PROXY UDP4 192.0.2.1 198.51.100.7 56324 443\r\n',
    'PROXY unknown\r\n',
    'PROXY \r\n',
    'PROXYTCP4 192.0.2.1 198.51.100.7 56324 443\r\n',
    'proxy TCP4 192.0.2.1 198.51.100.7 56324 443\r\n',
    ' PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n',
    'GET / HTTP/1.1\r\n',
    'P\n',
    `PROXY UNKNOWN ${'x'.repeat(92)}\r\n`,
    `PROXY ${'x'.repeat(200)}`,
  ])('%j is malformed', (text) => {
    expect(readProxyHeader(Buffer.from(text, 'latin1'))).toMatchObject({ kind: 'malformed' });
  });

  it('may have 107 bytes', () => {
    const longest = `PROXY UNKNOWN ${'x'.repeat(91)}\r\n`;
    expect(longest).toHaveLength(107);
    expect(readProxyHeader(Buffer.from(longest))).toEqual({ kind: 'header', peer: undefined, sizeBytes: 107 });
  });
});

describe('a header of version 2', () => {
  it.each<[what: string, header: Buffer, peer: { address: string; port: number } | undefined]>([
    ['TCP over IPv4', v2(0x21, 0x11, v4Block), client],
    ['UDP over IPv4', v2(0x21, 0x12, v4Block), client],
    ['TCP over IPv6', v2(0x21, 0x21, v6Block), client6],
    ['IPv4 written as IPv6', v2(0x21, 0x21, mappedBlock), { address: '192.0.2.1', port: 1 }],
    ['a Unix socket', v2(0x21, 0x31, Buffer.alloc(216, 'a')), { address: '', port: 0 }],
    ['an unknown family', v2(0x21, 0x00, []), undefined],
    ['an unknown family, with data', v2(0x21, 0x00, [1, 2, 3]), undefined],
    ['IPv4 and additions', v2(0x21, 0x11, [...v4Block, 0x04, 0, 2, 0xff, 0xff]), client],
    ['LOCAL', v2(0x20, 0x00, []), undefined],
    ['LOCAL with addresses', v2(0x20, 0x11, v4Block), undefined],
    ['LOCAL with an unknown family', v2(0x20, 0xff, [9]), undefined],
    [
      'the most additions that are allowed',
      v2(0x21, 0x11, Buffer.concat([Buffer.from(v4Block), Buffer.alloc(16_372)])),
      client,
    ],
  ])('%s', (_what, header, peer) => {
    const bytes = Buffer.concat([header, Buffer.from('GET /')]);
    expect(readProxyHeader(bytes)).toEqual({ kind: 'header', peer, sizeBytes: header.length });
  });

  it.each<[what: string, bytes: Buffer]>([
    ['version 1 in its version field', v2(0x11, 0x11, v4Block)],
    ['version 3', v2(0x31, 0x11, v4Block)],
    ['another command', v2(0x22, 0x11, v4Block)],
    ['another family', v2(0x21, 0x41, v4Block)],
    ['another transport', v2(0x21, 0x13, v4Block)],
    ['IPv4 cut short', v2(0x21, 0x11, v4Block.slice(1))],
    ['IPv6 cut short', v2(0x21, 0x21, v4Block)],
    ['a Unix socket cut short', v2(0x21, 0x31, Buffer.alloc(215))],
    ['too many additions', v2(0x21, 0x11, v4Block, 16_385)],
    ['another signature', Buffer.from('\r\n\r\n\0\r\nQUIT\r', 'latin1')],
  ])('with %s is malformed', (_what, bytes) => {
    expect(readProxyHeader(bytes)).toMatchObject({ kind: 'malformed' });
  });
});

describe('a header that arrives in parts', () => {
  it.each<[what: string, header: Buffer]>([
    ['version 1', Buffer.from('PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n')],
    ['version 2', v2(0x21, 0x21, [...v6Block, 4, 0, 0])],
  ])('is waited for until its last byte: %s', (_what, header) => {
    for (let end = 0; end < header.length; end += 1) {
      expect(readProxyHeader(header.subarray(0, end)), `${end} bytes`).toEqual({ kind: 'more' });
    }
    expect(readProxyHeader(header)).toMatchObject({ kind: 'header', sizeBytes: header.length });
  });

  it('is decided once: a decision about its first bytes holds for all of it', () => {
    const anything = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.uint8Array({ maxLength: 60 }).map((rest) => Buffer.concat([Buffer.from('PROXY '), rest])),
      fc
        .tuple(fc.constantFrom(0x20, 0x21, 0x22, 0x11), fc.nat(0xff), fc.uint8Array({ maxLength: 260 }))
        .map(([command, family, rest]) => v2(command, family, Buffer.from(rest))),
      fc
        .tuple(
          fc.constantFrom('TCP4', 'TCP6', 'UNKNOWN'),
          fc.array(fc.constantFrom('192.0.2.1', '::1', '80', '', ' ', '\r\n')),
        )
        .map(([family, rest]) => Buffer.from(`PROXY ${family} ${rest.join(' ')}\r\n`)),
    );
    fc.assert(
      fc.property(anything, fc.nat(300), (bytes, cut) => {
        const whole = readProxyHeader(Buffer.from(bytes));
        const part = readProxyHeader(Buffer.from(bytes).subarray(0, cut));
        if (part.kind === 'header') expect(whole).toEqual(part);
        if (part.kind === 'malformed') expect(whole.kind).toBe('malformed');
        if (whole.kind === 'header') expect(whole.sizeBytes).toBeLessThanOrEqual(bytes.length);
      }),
    );
  });

  it('has every address as its proxy wrote it', () => {
    const port = fc.nat(65_535);
    fc.assert(
      fc.property(fc.ipV4(), port, (address, number) => {
        const line = `PROXY TCP4 ${address} 192.0.2.1 ${number} 80\r\n`;
        expect(readProxyHeader(Buffer.from(line))).toMatchObject({ peer: { address, port: number } });
        const block = Buffer.concat([Buffer.from(address.split('.').map(Number)), Buffer.alloc(8)]);
        block.writeUInt16BE(number, 8);
        expect(readProxyHeader(v2(0x21, 0x11, block))).toMatchObject({ peer: { address, port: number } });
      }),
    );
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), port, (bytes, number) => {
        const block = Buffer.concat([bytes, Buffer.alloc(20)]);
        block.writeUInt16BE(number, 32);
        const text = Array.from({ length: 8 }, (_, at) => block.readUInt16BE(2 * at).toString(16)).join(':');
        const { address } = new SocketAddress({ address: text, family: 'ipv6' });
        expect(readProxyHeader(v2(0x21, 0x21, block))).toMatchObject({
          peer: { address: address.replace(/^::ffff:(?=\d+\.)/, ''), port: number },
        });
      }),
    );
  });
});
