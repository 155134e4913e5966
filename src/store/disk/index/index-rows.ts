/**
 * Entries as rows of the index: parses, checks, puts, changes, pins and removes them, and selects them by prefix or tag. Also
 * decides where a body is kept (in the index, alone in a file, or in a file with a sidecar), and how many bytes an entry takes on
 * the disk.
 */

import { crc32 } from 'node:zlib';
import type { StoredResponse } from '../../../http/stored-response.ts';
import { formatCursor, isPrefixOf, maxPins, parseCursor, pinInstant } from '../../entry-rules.ts';
import { type EntryChoice, removedFault } from '../../store.ts';
import { blockSum, sumsSizeBytes } from '../bodies/block-sums.ts';
import type { IndexStatements, Row } from './index-tables.ts';

/** The part of an entry that never changes: its place and the size and kind of its body. */
interface EntryPlace {
  readonly key: string;
  readonly variant: string;
  readonly generation: string;
  readonly sizeBytes: number;
  /** Whether the body is in the index, and not in files. */
  readonly isInline: boolean;
}

/** One entry as the index knows it. */
export interface IndexedEntry extends EntryPlace {
  readonly metadata: StoredResponse;
  /** Whether all blocks are present, as far as is known. */
  readonly isComplete: boolean;
  /** Checksum of a body that is one block in a file without a sidecar; undefined for any other. */
  readonly blockChecksum?: number | undefined;
  /** Epoch milliseconds until which a replaced generation can be found; undefined for the current one. */
  readonly pinnedUntil: number | undefined;
}

/**
 * Returns the checksum of a row: CRC-32 of everything that a response is made from. It does not cover `isComplete`, because the
 * blocks themselves show that.
 */
export function rowSum(place: EntryPlace, metadata: string, pinnedUntil?: number): number {
  const { key, variant, generation, sizeBytes, isInline } = place;
  const pin = pinnedUntil === undefined ? [] : [pinnedUntil];
  return crc32([key, variant, generation, sizeBytes, Number(isInline), metadata, ...pin].join('\n'));
}

/** Encodes metadata for a row. */
export function encodeMetadata(metadata: StoredResponse): string {
  return JSON.stringify(metadata);
}

/** Returns the entry of a row; undefined when the row does not match its checksum or has another key than `key`. */
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

/** An entry that is to be put into the index. */
export interface PutEntry {
  readonly entry: Omit<IndexedEntry, 'pinnedUntil'>;
  /** Its metadata, encoded for the row: see `encodeMetadata`. */
  readonly metadata: string;
  /** Bytes that it takes on the disk. */
  readonly allocatedBytes: number;
  /** The body of an inline entry. */
  readonly body?: Uint8Array | undefined;
  /** Epoch milliseconds until which the replaced generation is pinned, if it is complete; undefined to remove it. */
  readonly pinPreviousUntil?: number | undefined;
}

/** Decides what happens to the replaced generation. `now` returns epoch milliseconds. */
interface PutContext extends Pick<Pinning, 'isFit'> {
  readonly now: () => number;
}

/** Puts an entry in place of the one of the same key and variant, within a change; returns what happened to that one. */
export function putEntry(
  statements: IndexStatements,
  { entry, metadata, allocatedBytes, body, pinPreviousUntil }: PutEntry,
  { now, isFit }: PutContext,
): PinChange {
  const { key, variant, generation, sizeBytes, isInline, isComplete, blockChecksum = null } = entry;
  const pinning = { pinnedUntil: pinInstant(pinPreviousUntil, now), now: now(), isFit };
  const change = makePlace(statements, entry, pinning);
  const flags = [Number(isInline), Number(isComplete), rowSum(entry, metadata)];
  const columns = [key, variant, generation, metadata, sizeBytes, allocatedBytes, ...flags, now(), blockChecksum];
  const { lastInsertRowid } = statements.insertEntry.run(...columns);
  if (body !== undefined) statements.insertBody.run(lastInsertRowid, body, blockSum(generation, 0, body));
  for (const tag of entry.metadata.tags ?? []) statements.insertTag.run(tag, generation);
  return change;
}

