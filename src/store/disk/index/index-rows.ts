/**
 * Entries as rows of the index: parsed and checked, put, changed, pinned or removed when a new generation takes their place, and
 * selected by prefix or tag. Also where a body is kept (in the index, alone in a file, or in a file with a sidecar), and how many
 * bytes an entry takes on the disk.
 */

import { crc32 } from 'node:zlib';
import type { StoredResponse } from '../../../http/stored-response.ts';
import { formatCursor, isPrefixOf, maxPins, parseCursor, pinInstant } from '../../entry-rules.ts';
import { type EntryChoice, removedFault } from '../../store.ts';
import { blockSum, sumsSizeBytes } from '../bodies/block-sums.ts';
import type { IndexStatements, Row } from './index-tables.ts';

/** What of an entry never changes: where it belongs, and what its body is like. */
interface EntryPlace {
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

/** An entry that is to be put into the index. */
export interface PutEntry {
  readonly entry: Omit<IndexedEntry, 'pinnedUntil'>;
  /** Its metadata as the row holds it: see `encodeMetadata`. */
  readonly metadata: string;
  /** What it takes on the disk, in bytes. */
  readonly allocatedBytes: number;
  /** The body of one that is inline. */
  readonly body?: Uint8Array | undefined;
  /** Until when the one that it replaces is wanted, in epoch milliseconds. */
  readonly pinPreviousUntil?: number | undefined;
}

/** What decides what becomes of the generation that is replaced. `now` tells epoch milliseconds. */
interface PutContext extends Pick<Pinning, 'isFit'> {
  readonly now: () => number;
}

/** Puts an entry in place of the one of the same key and variant, within a change; tells what became of that one. */
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

/** Within a change: a generation must have a row and be the current one. Throws `StoreFault` `removed`. */
export function requireCurrent({ entryOfGeneration }: IndexStatements, generation: string): void {
  const row = entryOfGeneration.get(generation);
  if (row === undefined || row.pinned_until !== null) throw removedFault(generation);
}

/** Gives a generation other metadata, within a change, if it is still the current one. */
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

/** What pinning has done: the generations that are pinned now, and the rows that had to go for them. */
export interface PinChange {
  readonly pinned: readonly { readonly generation: string }[];
  readonly deleted: readonly Row[];
}

/** What there is to pin, and until when, in epoch milliseconds. */
interface Pinning {
  readonly pinnedUntil: number | undefined;
  readonly now: number;
  /** Whether a generation may be pinned although its row does not say otherwise. */
  readonly isFit: (entry: IndexedEntry) => boolean;
}

const nothing: PinChange = { pinned: [], deleted: [] };

/**
 * Makes the place of a generation free, within a change: pins the current generation of it if it is another one and
 * complete and that is wanted, and deletes it otherwise; deletes what is pinned too many.
 */
function makePlace(statements: IndexStatements, place: EntryPlace, pinning: Pinning): PinChange {
  const { currentOfVariant, deleteCurrent } = statements;
  const row = currentOfVariant.get(place.key, place.variant);
  if (row === undefined) return nothing;
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
    return nothing;
  }
  updatePin.run(pinnedUntil, rowSum(current, String(row.metadata), pinnedUntil), current.generation);
  const superfluous = superfluousPins.all(key, variant, now, maxPins);
  return {
    pinned: [current],
    deleted: superfluous.flatMap((pin) => deleteGeneration.all(String(pin.generation))),
  };
}

/** Gives an entry these tags instead of its own, within a change; where they are the same, nothing is written. */
function replaceTags(
  { deleteTags, insertTag }: IndexStatements,
  { generation, metadata: { tags: earlier = [] } }: IndexedEntry,
  tags: readonly string[] = [],
): void {
  if (tags.length === earlier.length && tags.every((tag, at) => tag === earlier[at])) return;
  if (earlier.length > 0) deleteTags.run(generation);
  for (const tag of tags) insertTag.run(tag, generation);
}

