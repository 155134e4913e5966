/** Bytes that another process fetches, read from the store as they are stored there, or from that process. */

import { describe, expect, it } from 'vitest';
import type { Span } from '../../src/bytes/span.ts';
import type { ByteReader, Representation } from '../../src/cache/answer.ts';
import { readFromStore } from '../../src/fleet/engine/stored-bytes.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { StoredEntry } from '../../src/store/store.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const blockSizeBytes = 100;
const sizeBytes = 1_000;
const never = new AbortController().signal;
const whole: readonly Span[] = [{ start: 0, end: sizeBytes }];

/** Creates a peer that fetches, and a store that has the first `storedTo` bytes. */
function createGround({ storedTo = 0, isFound = true, tells = (at: number) => at } = {}) {
  const seen = { asked: [] as number[], opened: [] as Span[][], blocks: [] as number[], closed: 0, storeClosed: 0 };
  const state = { storedTo, isBroken: false };
  const clock = createFakeClock();
  const waiting = new Set<() => void>();
  const peer: Representation = {
    response: { status: 200, fields: [], nominated: [], requestAt: 1, responseAt: 2 },
    generation: 'g',
    sizeBytes,
    peek: () => undefined,
    open: async (spans) => {
      seen.opened.push([...spans]);
      return {
        peek: () => undefined,
        read: async (offset, end) => patternBytes(offset, Math.min(end, offset + 70)),
        close: () => {
          seen.closed += 1;
        },
      };
    },
    whenPresent: async () => true,
    whenStored: async (offset, _end, signal) => {
      seen.asked.push(offset);
      while (state.storedTo <= offset) {
        await new Promise<void>((resolve, reject) => {
          waiting.add(resolve);
          signal.addEventListener('abort', () => reject(signal.reason));
        });
      }
      return tells(state.storedTo);
    },
    close: () => {
      seen.closed += 1;
    },
  };
  const entry = {
    generation: 'g',
    open: async () => ({
      peekBlock: () => undefined,
      readBlock: async (index: number) => {
        seen.blocks.push(index);
        if (state.isBroken || index * blockSizeBytes >= state.storedTo) throw new ProxyError('bytes_gone');
        return patternBytes(index * blockSizeBytes, Math.min(sizeBytes, (index + 1) * blockSizeBytes));
      },
      close: () => {
        seen.storeClosed += 1;
      },
    }),
  } as unknown as StoredEntry;
  const store = { blockSizeBytes, find: async () => (isFound ? [entry] : []) };
  const advanceTo = (to: number) => {
    state.storedTo = to;
    for (const wake of waiting) wake();
    waiting.clear();
  };
  return { representation: readFromStore(peer, { store, key: 'k', clock }), seen, state, clock, advanceTo };
}

async function readTo(reader: ByteReader, start: number, end: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for (let offset = start; offset < end; ) {
    const chunk = reader.peek(offset, end) ?? (await reader.read(offset, end));
    if (chunk === undefined) break;
    chunks.push(chunk);
    offset += chunk.length;
  }
  return Buffer.concat(chunks);
}

describe('bytes that are stored', () => {
  it('come from the store, and the peer is asked once for all that it tells', async () => {
    const { representation, seen } = createGround({ storedTo: sizeBytes });
    const reader = await representation.open(whole, never);
    expect((await readTo(reader, 0, sizeBytes)).equals(patternBytes(0, sizeBytes))).toBe(true);
    reader.close();
    representation.close();
    expect(seen).toEqual({ asked: [0], opened: [], blocks: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], closed: 1, storeClosed: 1 });
  });

  it('are waited for block by block while they are being stored', async () => {
    const { representation, seen, advanceTo } = createGround({ storedTo: 100 });
    const reader = await representation.open(whole, never);
    expect((await readTo(reader, 0, 100)).length).toBe(100);
    const reading = reader.read(100, sizeBytes);
    advanceTo(sizeBytes);
    expect(Buffer.from((await reading) ?? []).equals(patternBytes(100, 200))).toBe(true);
    expect((await readTo(reader, 200, sizeBytes)).equals(patternBytes(200, sizeBytes))).toBe(true);
    expect([seen.asked, seen.opened]).toEqual([[0, 100], []]);
    reader.close();
  });

  it('are asked for again where a later span lies before those that are known', async () => {
    const { representation, seen } = createGround({ storedTo: sizeBytes });
    const spans = [
      { start: 555, end: 610 },
      { start: 20, end: 40 },
    ];
    const reader = await representation.open(spans, never);
    expect((await readTo(reader, 555, 610)).equals(patternBytes(555, 610))).toBe(true);
    expect((await readTo(reader, 20, 40)).equals(patternBytes(20, 40))).toBe(true);
    expect([seen.asked, seen.opened]).toEqual([[555, 20], []]);
    reader.close();
  });
});

describe('bytes that are not stored', () => {
  const cases: readonly (readonly [string, Parameters<typeof createGround>[0]])[] = [
    ['because the generation cannot be found', { storedTo: sizeBytes, isFound: false }],
    ['because the peer does not store them', { storedTo: sizeBytes, tells: () => 0 }],
  ];
  it.each(cases)('come from the peer %s', async (_, options) => {
    const { representation, seen } = createGround(options);
    const reader = await representation.open(whole, never);
    expect((await readTo(reader, 0, sizeBytes)).equals(patternBytes(0, sizeBytes))).toBe(true);
    reader.close();
    expect([seen.opened, seen.blocks, seen.closed]).toEqual([[whole], [], 1]);
  });

  it('come from the peer when they are not stored in time, from there on', async () => {
    const { representation, seen, clock } = createGround({ storedTo: 100 });
    const reader = await representation.open(whole, never);
    await readTo(reader, 0, 100);
    const reading = reader.read(100, sizeBytes);
    await clock.whenPending(1);
    clock.advance(250);
    expect(Buffer.from((await reading) ?? []).equals(patternBytes(100, 170))).toBe(true);
    expect((await readTo(reader, 170, sizeBytes)).equals(patternBytes(170, sizeBytes))).toBe(true);
    expect(seen.opened).toEqual([[{ start: 100, end: sizeBytes }]]);
    reader.close();
    expect(clock.pending).toBe(0);
  });

  it('come from the peer when the store has lost them, with the later spans', async () => {
    const { representation, seen, state } = createGround({ storedTo: sizeBytes });
    const later = { start: 700, end: 800 };
    const reader = await representation.open([{ start: 150, end: 350 }, later], never);
    expect((await readTo(reader, 150, 230)).length).toBe(80);
    state.isBroken = true;
    expect((await readTo(reader, 230, 350)).equals(patternBytes(230, 350))).toBe(true);
    expect(seen.opened).toEqual([[{ start: 230, end: 350 }, later]]);
    reader.close();
  });
});

describe('a reader that is closed', () => {
  it('ends a wait, and releases the store and the peer', async () => {
    const { representation, seen } = createGround({ storedTo: 100 });
    const reader = await representation.open(whole, never);
    const reading = reader.read(100, sizeBytes);
    reader.close();
    await expect(reading).rejects.toMatchObject({ code: 'client_gone' });
    expect([seen.closed, seen.storeClosed]).toEqual([1, 1]);
  });
});
