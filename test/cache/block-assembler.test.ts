import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockAssembler, type SealedBlock } from '../../src/cache/fill/fill.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const blockSizeBytes = 64;

function assemble(sizeBytes: number | undefined, chunks: readonly Uint8Array[]): readonly SealedBlock[] {
  const assembler = new BlockAssembler(blockSizeBytes, sizeBytes);
  const sealed: SealedBlock[] = [];
  for (const chunk of chunks) {
    for (let taken = 0; taken < chunk.length; ) {
      taken += assembler.append(chunk, taken);
      const block = assembler.seal();
      if (block !== undefined) sealed.push(block);
    }
  }
  const last = assembler.sealLast();
  return last === undefined ? sealed : [...sealed, last];
}

describe('BlockAssembler', () => {
  it.each([0, 1, 63, 64, 65, 127, 128, 129, 1000])('cuts %i bytes into blocks with buffers of their own', (size) => {
    for (const promised of [size, undefined]) {
      const blocks = assemble(promised, [patternBytes(0, size)]);
      expect(Buffer.concat(blocks.map((block) => block.bytes))).toEqual(Buffer.from(patternBytes(0, size)));
      expect(blocks.map((block) => block.index)).toEqual(blocks.map((_, index) => index));
      for (const { bytes } of blocks) expect(bytes.buffer.byteLength).toBe(bytes.length);
      for (const { bytes } of blocks.slice(0, -1)) expect(bytes.length).toBe(blockSizeBytes);
    }
  });

  it('gives the same bytes however they are cut into chunks', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(200), { maxLength: 20 }), fc.boolean(), (sizes, isPromised) => {
        const total = sizes.reduce((sum, size) => sum + size, 0);
        const ends = sizes.map((_, index) => sizes.slice(0, index + 1).reduce((sum, size) => sum + size, 0));
        const chunks = ends.map((end, index) => patternBytes(ends[index - 1] ?? 0, end));
        const blocks = assemble(isPromised ? total : undefined, chunks);
        expect(Buffer.concat(blocks.map((block) => block.bytes))).toEqual(Buffer.from(patternBytes(0, total)));
      }),
    );
  });

  describe('the first chunk of a block', () => {
    const size = 2048;
    const chunkIn = (memoryBytes: number) => new Uint8Array(memoryBytes).subarray(memoryBytes - size);
    const rows: [name: string, chunk: Uint8Array, sizeBytes: number | undefined, isKept: boolean][] = [
      ['is not copied when its buffer holds nothing else', chunkIn(size), size, true],
      ['is not copied when its buffer holds only a small head besides', chunkIn(size + size / 32), size, true],
      ['is copied when its buffer holds more besides', chunkIn(size + size / 32 + 1), size, false],
      ['is copied when the length of the body is unknown', chunkIn(size), undefined, false],
      ['is copied when it is not the whole block', chunkIn(size), size + 1, false],
    ];
    it.each(rows)('%s', (_name, chunk, sizeBytes, isKept) => {
      const assembler = new BlockAssembler(256 * 1024, sizeBytes);
      expect(assembler.append(chunk, 0)).toBe(size);
      expect(assembler.frontier).toBe(size);
      const [bytes, known] = [assembler.blockAt(0), chunk.buffer];
      expect(bytes?.buffer === known).toBe(isKept);
      expect(Buffer.from(bytes ?? [])).toEqual(Buffer.from(chunk));
    });
  });

  it('does not change a slice that it has handed out when more bytes are appended', () => {
    const assembler = new BlockAssembler(256 * 1024, undefined);
    assembler.append(patternBytes(0, 10), 0);
    const slice = assembler.blockAt(0);
    assembler.append(patternBytes(10, 100_000), 0);
    expect(slice).toEqual(Buffer.from(patternBytes(0, 10)));
    expect(assembler.frontier).toBe(100_000);
    expect(assembler.blockAt(1)).toBeUndefined();
  });
});
