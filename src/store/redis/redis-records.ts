/**
 * What the engine keeps, as bytes: the records of generations, and blocks. Both have checksums: what does not match its checksum, is in
 * a wrong place, or has another form than Rangeway writes counts as absent. Other programs can write to the engine too.
 */

import { crc32 } from 'node:zlib';
import type { StoredResponse } from '../../http/stored-response.ts';
import { blockSum } from '../disk/bodies/block-sums.ts';
import { shortDigest } from './redis-keys.ts';
import { blockTagBytes, type Seal } from './seal.ts';

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

/** Encodes a record: with a tag of the seal, or with a checksum where there is none. */
export function encodeRecord(
  key: string,
  { generation, variant, sizeBytes, metadata, blockSizeBytes }: Omit<RecordedGeneration, 'isComplete' | 'pinnedUntil'>,
  seal?: Seal,
): string {
  const text = JSON.stringify([variant, sizeBytes, metadata, blockSizeBytes]);
  return `${seal?.sign('record', key, generation, text) ?? recordSum(key, generation, text)} ${text}`;
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
export function readEntryHash(key: string, reply: unknown, seal?: Seal): ReadEntry {
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
    const record = readRecord(key, generation, records.get(generation) ?? '', seal);
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
  seal: Seal | undefined,
): Pick<RecordedGeneration, 'variant' | 'sizeBytes' | 'metadata' | 'blockSizeBytes'> | undefined {
  const space = text.indexOf(' ');
  const json = text.slice(space + 1);
  const tag = text.slice(0, space);
  const isRight =
    seal?.verifies(tag, 'record', key, generation, json) ?? tag === String(recordSum(key, generation, json));
  if (space < 0 || !isRight) return undefined;
  const parsed = parse(json);
  if (!isList(parsed, () => true)) return undefined;
  const [variant, sizeBytes, metadata, blockSizeBytes] = parsed;
  if (typeof variant !== 'string' || !isCount(sizeBytes) || !isCount(blockSizeBytes)) return undefined;
  return isStoredResponse(metadata) ? { variant, sizeBytes, metadata, blockSizeBytes } : undefined;
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** The form of each part of `StoredResponse`. What must be there is in `required`. */
const forms: Readonly<Record<keyof StoredResponse, (value: unknown) => boolean>> = {
  status: (value) => isCount(value) && value >= 200 && value < 600,
  fields: (value) => isList(value, isFieldLine),
  nominated: (value) => isList(value, isNominated),
  selected: (value) => isList(value, isNominated),
  identity: (value) => isObject(value) && isText(value['digest']) && isList(value['names'], isText),
  fragment: (value) =>
    isObject(value) && isText(value['range']) && isCount(value['start']) && isCount(value['wholeBytes']),
  requestAt: isTime,
  responseAt: isTime,
  ownEntityTag: isFieldText,
  bodyDigest: isText,
  isInvalid: (value) => value === true,
  expiredAt: isTime,
  tags: (value) => isList(value, isText),
};
const required: readonly (keyof StoredResponse)[] = ['status', 'fields', 'nominated', 'requestAt', 'responseAt'];

function isStoredResponse(value: unknown): value is StoredResponse {
  if (!isObject(value) || required.some((name) => value[name] === undefined)) return false;
  return Object.entries(forms).every(([name, isRight]) => value[name] === undefined || isRight(value[name]));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isList(value: unknown, isRight: (each: unknown) => boolean): value is readonly unknown[] {
  return Array.isArray(value) && value.every(isRight);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isTime(value: unknown): value is number {
  return Number.isFinite(value);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Whether a text can be the value of a field line (RFC 9110 §5.5): one with CR LF would begin another line. */
function isFieldText(value: unknown): boolean {
  return isText(value) && /^[\t -~\x80-\xff]*$/.test(value);
}

function isFieldLine(value: unknown): boolean {
  if (!isList(value, isFieldText) || value.length !== 2) return false;
  return /^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(String(value[0]));
}

function isNominated(value: unknown): boolean {
  if (!isList(value, () => true) || value.length !== 2) return false;
  return isText(value[0]) && (value[1] === null || isText(value[1]));
}

/** Size of the checksum after the bytes of a block. */
const SUM_BYTES = 4;

/** Encodes a block: its bytes, and their tag or checksum in their place. */
export function encodeBlock(generation: string, index: number, bytes: Uint8Array, seal?: Seal): Buffer {
  if (seal !== undefined) return Buffer.concat([bytes, seal.signBlock(`${generation} ${index}`, bytes)]);
  const value = Buffer.allocUnsafeSlow(bytes.length + SUM_BYTES);
  value.set(bytes);
  value.writeUInt32LE(blockSum(generation, index, bytes), bytes.length);
  return value;
}

/** Returns the bytes of a block; undefined where they are damaged, not authentic, or not `sizeBytes` long. */
export function decodeBlock(
  generation: string,
  index: number,
  value: Buffer,
  sizeBytes: number | undefined,
  seal?: Seal,
): Uint8Array | undefined {
  const length = value.length - (seal === undefined ? SUM_BYTES : blockTagBytes);
  if (length < 1 || (sizeBytes !== undefined && length !== sizeBytes)) return undefined;
  const bytes = value.subarray(0, length);
  if (seal !== undefined) {
    return seal.verifiesBlock(value.subarray(length), `${generation} ${index}`, bytes) ? bytes : undefined;
  }
  return value.readUInt32LE(length) === blockSum(generation, index, bytes) ? bytes : undefined;
}
