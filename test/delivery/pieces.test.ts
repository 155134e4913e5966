import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Representation } from '../../src/cache/representation.ts';
import { bodyOfPieces, type Piece } from '../../src/delivery/pieces.ts';
import { Chunks } from '../../src/http/chunks.ts';

const content = Buffer.from('0123456789', 'latin1');

/** A representation of ten bytes, the first ones of them in memory. */
function withInMemory(sizeBytes: number): Pick<Representation, 'peek' | 'open'> {
  return {
    peek: (offset, end) => (offset < sizeBytes ? content.subarray(offset, Math.min(end, sizeBytes)) : undefined),
    open: async (_spans, signal) => {
      signal.throwIfAborted();
      return { peek: (offset, end) => content.subarray(offset, end), read: async () => undefined, close: () => {} };
    },
  };
}

/** A request that counts how often its signal is asked for, which makes one each time that a request is the first to. */
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
  it.each<[name: string, inMemoryBytes: number, piece: Piece, kind: string, asked: number]>([
    ['a span in memory', 10, { kind: 'span', span: { start: 2, end: 5 } }, 'bytes', 0],
    ['a text', 0, { kind: 'text', bytes: content }, 'bytes', 0],
    ['a span that is in memory in part', 3, { kind: 'span', span: { start: 2, end: 5 } }, 'stream', 1],
  ])('asks for the signal of the request only to wait: %s', async (_name, inMemoryBytes, piece, kind, count) => {
    const { asked, request } = requestWithSignal();
    const body = bodyOfPieces(withInMemory(inMemoryBytes) as Representation, [piece], request);
    expect({ isAtOnce: !(body instanceof Promise), asked: asked() }).toEqual({ isAtOnce: count === 0, asked: count });
    expect((await body).kind).toBe(kind);
  });
});

describe('the body of an opened representation', () => {
  /** Bytes of which some are in memory, in chunks of up to three; counts what is waited for, and what is closed. */
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
  const spans = fc.tuple(fc.nat(9), fc.nat(9)).map(([a, b]): Piece => {
    return { kind: 'span', span: { start: Math.min(a, b), end: Math.max(a, b) + 1 } };
  });
  const pieces = fc.array(fc.oneof(spans, fc.constant<Piece>({ kind: 'text', bytes: Buffer.from('--') })), {
    minLength: 1,
    maxLength: 5,
  });

  it('is the same, taken as far as it is there or only waited for; it is closed at its end', async () => {
    await fc.assert(
      fc.asyncProperty(pieces, fc.array(fc.boolean(), { minLength: 10 }), fc.boolean(), async (all, there, takes) => {
        const { counts, representation } = withGaps(there);
        const body = await bodyOfPieces(
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
      const body = await bodyOfPieces(representation, [{ kind: 'span', span: { start: 2, end } }], request);
      if (body.kind !== 'stream') throw new Error('nothing of it is in memory');
      const got: Uint8Array[] = [];
      for await (const chunk of body.stream) got.push(chunk);
      return Buffer.concat(got).toString();
    };
    expect(await read(Number.POSITIVE_INFINITY)).toBe('23456789');
    await expect(read(20)).rejects.toMatchObject({ code: 'bytes_gone' });
  });
});
