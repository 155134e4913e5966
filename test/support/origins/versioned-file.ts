/**
 * Files of an origin that change: every byte of every version is told by the version's name and the offset, so that what
 * a cache serves can be verified long after the origin has forgotten it.
 */

import { isPeriodic, periodicPiece } from '../values/periodic-body.ts';

/** One version of one file. */
export interface FileVersion {
  /** Tells this file from all others. */
  readonly file: number;
  /** 0 for the first version. */
  readonly version: number;
  /** The length of this version. */
  readonly sizeBytes: number;
}

/** How far the bodies of two files, and of two versions of one, are apart: no multiple of a block, and no common one. */
const fileShift = 1_299_709;
const versionShift = 611_953;

/** The name of a version, as it is in an entity tag. */
export function nameOf({ file, version, sizeBytes }: FileVersion): string {
  return `${file}.${version}.${sizeBytes}`;
}

/** The version that has this name. */
export function versionNamed(name: string): FileVersion {
  const [file = Number.NaN, version = Number.NaN, sizeBytes = Number.NaN] = name.split('.').map(Number);
  if (Number.isNaN(file + version + sizeBytes)) throw new Error(`no name of a version: ${JSON.stringify(name)}`);
  return { file, version, sizeBytes };
}

/** The next bytes of a version from `offset` on, at most up to `end`: a part of one memory, which must not be changed. */
export function versionPiece(version: FileVersion, offset: number, end: number): Buffer {
  const shift = shiftOf(version);
  return periodicPiece(shift + offset, shift + end);
}

/** Whether these are the bytes of a version from `offset` on. */
export function isOfVersion(version: FileVersion, bytes: Uint8Array, offset: number): boolean {
  return isPeriodic(bytes, shiftOf(version) + offset);
}

function shiftOf({ file, version }: FileVersion): number {
  return file * fileShift + version * versionShift;
}
