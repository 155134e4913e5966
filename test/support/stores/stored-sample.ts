/** Writes sample entries to a store, and reads them back. */

import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { StoredResponse } from '../../../src/http/stored-response.ts';
import type { BlockSource, EntryWriter, Store, StoredEntry } from '../../../src/store/store.ts';
import { patternBytes } from '../values/pattern-body.ts';

/** A generation: its key and variant, its length, and the seed of its bytes. */
export interface Sample {
  readonly key: string;
  readonly variant?: string;
  readonly sizeBytes: number;
  readonly seed?: number;
}

/** Returns metadata with a mark in its ETag. */
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

/** Returns sample metadata with tags. */
export function taggedMetadata(mark: number | string, tags: readonly string[]): StoredResponse {
  return { ...sampleMetadata(mark), tags };
}

/** Opens a writer for a sample, with a known or unknown length. */
export function openSampleWriter(store: Store, sample: Sample, length: 'known' | 'unknown' = 'known') {
  const { key, variant = '', sizeBytes, seed = 0 } = sample;
  return store.openWriter({
    key,
    variant,
    metadata: sampleMetadata(seed),
    sizeBytes: length === 'known' ? sizeBytes : undefined,
  });
}

/** Returns one block of a sample. */
export function blockOf({ sizeBytes, seed = 0 }: Sample, blockSizeBytes: number, index: number): Uint8Array {
  const start = index * blockSizeBytes;
  return patternBytes(start, Math.min(start + blockSizeBytes, sizeBytes), seed);
}

/** Writes some blocks of a sample, in this order. */
export async function writeBlocks(
  writer: EntryWriter,
  blockSizeBytes: number,
  sample: Sample,
  indexes: Iterable<number>,
): Promise<void> {
  for (const index of indexes) await writer.writeBlock(index, blockOf(sample, blockSizeBytes, index));
}

/** Writes all blocks of a sample, in order. */
export function writeSample(writer: EntryWriter, blockSizeBytes: number, sample: Sample): Promise<void> {
  const count = Math.ceil(sample.sizeBytes / blockSizeBytes);
  return writeBlocks(writer, blockSizeBytes, sample, Array(count).keys());
}

/** Stores a sample: opens, writes, commits, disposes. */
export async function storeSample(store: Store, sample: Sample, length?: 'known' | 'unknown'): Promise<StoredEntry> {
  await using writer = await openSampleWriter(store, sample, length);
  await writeSample(writer, store.blockSizeBytes, sample);
  return await writer.commit({ metadata: sampleMetadata(sample.seed ?? 0), sizeBytes: sample.sizeBytes });
}

/** Stores a sample with these tags. */
export async function storeTagged(
  store: Store,
  sample: Sample,
  tags: readonly string[],
  pinPreviousUntil?: number,
): Promise<StoredEntry> {
  await using writer = await openSampleWriter(store, sample);
  await writeSample(writer, store.blockSizeBytes, sample);
  const { sizeBytes, seed = 0 } = sample;
  return await writer.commit({ metadata: taggedMetadata(seed, tags), sizeBytes, pinPreviousUntil });
}

/** Stores a part of a sample: opens, writes some blocks, publishes, disposes. */
export async function storePart(store: Store, sample: Sample, indexes: Iterable<number>): Promise<StoredEntry> {
  await using writer = await openSampleWriter(store, sample);
  await writeBlocks(writer, store.blockSizeBytes, sample, indexes);
  await writer.publish(sampleMetadata(sample.seed ?? 0));
  const found = (await store.find(sample.key)).find((entry) => entry.generation === writer.generation);
  if (found === undefined) throw new Error(`${sample.key} was published and is not found`);
  return found;
}

/** Returns whether the first entry of a key can be opened. Opening counts as a use. */
export async function canOpen(store: Store, key: string): Promise<boolean> {
  const entry = await findFirst(store, key);
  try {
    const reader = await entry?.open();
    reader?.close();
    return reader !== undefined;
  } catch (error) {
    if (error instanceof ProxyError && error.code === 'bytes_gone') return false;
    throw error;
  }
}

/** Stores and uses 60 other entries (`name` and a number), so that unused entries are evicted. */
export async function pushOut(store: Store, sizeBytes: number, name = 'other'): Promise<void> {
  for (let at = 0; at < 60; at += 1) {
    await storeSample(store, { key: `${name}${at}`, sizeBytes, seed: at });
    await canOpen(store, `${name}${at}`);
  }
}

/** Reads all bytes of a source, block by block. */
export async function readAll(source: BlockSource, sizeBytes: number, blockSizeBytes: number): Promise<Buffer> {
  const blocks: Uint8Array[] = [];
  for (let index = 0; index * blockSizeBytes < sizeBytes; index += 1) blocks.push(await source.readBlock(index));
  return Buffer.concat(blocks);
}

/** Returns the first entry of a key, or undefined. */
export async function findFirst(store: Store, key: string): Promise<StoredEntry | undefined> {
  return (await store.find(key))[0];
}

/** Reads all bytes of an entry. Returns undefined when they are gone. */
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

/** Reads all bytes of the first entry of a key. Returns undefined when there is none or its bytes are gone. */
export async function readKey(store: Store, key: string): Promise<Buffer | undefined> {
  const entry = await findFirst(store, key);
  return entry === undefined ? undefined : await readEntry(store, entry);
}
