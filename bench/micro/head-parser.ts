/** Parsing the heads and bodies of HTTP/1.1 requests. */

import { HeadParser } from '../../src/listener/http1/head-parser.ts';
import { ChunkedDecoder } from '../../src/listener/http1/request-body.ts';
import { isAuthority, readRequestFraming, readTarget, receiveHead } from '../../src/listener/receive.ts';
import type { MicroCase } from '../micro-case.ts';
import { now, requestFields } from '../micro-sample.ts';

const limits = { targetBytes: 8192, fieldsBytes: 32_768, maxFieldCount: 256 };
const context = { scheme: 'http', peer: { address: '192.0.2.1', port: 56_324 }, receivedAt: now, limits } as const;

const target = '/media/2026/a-film-of-some-length.mp4';
const lines = requestFields.map(([name, value]) => `${name}: ${value}\r\n`);
const head = (fields: readonly string[]) => Buffer.from(`GET ${target} HTTP/1.1\r\n${fields.join('')}\r\n`, 'latin1');
const small = head(['Host: media.example.org\r\n']);
const usual = head(lines);
const large = head([...lines, ...Array.from({ length: 10 }, (_, at) => `X-Trace-Number-${at}: 0123456789abcdef\r\n`)]);
const place = Math.floor(usual.length / 2);

const parser = new HeadParser(limits);

function parse(...pieces: readonly Buffer[]): ReturnType<HeadParser['read']> {
  parser.reset();
  let reading: ReturnType<HeadParser['read']> = { kind: 'more' };
  for (const piece of pieces) reading = parser.read(piece);
  return reading;
}

function parseAndReceive(bytes: Buffer): unknown {
  const reading = parse(bytes);
  return reading.kind === 'head' ? receiveHead(reading.head, context) : reading;
}

const chunks = Buffer.from(`${`4000\r\n${'x'.repeat(0x4000)}\r\n`.repeat(3)}0\r\n\r\n`, 'latin1');

export const cases: readonly MicroCase[] = [
  { name: `a head of 1 field, ${small.length} bytes`, call: () => parse(small) },
  { name: `a head of ${lines.length} fields, ${usual.length} bytes`, call: () => parse(usual) },
  { name: `a head of ${lines.length + 10} fields, ${large.length} bytes`, call: () => parse(large) },
  { name: `a head of ${lines.length} fields in two pieces`, call: () => parse(usual.subarray(0, place), usual) },
  { name: `a head of ${lines.length} fields, and what it means`, call: () => parseAndReceive(usual) },
  { name: 'readTarget', call: () => readTarget('GET', target, 'http') },
  { name: 'isAuthority', call: () => isAuthority('media.example.org') },
  { name: 'isAuthority, with a port', call: () => isAuthority('127.0.0.1:8080') },
  { name: 'readRequestFraming', call: () => readRequestFraming('1.1', requestFields) },
  { name: 'a body in three chunks of 16 KiB', call: () => new ChunkedDecoder(limits).read(chunks) },
];
