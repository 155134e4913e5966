import { describe, expect, it } from 'vitest';
import type { Representation } from '../../src/cache/representation.ts';
import { bodyOfPieces, type Piece } from '../../src/delivery/pieces.ts';

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
