/**
 * Files of an origin that change. The name of a version and an offset determine a byte, so that a response can be verified long
 * after the origin has changed the file.
 */

import { isPeriodic, periodicPiece } from '../values/periodic-body.ts';

/** One version of one file. */
export interface FileVersion {
  /** Number of the file; its bytes differ from those of other files. */
  readonly file: number;
  /** 0 for the first version. */
  readonly version: number;
  /** The length of this version, in bytes. */
  readonly sizeBytes: number;
}

/** Offsets between the bytes of two files, and of two versions of a file. Both are prime, so that shifted blocks never coincide. */
const fileShift = 1_299_709;
const versionShift = 611_953;

/** Returns the name of a version, as its entity tag has it. */
export function nameOf({ file, version, sizeBytes }: FileVersion): string {
  return `${file}.${version}.${sizeBytes}`;
}

/** Parses the name of a version. Throws where it is malformed. */
export function versionNamed(name: string): FileVersion {
  const [file = Number.NaN, version = Number.NaN, sizeBytes = Number.NaN] = name.split('.').map(Number);
  if (Number.isNaN(file + version + sizeBytes)) throw new Error(`no name of a version: ${JSON.stringify(name)}`);
  return { file, version, sizeBytes };
}

/** Returns bytes of a version from `offset` on, at most up to `end` (exclusive). They are shared memory and must not be changed. */
export function versionPiece(version: FileVersion, offset: number, end: number): Buffer {
  const shift = shiftOf(version);
  return periodicPiece(shift + offset, shift + end);
}

/** Checks that these are the bytes of a version from `offset` on. */
export function isOfVersion(version: FileVersion, bytes: Uint8Array, offset: number): boolean {
  return isPeriodic(bytes, shiftOf(version) + offset);
}

function shiftOf({ file, version }: FileVersion): number {
  return file * fileShift + version * versionShift;
}
