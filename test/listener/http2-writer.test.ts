/** The pieces in which content is written to an HTTP/2 stream. */

import type { ServerHttp2Stream } from 'node:http2';
import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { type Http2Windows, Http2Writer, PieceSizer } from '../../src/listener/http2/response-writer.ts';

const kibibyte = 1024;

/** A stream that takes its writes only when the test says so. */
class HeldStream extends Writable {
  /** Sizes of the writes that were taken, and of the one that waits, in bytes. */
  readonly sizes: number[] = [];
  #take: (() => void) | undefined;

  override _write(chunk: Uint8Array, _encoding: string, taken: () => void): void {
    this.sizes.push(chunk.length);
    this.#take = taken;
  }

  override _writev(chunks: { chunk: Uint8Array }[], taken: () => void): void {
    this.sizes.push(chunks.reduce((sum, { chunk }) => sum + chunk.length, 0));
    this.#take = taken;
  }

  async takeAll(): Promise<void> {
    do {
      const take = this.#take;
      this.#take = undefined;
      take?.();
      await new Promise((resolve) => setImmediate(resolve));
    } while (this.#take !== undefined);
  }
}

function setUp(stride = new PieceSizer(), windows: Http2Windows = { stream: 65_535, connection: 1024 * kibibyte }) {
  const stream = new HeldStream();
  const clock = { now: 0 };
  return {
    stream,
    stride,
    clock,
    writer: new Http2Writer(stream as unknown as ServerHttp2Stream, { windows }, stride, () => clock.now),
  };
}

describe('content', () => {
  it.each<[string, readonly number[], readonly number[]]>([
    ['none', [], []],
    ['in one stride', [16 * kibibyte], [16 * kibibyte]],
    ['in chunks, in one stride', [1, 2, 3], [6]],
    ['of more than a stride', [16 * kibibyte + 1], [16 * kibibyte, 1]],
    ['of many strides, taken fast', [200 * kibibyte], [16, 16, 32, 32, 64, 40].map((size) => size * kibibyte)],
  ])('is written as fast as it is taken: %s', async (_name, chunks, sizes) => {
    const { stream, writer } = setUp();
    writer.end(chunks.map((size) => Buffer.alloc(size)));
    await stream.takeAll();
    expect(stream.sizes).toEqual(sizes);
    expect([stream.writableFinished, writer.isBehind, writer.isEmpty]).toEqual([true, false, true]);
  });

  it('that was taken late makes the writes of later streams smaller', async () => {
    const { stream, stride, clock, writer } = setUp();
    writer.end([Buffer.alloc(10 * kibibyte)]);
    expect(writer.isBehind).toBe(true);
    clock.now = 1_001;
    await stream.takeAll();
    writer.noteWhole(clock.now);
    expect(stride.bytes).toBe(4 * kibibyte);
    const later = setUp(stride);
    later.writer.end([Buffer.alloc(10 * kibibyte)]);
    await later.stream.takeAll();
    expect(later.stream.sizes[0]).toBe(4 * kibibyte);
  });

  it.each<[string, Http2Windows]>([
    ['of the stream', { stream: 3, connection: 10 }],
    ['of the connection', { stream: 10, connection: 3 }],
  ])('that fills the window %s waits for more content, the end, or a flush', async (_name, windows) => {
    for (const follow of ['more', 'end', 'nothing'] as const) {
      const { stream, writer } = setUp(undefined, windows);
      expect(writer.write(Buffer.alloc(3))).toBe(true);
      expect(stream.sizes).toEqual([]);
      if (follow === 'more') writer.write(Buffer.alloc(1));
      if (follow === 'end') writer.end([]);
      if (follow === 'nothing') writer.flush();
      await new Promise((resolve) => setImmediate(resolve));
      expect([stream.sizes, stream.writableEnded]).toEqual([[3], follow === 'end']);
      await stream.takeAll();
      expect(stream.sizes).toEqual(follow === 'more' ? [3, 1] : [3]);
      expect(writer.isBehind).toBe(false);
    }
  });
});
