import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import type { Representation } from '../../src/cache/answer.ts';
import { type BodyPart, bodyOfParts } from '../../src/delivery/pieces.ts';
import { type BodyStream, Chunks } from '../../src/http/message.ts';

const content = Buffer.from('0123456789', 'latin1');

/** A representation of ten bytes, of which the first `sizeBytes` are in memory. */
function withInMemory(sizeBytes: number): Pick<Representation, 'peek' | 'open'> {
  return {
    peek: (offset, end) => (offset < sizeBytes ? content.subarray(offset, Math.min(end, sizeBytes)) : undefined),
    open: async (_spans, signal) => {
      signal.throwIfAborted();
      return { peek: (offset, end) => content.subarray(offset, end), read: async () => undefined, close: () => {} };
    },
  };
}

/** A request that counts the reads of its signal. A real request makes its signal at the first read. */
function requestWithSignal(): { readonly asked: () => number; readonly request: { readonly signal: AbortSignal } } {
  let asked = 0;
  const { signal } = new AbortController();
  return {
    asked: () => asked,
    request: {
      get signal() {
        asked += 1;
        return signal;
      },
    },
  };
}

describe('bodyOfPieces', () => {
  it.each<[name: string, inMemoryBytes: number, piece: BodyPart, kind: string, asked: number]>([
    ['a span in memory', 10, { kind: 'span', span: { start: 2, end: 5 } }, 'bytes', 0],
    ['a text', 0, { kind: 'text', bytes: content }, 'bytes', 0],
    ['a span that is in memory in part', 3, { kind: 'span', span: { start: 2, end: 5 } }, 'stream', 1],
  ])('reads the signal of the request only where it waits: %s', async (_name, inMemoryBytes, piece, kind, count) => {
    const { asked, request } = requestWithSignal();
    const body = bodyOfParts(withInMemory(inMemoryBytes) as Representation, [piece], request);
    expect({ isAtOnce: !(body instanceof Promise), asked: asked() }).toEqual({ isAtOnce: count === 0, asked: count });
    expect((await body).kind).toBe(kind);
  });
});

describe('the body of an opened representation', () => {
  /** A representation of which some bytes are in memory, in chunks of up to three bytes. Counts waits and closings. */
  function withGaps(isInMemory: readonly boolean[]) {
    const counts = { waits: 0, closes: 0 };
    const slice = (offset: number, end: number) => content.subarray(offset, Math.min(end, offset + 3, content.length));
    const representation: Pick<Representation, 'peek' | 'open'> = {
      peek: () => undefined,
      open: async () => ({
        peek: (offset, end) =>
          isInMemory[offset] === true && offset < content.length ? slice(offset, end) : undefined,
        read: async (offset, end) => {
          counts.waits += 1;
          return offset < content.length ? slice(offset, end) : undefined;
        },
        close: () => {
          counts.closes += 1;
        },
      }),
    };
    return { counts, representation: representation as Representation };
  }

  const request = { signal: new AbortController().signal };
  const spans = fc.tuple(fc.nat(9), fc.nat(9)).map(([a, b]): BodyPart => {
    return { kind: 'span', span: { start: Math.min(a, b), end: Math.max(a, b) + 1 } };
  });
  const pieces = fc.array(fc.oneof(spans, fc.constant<BodyPart>({ kind: 'text', bytes: Buffer.from('--') })), {
    minLength: 1,
    maxLength: 5,
  });

  it('has the same bytes whether chunks are taken or awaited, and is closed at its end', async () => {
    await fc.assert(
      fc.asyncProperty(pieces, fc.array(fc.boolean(), { minLength: 10 }), fc.boolean(), async (all, there, takes) => {
        const { counts, representation } = withGaps(there);
        const body = await bodyOfParts(
          representation,
          [...all, { kind: 'span', span: { start: 9, end: 10 } }],
          request,
        );
        if (body.kind !== 'stream') throw new Error('nothing of it is in memory at first');
        const chunks = takes ? new Chunks(body.stream) : undefined;
        const iterator = body.stream[Symbol.asyncIterator]();
        const got: Uint8Array[] = [];
        for (;;) {
          const chunk = await (chunks?.next() ?? iterator.next().then(({ value }) => value as Uint8Array | undefined));
          if (chunk === undefined) break;
          got.push(chunk);
        }
        const expected = all.map((piece) =>
          piece.kind === 'text' ? piece.bytes : content.subarray(piece.span.start, piece.span.end),
        );
        expect(Buffer.concat(got).toString()).toBe(Buffer.concat([...expected, content.subarray(9)]).toString());
        expect(counts.closes).toBeGreaterThan(0);
        if (there.every(Boolean)) expect(counts.waits).toBe(0);
      }),
    );
  });

  it('ends where a representation of unknown length does, and breaks off where one of known length ends too soon', async () => {
    const read = async (end: number) => {
      const { representation } = withGaps([]);
      const body = await bodyOfParts(representation, [{ kind: 'span', span: { start: 2, end } }], request);
      if (body.kind !== 'stream') throw new Error('nothing of it is in memory');
      const got: Uint8Array[] = [];
      for await (const chunk of body.stream) got.push(chunk);
      return Buffer.concat(got).toString();
    };
    expect(await read(Number.POSITIVE_INFINITY)).toBe('23456789');
    await expect(read(20)).rejects.toMatchObject({ code: 'bytes_gone' });
  });
});

