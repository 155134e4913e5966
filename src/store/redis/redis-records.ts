/**
 * What the engine keeps, as bytes: the records of generations, and blocks. Both have checksums: what does not match its checksum, or is
 * in a wrong place, counts as absent.
 */

import { crc32 } from 'node:zlib';
import type { StoredResponse } from '../../http/stored-response.ts';
import { blockSum } from '../disk/bodies/block-sums.ts';
import { shortDigest } from './redis-keys.ts';

/** A generation as its record and header describe it. */
export interface RecordedGeneration {
  readonly generation: string;
  readonly variant: string;
  readonly sizeBytes: number;
  readonly metadata: StoredResponse;
  /** The length of its blocks, in bytes. A store whose blocks have another length cannot read them. */
  readonly blockSizeBytes: number;
  readonly isComplete: boolean;
  readonly pinnedUntil: number | undefined;
}

/** Encodes a record. */
export function encodeRecord(
  key: string,
  { generation, variant, sizeBytes, metadata, blockSizeBytes }: Omit<RecordedGeneration, 'isComplete' | 'pinnedUntil'>,
): string {
  const text = JSON.stringify([variant, sizeBytes, metadata, blockSizeBytes]);
  return `${recordSum(key, generation, text)} ${text}`;
}

function recordSum(key: string, generation: string, text: string): number {
  return crc32(`${key}\n${generation}\n${text}`);
}

/** Returns the digests of tags, as the scripts take them. */
export function encodeTags(tags: readonly string[] = []): string {
  return tags.map(shortDigest).join(' ');
}

/** The generations of an entry, and those of which the record is damaged. */
export interface ReadEntry {
  /** The last put first, those whose pins have ended included. */
  readonly generations: readonly RecordedGeneration[];
  readonly damaged: readonly string[];
}

const noGenerations: ReadEntry = { generations: [], damaged: [] };

/** Reads the reply of HGETALL for the entry of a key. */
export function readEntryHash(key: string, reply: unknown): ReadEntry {
  const list = reply as readonly Buffer[];
  if (list.length === 0) return noGenerations;
  const headers = new Map<string, string>();
  const records = new Map<string, string>();
  for (let at = 0; at + 1 < list.length; at += 2) {
    const field = String(list[at]);
    const value = list[at + 1] as Buffer;
    const name = field.slice(2);
    if (field === 'k' && value.toString() !== key) return noGenerations;
    if (field.startsWith('h:')) headers.set(name, value.toString());
    else if (field.startsWith('r:')) records.set(name, value.toString());
  }
  const found: { readonly seq: number; readonly read: RecordedGeneration }[] = [];
  const damaged: string[] = [];
  for (const [generation, text] of headers) {
    const header = readHeader(text);
    const record = readRecord(key, generation, records.get(generation) ?? '');
    if (header === undefined || record === undefined) damaged.push(generation);
    else {
      const { seq, isComplete, pinnedUntil } = header;
      found.push({ seq, read: { generation, ...record, isComplete, pinnedUntil } });
    }
  }
  found.sort((one, other) => other.seq - one.seq);
  return { generations: found.map(({ read }) => read), damaged };
}

/** The header of a generation. */
interface Header {
  readonly seq: number;
  readonly isComplete: boolean;
  readonly pinnedUntil: number | undefined;
}

/** Reads a header; undefined where it is damaged. */
export function readHeader(text: string): Header | undefined {
  const [, seq, isComplete, pin] = /^(\d+) ([01]) (\d+) \d+ \S+$/.exec(text) ?? [];
  if (seq === undefined) return undefined;
  return { seq: Number(seq), isComplete: isComplete === '1', pinnedUntil: pin === '0' ? undefined : Number(pin) };
}

function readRecord(
  key: string,
  generation: string,
  text: string,
): Pick<RecordedGeneration, 'variant' | 'sizeBytes' | 'metadata' | 'blockSizeBytes'> | undefined {
  const space = text.indexOf(' ');
  const json = text.slice(space + 1);
  if (space < 0 || text.slice(0, space) !== String(recordSum(key, generation, json))) return undefined;
  const [variant, sizeBytes, metadata, blockSizeBytes] = JSON.parse(json) as [string, number, StoredResponse, number];
  return { variant, sizeBytes, metadata, blockSizeBytes };
}

/** Size of the checksum after the bytes of a block. */
const SUM_BYTES = 4;

/** Encodes a block: its bytes, and their checksum in their place. */
export function encodeBlock(generation: string, index: number, bytes: Uint8Array): Buffer {
  const value = Buffer.allocUnsafeSlow(bytes.length + SUM_BYTES);
  value.set(bytes);
  value.writeUInt32LE(blockSum(generation, index, bytes), bytes.length);
  return value;
}

/** Returns the bytes of a block; undefined where they are damaged, or not `sizeBytes` long. */
export function decodeBlock(
  generation: string,
  index: number,
  value: Buffer,
  sizeBytes: number | undefined,
): Uint8Array | undefined {
  const length = value.length - SUM_BYTES;
  if (length < 1 || (sizeBytes !== undefined && length !== sizeBytes)) return undefined;
  const bytes = value.subarray(0, length);
  return value.readUInt32LE(length) === blockSum(generation, index, bytes) ? bytes : undefined;
}
