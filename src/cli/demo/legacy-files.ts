/** The files of the demo's origin: those of a directory, and two that are made up as they are read. */

import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { extname, join } from 'node:path';

/** The size of `/download.bin`. */
export const downloadBytes = 16 * 1024 * 1024;

const chunkBytes = 64 * 1024;
const reportRows = 4000;

const mediaTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mp4': 'video/mp4',
  '.svg': 'image/svg+xml',
};

/** One file as an old server knows it. */
export interface LegacyFile {
  readonly mediaType: string;
  /** What its Content-Length says; a file without one is sent in chunks and has no validator either. */
  readonly sizeBytes: number | undefined;
  /** All its bytes from the first on: there is no other way to read it. */
  open(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

/**
 * The files by path: those of the directory whose media type is known, `/` for its index.html, `/download.bin` and
 * `/report.csv`. Throws when the directory cannot be read.
 */
export async function openLegacyFiles(dir: string): Promise<ReadonlyMap<string, LegacyFile>> {
  const files = new Map<string, LegacyFile>([
    ['/download.bin', { mediaType: 'application/octet-stream', sizeBytes: downloadBytes, open: downloadChunks }],
    ['/report.csv', { mediaType: 'text/csv; charset=utf-8', sizeBytes: undefined, open: reportChunks }],
  ]);
  for (const name of await readdir(dir)) {
    const mediaType = mediaTypes[extname(name)];
    if (mediaType === undefined) continue;
    const path = join(dir, name);
    const { size: sizeBytes } = await stat(path);
    files.set(name === 'index.html' ? '/' : `/${name}`, { mediaType, sizeBytes, open: () => createReadStream(path) });
  }
  return files;
}

/** Bytes that look random, and are the same each time. */
function* downloadChunks(): Generator<Uint8Array, void, undefined> {
  for (let start = 0; start < downloadBytes; start += chunkBytes) {
    const words = new Uint32Array(chunkBytes / 4);
    for (let i = 0; i < words.length; i++) {
      const seed = Math.imul(start / 4 + i + 1, 0x9e3779b1);
      words[i] = Math.imul(seed ^ (seed >>> 15), 0x85ebca6b);
    }
    yield new Uint8Array(words.buffer);
  }
}

function* reportChunks(): Generator<Uint8Array, void, undefined> {
  const encoder = new TextEncoder();
  yield encoder.encode('day,requests,megabytes\n');
  for (let day = 1; day <= reportRows; day++) {
    yield encoder.encode(`${day},${(day * 7919) % 10_007},${(day * 104_729) % 997}\n`);
  }
}
