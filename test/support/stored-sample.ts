/** Entries of a store, written and read back by tests. */

import { ProxyError } from '../../src/http/proxy-error.ts';
import type { StoredResponse } from '../../src/http/stored-response.ts';
import type { BlockSource, EntryWriter, Store, StoredEntry } from '../../src/store/store.ts';
import { patternBytes } from './pattern-body.ts';

/** What one generation is made of: its place, its length, and the seed that tells its bytes. */
export interface Sample {
  readonly key: string;
  readonly variant?: string;
  readonly sizeBytes: number;
  readonly seed?: number;
}

/** Metadata that can be told from others by its mark. */
export function sampleMetadata(mark: number | string = 0): StoredResponse {
  return {
    status: 200,
    fields: [
      ['etag', `"${mark}"`],
      ['content-type', 'application/octet-stream'],
    ],
    nominated: [['accept-encoding', null]],
    requestAt: 1_000,
    responseAt: 2_000,
  };
}

/** Opens a writer for a sample, which tells its length beforehand or not. */
export function openSampleWriter(store: Store, sample: Sample, length: 'known' | 'unknown' = 'known') {
  const { key, variant = '', sizeBytes, seed = 0 } = sample;
  return store.openWriter({
    key,
    variant,
    metadata: sampleMetadata(seed),
    sizeBytes: length === 'known' ? sizeBytes : undefined,
  });
}

/** Writes all blocks of a sample, in order. */
export async function writeSample(writer: EntryWriter, blockSizeBytes: number, { sizeBytes, seed = 0 }: Sample) {
  for (let start = 0, index = 0; start < sizeBytes; start += blockSizeBytes, index += 1) {
    await writer.writeBlock(index, patternBytes(start, Math.min(start + blockSizeBytes, sizeBytes), seed));
  }
}

/** Stores a sample: opens, writes, commits, disposes. */
export async function storeSample(store: Store, sample: Sample, length?: 'known' | 'unknown'): Promise<StoredEntry> {
  await using writer = await openSampleWriter(store, sample, length);
  await writeSample(writer, store.blockSizeBytes, sample);
  return await writer.commit({ metadata: sampleMetadata(sample.seed ?? 0), sizeBytes: sample.sizeBytes });
}

/** All bytes of a source, read block by block. */
export async function readAll(source: BlockSource, sizeBytes: number, blockSizeBytes: number): Promise<Buffer> {
  const blocks: Uint8Array[] = [];
  for (let index = 0; index * blockSizeBytes < sizeBytes; index += 1) blocks.push(await source.readBlock(index));
  return Buffer.concat(blocks);
}

/** The first entry of a key, or undefined. */
export async function findFirst(store: Store, key: string): Promise<StoredEntry | undefined> {
  return (await store.find(key))[0];
}

/** All bytes of an entry, or undefined when they are gone. */
export async function readEntry(store: Store, entry: StoredEntry): Promise<Buffer | undefined> {
  try {
    const reader = await entry.open();
    try {
      return await readAll(reader, entry.sizeBytes, store.blockSizeBytes);
    } finally {
      reader.close();
    }
  } catch (error) {
    if (error instanceof ProxyError && error.code === 'bytes_gone') return undefined;
    throw error;
  }
}

/** All bytes of the first entry of a key, or undefined when there is none. */
export async function readKey(store: Store, key: string): Promise<Buffer | undefined> {
  const entry = await findFirst(store, key);
  return entry === undefined ? undefined : await readEntry(store, entry);
}
