import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Span } from '../../src/bytes/span.ts';
import {
  type ByterangesFraming,
  createBoundary,
  frameByteranges,
  parseContentRange,
} from '../../src/semantics/range.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const boundary = '00112233445566778899aabbccddeeff';

/** Returns the body as it is sent: the head and the bytes of each part, and the tail. */
function bodyOf(framing: ByterangesFraming, spans: readonly Span[], content: Uint8Array): Buffer {
  const parts = spans.flatMap(({ start, end }, index) => [
    framing.heads[index] ?? new Uint8Array(),
    content.subarray(start, end),
  ]);
  return Buffer.concat([...parts, framing.tail]);
}

describe('frameByteranges, RFC 9110 §14.6, RFC 2046 §5.1', () => {
  const content = Buffer.from('0123456789');

  it('frames two parts', () => {
    const spans = [
      { start: 0, end: 2 },
      { start: 7, end: 10 },
    ];
    const framing = frameByteranges(spans, { sizeBytes: 10, contentType: 'text/plain' }, boundary);
    const body = bodyOf(framing, spans, content);
    expect(body.toString('latin1')).toBe(
      [
        '',
        `--${boundary}`,
        'Content-Type: text/plain',
        'Content-Range: bytes 0-1/10',
        '',
        '01',
        `--${boundary}`,
        'Content-Type: text/plain',
        'Content-Range: bytes 7-9/10',
        '',
        '789',
        `--${boundary}--`,
        '',
      ].join('\r\n'),
    );
    expect(framing.contentType).toBe(`multipart/byteranges; boundary=${boundary}`);
    expect(framing.sizeBytes).toBe(body.length);
  });

  it('frames one part, without Content-Type where the response has none', () => {
    const spans = [{ start: 9, end: 10 }];
    const framing = frameByteranges(spans, { sizeBytes: 10, contentType: undefined }, boundary);
    const body = bodyOf(framing, spans, content);
    expect(body.toString('latin1')).toBe(
      ['', `--${boundary}`, 'Content-Range: bytes 9-9/10', '', '9', `--${boundary}--`, ''].join('\r\n'),
    );
    expect(framing.sizeBytes).toBe(body.length);
  });

  it('keeps the order of the spans', () => {
    const spans = [
      { start: 8, end: 9 },
      { start: 0, end: 1 },
    ];
    const framing = frameByteranges(spans, { sizeBytes: 10, contentType: undefined }, boundary);
    const ranges = framing.heads.map((head) => /Content-Range: (.*)\r\n/.exec(Buffer.from(head).toString())?.[1]);
    expect(ranges).toEqual(['bytes 8-8/10', 'bytes 0-0/10']);
  });

  it('writes one octet for each character of the Content-Type', () => {
    const spans = [{ start: 0, end: 1 }];
    const framing = frameByteranges(spans, { sizeBytes: 10, contentType: 'text/plain; name="é"' }, boundary);
    expect(Buffer.from(framing.heads[0] ?? []).includes(Buffer.from('name="\u00e9"', 'latin1'))).toBe(true);
    expect(framing.sizeBytes).toBe(bodyOf(framing, spans, content).length);
  });

  it('replaces characters above U+00FF, so that none becomes a line end', () => {
    const spans = [{ start: 0, end: 1 }];
    const framing = frameByteranges(spans, { sizeBytes: 10, contentType: 'text/plain\u010d\u010aX-Evil: 1' }, boundary);
    expect(Buffer.from(framing.heads[0] ?? []).toString('latin1')).toContain('Content-Type: text/plain??X-Evil: 1\r\n');
  });

  it('lets a client read every part by its Content-Range, and has the stated length', () => {
    const spanList = fc.array(
      fc.tuple(fc.nat(299), fc.nat(299)).map(([a, b]) => ({ start: Math.min(a, b), end: Math.max(a, b) + 1 })),
      { minLength: 1, maxLength: 6 },
    );
    fc.assert(
      fc.property(spanList, fc.option(fc.constant('video/mp4'), { nil: undefined }), (spans, contentType) => {
        const sizeBytes = 300;
        const bytes = patternBytes(0, sizeBytes);
        const framing = frameByteranges(spans, { sizeBytes, contentType }, boundary);
        const body = bodyOf(framing, spans, bytes);
        expect(body.length).toBe(framing.sizeBytes);
        expect(readParts(body)).toEqual(spans.map((span) => ({ span, contentType })));
      }),
    );

    /** Takes the length of each part from its Content-Range, and does not search for the boundary. */
    function readParts(body: Buffer): { span: Span | undefined; contentType: string | undefined }[] {
      const parts = [];
      let position = 0;
      while (body.toString('latin1', position) !== `\r\n--${boundary}--\r\n`) {
        const headEnd = body.indexOf('\r\n\r\n', position) + 4;
        const [delimiter, ...lines] = body.toString('latin1', position, headEnd).trim().split('\r\n');
        expect(delimiter).toBe(`--${boundary}`);
        const fields = new Map(lines.map((line) => line.split(': ') as [string, string]));
        const span = parseContentRange(fields.get('Content-Range') ?? '')?.span ?? { start: 0, end: 0 };
        position = headEnd + span.end - span.start;
        expect(body.subarray(headEnd, position)).toEqual(Buffer.from(patternBytes(span.start, span.end)));
        parts.push({ span, contentType: fields.get('Content-Type') });
      }
      return parts;
    }
  });
});

describe('createBoundary', () => {
  it('writes 128 random bits', () => {
    const requestedSizes: number[] = [];
    const random = (size: number): Uint8Array => {
      requestedSizes.push(size);
      return Uint8Array.from({ length: size }, (_, index) => index * 0x11);
    };
    expect(createBoundary(random)).toBe(boundary);
    expect(requestedSizes).toEqual([16]);
  });

  it('needs no quotes and is short enough, RFC 2046 §5.1.1', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        expect(createBoundary(() => bytes)).toMatch(/^[0-9a-f]{32}$/);
      }),
    );
  });
});