/** Checks within a change that a generation has a row and is the current one. Throws `StoreFault` `removed` otherwise. */
export function requireCurrent({ entryOfGeneration }: IndexStatements, generation: string): void {
  const row = entryOfGeneration.get(generation);
  if (row === undefined || row.pinned_until !== null) throw removedFault(generation);
}

/** Replaces the metadata of a generation, within a change, if it is still the current one. */
export function updateMetadata(
  statements: IndexStatements,
  { key, generation }: Pick<EntryPlace, 'key' | 'generation'>,
  metadata: StoredResponse,
): 'written' | 'gone' {
  const row = statements.entryOfGeneration.get(generation);
  const entry = row && parseRow(row, key);
  if (row === undefined || entry === undefined || entry.pinnedUntil !== undefined) return 'gone';
  const text = encodeMetadata(metadata);
  const earlierBytes = rowBytes(key, entry.variant, String(row.metadata), entry.metadata.tags);
  const growthBytes = rowBytes(key, entry.variant, text, metadata.tags) - earlierBytes;
  statements.updateMetadata.run(text, rowSum(entry, text), Number(row.allocated_bytes) + growthBytes, generation);
  replaceTags(statements, entry, metadata.tags);
  return 'written';
}

/** Result of pinning: the generations that are pinned now, and the rows that were deleted for them. */
export interface PinChange {
  readonly pinned: readonly { readonly generation: string }[];
  readonly deleted: readonly Row[];
}

/** Whether to pin, and until when, in epoch milliseconds. */
interface Pinning {
  readonly pinnedUntil: number | undefined;
  readonly now: number;
  /** Whether a generation may be pinned, by facts that its row does not show yet. */
  readonly isFit: (entry: IndexedEntry) => boolean;
}

const noChange: PinChange = { pinned: [], deleted: [] };

/**
 * Frees the place of a generation, within a change. Pins the current generation of that place if it is another one, is complete
 * and is to be pinned; otherwise deletes it. Also deletes pins beyond `maxPins`.
 */
function makePlace(statements: IndexStatements, place: EntryPlace, pinning: Pinning): PinChange {
  const { currentOfVariant, deleteCurrent } = statements;
  const row = currentOfVariant.get(place.key, place.variant);
  if (row === undefined) return noChange;
  const { pinned, deleted } = pinCurrent(statements, place, pinning, row);
  return { pinned, deleted: [...deleted, ...deleteCurrent.all(place.key, place.variant)] };
}

function pinCurrent(
  { updatePin, superfluousPins, deleteGeneration }: IndexStatements,
  { key, variant, generation }: EntryPlace,
  { pinnedUntil, now, isFit }: Pinning,
  row: Row,
): PinChange {
  const current = pinnedUntil === undefined ? undefined : parseRow(row, key);
  if (
    pinnedUntil === undefined ||
    current?.isComplete !== true ||
    current.generation === generation ||
    !isFit(current)
  ) {
    return noChange;
  }
  updatePin.run(pinnedUntil, rowSum(current, String(row.metadata), pinnedUntil), current.generation);
  const superfluous = superfluousPins.all(key, variant, now, maxPins);
  return {
    pinned: [current],
    deleted: superfluous.flatMap((pin) => deleteGeneration.all(String(pin.generation))),
  };
}

/** Replaces the tags of an entry, within a change; writes nothing where they are the same. */
function replaceTags(
  { deleteTags, insertTag }: IndexStatements,
  { generation, metadata: { tags: earlier = [] } }: IndexedEntry,
  tags: readonly string[] = [],
): void {
  if (tags.length === earlier.length && tags.every((tag, at) => tag === earlier[at])) return;
  if (earlier.length > 0) deleteTags.run(generation);
  for (const tag of tags) insertTag.run(tag, generation);
}

/** One page of the chosen rows, and the cursor of the next page, which is undefined after the last one. */
export interface ChosenRows {
  readonly rows: readonly Row[];
  readonly next: string | undefined;
}

/**
 * Returns the next rows after a cursor, or the first ones. Rows with a prefix are adjacent in the order of keys, beginning with
 * the prefix itself. Throws `RangeError` when `after` is not a cursor of this choice.
 */
