import { describe, expect, it } from 'vitest';
import { readPreface } from '../../src/listener/accept/open-listener.ts';

const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

describe('readPreface', () => {
  it.each<[bytes: string, protocol: 'http1' | 'http2' | undefined]>([
    [preface, 'http2'],
    [`${preface}\0\0\0\x04`, 'http2'],
    ['P', undefined],
    ['PR', undefined],
    ['PRI * HTTP/2.0\r', undefined],
    // Its first line is that of no other protocol: what follows is a broken preface, or the rest of it.
    [preface.slice(0, -1), 'http2'],
    ['PU', 'http1'],
    ['PROPFIND / HTTP/1.1\r\n', 'http1'],
    ['PRI * HTTP/1.1\r\n', 'http1'],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r', 'http2'],
    ['pri', 'http1'],
    ['GET / HTTP/1.1\r\n', 'http1'],
    ['\r\nGET / HTTP/1.1\r\n', 'http1'],
    ['\x16\x03\x01', 'http1'],
  ])('%j', (text, protocol) => {
    const want = protocol === undefined ? { kind: 'more' } : { kind: 'decided', value: protocol, usedBytes: 0 };
    expect(readPreface(Buffer.from(text, 'latin1'))).toEqual(want);
  });
});