describe('a body whose bytes are moved', () => {
  const head = Buffer.from('head', 'latin1');
  const span = (start: number, end: number): BodyPart => ({ kind: 'span', span: { start, end } });
  const text = (value: string): BodyPart => ({ kind: 'text', bytes: Buffer.from(value, 'latin1') });

  let isInMemory = false;
  afterEach(() => {
    isInMemory = false;
  });

  /** A representation of which each move takes as many bytes as the next of `rooms`, head included. Without, it cannot be moved. */
  function withRooms(rooms: readonly number[] | undefined) {
    const output: Buffer[] = [];
    const left = [...(rooms ?? [])];
    const asked: (readonly [offset: number, end: number])[] = [];
    const move = (_socket: number, before: Uint8Array, offset: number, end: number) => {
      asked.push([offset, end]);
      const taken = Buffer.concat([before, content.subarray(offset, end)]).subarray(0, left.shift() ?? 0);
      output.push(taken);
      return taken.length;
    };
    const slice = (offset: number, end: number) => content.subarray(offset, Math.min(end, content.length));
    const read = async (offset: number, end: number) => (offset < content.length ? slice(offset, end) : undefined);
    const peek = (offset: number, end: number) => (isInMemory ? slice(offset, end) : undefined);
    const reader = { peek, read, close: () => {}, ...(rooms !== undefined && { move }) };
    const representation = { peek: () => undefined, open: async () => reader } as unknown as Representation;
    return { output, asked, representation };
  }

  async function open(representation: Representation, pieces: readonly BodyPart[]) {
    const body = await bodyOfParts(representation, pieces, { signal: new AbortController().signal });
    if (body.kind !== 'stream') throw new Error('nothing is to be waited for');
    return body.stream;
  }

  /** Moves what can be moved, and reads the rest. */
  async function drain(stream: BodyStream, output: Buffer[], first: Uint8Array): Promise<string> {
    let before = first;
    const iterator = stream[Symbol.asyncIterator]();
    for (;;) {
      const taken = stream.moveTo?.(1, before) ?? 0;
      before = before.subarray(taken);
      if (taken > 0) continue;
      output.push(Buffer.from(before));
      before = before.subarray(before.length);
      const { done, value } = await iterator.next();
      if (done === true) return Buffer.concat(output).toString('latin1');
      output.push(Buffer.from(value));
    }
  }

  it.each<[name: string, pieces: readonly BodyPart[], rooms: readonly number[] | undefined, bytes: string]>([
    ['a span', [span(2, 7)], [100], 'head23456'],
    ['a span, with as little as a byte at a time', [span(2, 7)], Array(20).fill(1), 'head23456'],
    ['a span, of which no more than the head is taken', [span(2, 7)], [4], 'head23456'],
    ['a span, of which a part is taken', [span(2, 7)], [6], 'head23456'],
    ['spans one after the other', [span(2, 4), span(0, 1), span(5, 10)], [100, 100, 100], 'head23056789'],
    ['texts and spans', [text('-'), span(2, 4), text('--'), span(0, 3), text('.')], [3, 100, 2], 'head-23--012.'],
    ['texts and spans, of which nothing is taken', [text('-'), span(2, 4), text('.')], [], 'head-23.'],
    ['texts and spans that cannot be moved', [text('-'), span(2, 4), text('.')], undefined, 'head-23.'],
    ['a span without an end', [span(8, Number.POSITIVE_INFINITY)], [5], 'head89'],
  ])('is complete: %s', async (_name, pieces, rooms, bytes) => {
    const { output, representation } = withRooms(rooms);
    expect(await drain(await open(representation, pieces), output, head)).toBe(bytes);
  });

  it('reads no more than is wanted between two moves, where that is in memory, and goes on behind it', async () => {
    const { output, representation } = withRooms([2, 100]);
    const stream = await open(representation, [span(1, 9), text('-')]);
    const none = new Uint8Array();
    expect(stream.moveTo?.(1, none)).toBe(2);
    expect(stream.take?.(3)).toBe('later');
    isInMemory = true;
    expect(Buffer.from(stream.take?.(3) as Uint8Array).toString('latin1')).toBe('345');
    expect(stream.moveTo?.(1, none)).toBe(3);
    expect(Buffer.concat(output).toString('latin1')).toBe('12678');
    expect(Buffer.from(stream.take?.(0) as Uint8Array).toString('latin1')).toBe('-');
  });

  it('moves no more than the rest of the span, and nothing before a text or at the end', async () => {
    const { asked, representation } = withRooms([100, 3, 0, 100]);
    const stream = await open(representation, [span(2, 4), span(5, 9), text('-')]);
    const none = new Uint8Array();
    expect([1, 2, 3, 4].map(() => stream.moveTo?.(1, none))).toEqual([2, 3, 0, 1]);
    expect(asked).toEqual([
      [2, 4],
      [5, 9],
      [8, 9],
      [8, 9],
    ]);
    expect(stream.moveTo?.(1, none)).toBe(0);
    expect(stream.take?.()).toHaveLength(1);
    expect([stream.moveTo?.(1, none), stream.take?.(), stream.moveTo?.(1, none)]).toEqual([0, 'end', 0]);
    expect(asked).toHaveLength(4);
  });
});