/** Some of the chosen rows, and where those after them begin; undefined for the latter when there are no more. */
export interface ChosenRows {
  readonly rows: readonly Row[];
  readonly next: string | undefined;
}

/**
 * The next rows after a place, or the first ones. Those with a prefix stand side by side in the order of keys, beginning
 * with the prefix itself. Throws `RangeError` when the place is none of this choice.
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

/** Whether an entry is chosen. SQLite cannot tell texts apart that differ in lone surrogates only. */
export function isChosen(choice: EntryChoice, { key, metadata }: EntryPlace & Pick<IndexedEntry, 'metadata'>): boolean {
  return choice.kind === 'tag' ? metadata.tags?.includes(choice.tag) === true : isPrefixOf(choice.prefix, key);
}

/**
 * In its row; alone in a file, which is written at once, its checksum in its row; or block by block in a file with a
 * sidecar beside it.
 */
export type BodyPlace = 'inline' | 'lone' | 'files';

/**
 * Where a body of so many bytes belongs, of which it may be known that there are no more. One of a whole block may become
 * longer where that is not known, and is not to be held in memory until then.
 */
export function placeOf(sizeBytes: number, isWhole: boolean, blockSizeBytes: number): BodyPlace {
  if (sizeBytes <= inlineMaxBytes) return 'inline';
  const isOneBlock = sizeBytes < blockSizeBytes || (sizeBytes === blockSizeBytes && isWhole);
  return isOneBlock && sizeBytes <= loneMaxBytes ? 'lone' : 'files';
}

/** What a body takes in its place, of which so many blocks were written, in bytes. */
export function bodyBytes(place: BodyPlace, sizeBytes: number, writtenBlocks: number, blockSizeBytes: number): number {
  if (place === 'inline') return inlineBytes(sizeBytes);
  return place === 'lone' ? loneBytes(sizeBytes) : fileBytes(sizeBytes, writtenBlocks, blockSizeBytes);
}

/** Bodies up to this size are kept in the index: one look-up instead of two files. */
const inlineMaxBytes = 32 * 1024;

/** Larger bodies up to this size, if they are one block, are kept in a file without a sidecar, written at once. */
const loneMaxBytes = 256 * 1024;

/** File systems and SQLite give out whole pages of this size. */
const pageBytes = 4096;
/** A row's numbers, its checksum, and its place in four B-trees. */
const rowOverheadBytes = 512;
/** A tag's place in two B-trees. */
const tagOverheadBytes = 32;

/**
 * What the rows of an entry take, in bytes; its metadata as the row holds it. Its key and variant are in an index of the
 * table too, and each tag twice.
 */
export function rowBytes(key: string, variant: string, metadata: string, tags: readonly string[] = []): number {
  const tagBytes = tags.reduce((sum, tag) => sum + tagOverheadBytes + 2 * tag.length, 0);
  return rowOverheadBytes + 2 * (key.length + variant.length) + metadata.length + tagBytes;
}

/** What a body in the index takes, in bytes. Small bodies share pages, which may be half empty. */
function inlineBytes(sizeBytes: number): number {
  return Math.min(wholePages(sizeBytes), 2 * sizeBytes);
}

/** What a body in a file without a sidecar takes, in bytes. */
function loneBytes(sizeBytes: number): number {
  return wholePages(sizeBytes);
}

/** What a body in files takes of which so many blocks were written, in bytes. The holes between them take nothing. */
function fileBytes(sizeBytes: number, writtenBlocks: number, blockSizeBytes: number): number {
  const body = Math.min(wholePages(sizeBytes), writtenBlocks * wholePages(blockSizeBytes));
  return body + wholePages(sumsSizeBytes(Math.ceil(sizeBytes / blockSizeBytes)));
}

function wholePages(bytes: number): number {
  return Math.ceil(bytes / pageBytes) * pageBytes;
}
