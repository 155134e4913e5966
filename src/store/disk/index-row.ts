/** Entries as rows of the index, and the checksum that tells whether a row is as it was written. */

import { crc32 } from 'node:zlib';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { Row } from './index-statements.ts';

/** What of an entry never changes: where it belongs, and what its body is like. */
export interface EntryPlace {
  readonly key: string;
  readonly variant: string;
  readonly generation: string;
  readonly sizeBytes: number;
  /** Whether the body is in the index too, and not in files. */
  readonly isInline: boolean;
}

/** One entry as the index knows it. */
export interface IndexedEntry extends EntryPlace {
  readonly metadata: StoredResponse;
  /** Whether all blocks are there, as far as is known. */
  readonly isComplete: boolean;
  /** The checksum of a body that is one block in a file without a sidecar. */
  readonly blockChecksum?: number | undefined;
  /** Until when it is found although it was replaced, in epoch milliseconds; undefined for the current one. */
  readonly pinnedUntil: number | undefined;
}

/**
 * The checksum of a row: CRC-32 of all that the answer to a request is made from. Whether the entry is complete is not
 * in it, for the blocks themselves tell.
 */
export function rowSum(place: EntryPlace, metadata: string, pinnedUntil?: number): number {
  const { key, variant, generation, sizeBytes, isInline } = place;
  const pin = pinnedUntil === undefined ? [] : [pinnedUntil];
  return crc32([key, variant, generation, sizeBytes, Number(isInline), metadata, ...pin].join('\n'));
}

/** Metadata as a row holds it. */
export function encodeMetadata(metadata: StoredResponse): string {
  return JSON.stringify(metadata);
}

/** The entry of a row, or undefined when the row does not match its checksum or has another key than was asked for. */
export function parseRow(row: Row, key: string): IndexedEntry | undefined {
  const place = {
    key: String(row.key),
    variant: String(row.variant),
    generation: String(row.generation),
    sizeBytes: Number(row.size_bytes),
    isInline: row.is_inline === 1,
  };
  const metadata = String(row.metadata);
  const pinnedUntil = typeof row.pinned_until === 'number' ? row.pinned_until : undefined;
  if (place.key !== key || rowSum(place, metadata, pinnedUntil) !== row.checksum) return undefined;
  const blockChecksum = typeof row.block_checksum === 'number' ? row.block_checksum : undefined;
  const isComplete = row.is_complete === 1;
  return { ...place, metadata: JSON.parse(metadata), isComplete, pinnedUntil, blockChecksum };
}