export function selectRows(
  { entriesFrom, taggedEntries }: IndexStatements,
  choice: EntryChoice,
  limit: number,
  after: string | undefined,
): ChosenRows {
  if (choice.kind === 'tag') {
    const [row] = after === undefined ? [0] : parseCursor(after, [0] as const);
    const rows = taggedEntries.all(choice.tag, row, limit);
    return { rows, next: rows.length < limit ? undefined : formatCursor([Number(rows.at(-1)?.id)]) };
  }
  const { prefix } = choice;
  const first = ['', '', 0] as const;
  const place =
    after === undefined ? ([prefix, '', 0] as const) : parseCursor<readonly [string, string, number]>(after, first);
  const rows = entriesFrom.all(...place, limit);
  const chosen = rows.filter((row) => isPrefixOf(prefix, String(row.key)));
  const last = rows.at(-1);
  const isEnd = rows.length < limit || chosen.length < rows.length || last === undefined;
  return {
    rows: chosen,
    next: isEnd ? undefined : formatCursor([String(last.key), String(last.variant), Number(last.id)]),
  };
}

/**
 * `inline`: in the index. `lone`: alone in a file that is written at once, with its checksum in the row. `files`: in a file that
 * is written block by block, with a sidecar beside it.
 */
export type BodyPlace = 'inline' | 'lone' | 'files';

/**
 * Returns the place of a body of this size. `isWhole`: whether the body is known not to grow. A body of exactly one block that
 * may still grow is not held in memory until its end.
 */
export function placeOf(sizeBytes: number, isWhole: boolean, blockSizeBytes: number): BodyPlace {
  if (sizeBytes <= inlineMaxBytes) return 'inline';
  const isOneBlock = sizeBytes < blockSizeBytes || (sizeBytes === blockSizeBytes && isWhole);
  return isOneBlock && sizeBytes <= loneMaxBytes ? 'lone' : 'files';
}

/** Returns the bytes that a body takes in its place, when this many of its blocks were written. */
export function bodyBytes(place: BodyPlace, sizeBytes: number, writtenBlocks: number, blockSizeBytes: number): number {
  if (place === 'inline') return inlineBytes(sizeBytes);
  return place === 'lone' ? loneBytes(sizeBytes) : fileBytes(sizeBytes, writtenBlocks, blockSizeBytes);
}

/** Bodies up to this size, in bytes, are kept in the index: one look-up instead of two files. */
const inlineMaxBytes = 32 * 1024;

/** Larger bodies up to this size, in bytes, are kept in a file without a sidecar, written at once, if they are one block. */
const loneMaxBytes = 256 * 1024;

/** File systems and SQLite allocate whole pages of this size, in bytes. */
const pageBytes = 4096;
/** A row's numbers, its checksum, and its entries in four B-trees, in bytes. */
const rowOverheadBytes = 512;
/** A tag's entries in two B-trees, in bytes. */
const tagOverheadBytes = 32;

/**
 * Returns the bytes that the rows of an entry take. `metadata` is encoded for the row. Key and variant are also in an index of
 * the table, and each tag is stored twice.
 */
export function rowBytes(key: string, variant: string, metadata: string, tags: readonly string[] = []): number {
  const tagBytes = tags.reduce((sum, tag) => sum + tagOverheadBytes + 2 * tag.length, 0);
  return rowOverheadBytes + 2 * (key.length + variant.length) + metadata.length + tagBytes;
}

/** Returns the bytes that a body in the index takes. Small bodies share pages, which may be half empty. */
function inlineBytes(sizeBytes: number): number {
  return Math.min(wholePages(sizeBytes), 2 * sizeBytes);
}

/** Returns the bytes that a body in a file without a sidecar takes. */
function loneBytes(sizeBytes: number): number {
  return wholePages(sizeBytes);
}

/** Returns the bytes that a body in files takes, when this many of its blocks were written. Holes take nothing. */
function fileBytes(sizeBytes: number, writtenBlocks: number, blockSizeBytes: number): number {
  const body = Math.min(wholePages(sizeBytes), writtenBlocks * wholePages(blockSizeBytes));
  return body + wholePages(sumsSizeBytes(Math.ceil(sizeBytes / blockSizeBytes)));
}

function wholePages(bytes: number): number {
  return Math.ceil(bytes / pageBytes) * pageBytes;
}
