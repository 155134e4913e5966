/** A tiled TIFF image with its directory at the beginning, as cloud-optimised GeoTIFFs have it. */

import { patternBytes } from '../../../support/values/pattern-body.ts';

/** The sides of the image and of a tile, in pixels of one byte. */
export const imageSide = 2048;
export const tileSide = 256;
const tilesInRow = imageSide / tileSide;

/** Returns the pixels of a tile, by its column and row. */
export function tilePixels(column: number, row: number): Uint8Array {
  return patternBytes(0, tileSide * tileSide, row * tilesInRow + column + 1);
}

/** Makes the image (TIFF 6.0, little-endian, uncompressed). */
export function makeImage(): Buffer {
  const tileCount = tilesInRow ** 2;
  const entries: readonly (readonly [tag: number, type: 3 | 4, values: readonly number[]])[] = [
    [256, 4, [imageSide]],
    [257, 4, [imageSide]],
    [258, 3, [8]],
    [259, 3, [1]],
    [262, 3, [1]],
    [277, 3, [1]],
    [322, 4, [tileSide]],
    [323, 4, [tileSide]],
    [324, 4, Array<number>(tileCount).fill(0)],
    [325, 4, Array<number>(tileCount).fill(tileSide ** 2)],
  ];
  const listsAt = 8 + 2 + 12 * entries.length + 4;
  const tilesAt = listsAt + 2 * 4 * tileCount;
  const head = Buffer.alloc(tilesAt);
  head.write('II*\0');
  head.writeUInt32LE(8, 4);
  head.writeUInt16LE(entries.length, 8);
  let listAt = listsAt;
  for (const [at, [tag, type, values]] of entries.entries()) {
    const entryAt = 10 + 12 * at;
    head.writeUInt16LE(tag, entryAt);
    head.writeUInt16LE(type, entryAt + 2);
    head.writeUInt32LE(values.length, entryAt + 4);
    if (values.length === 1) head.writeUInt32LE(values[0] ?? 0, entryAt + 8);
    else {
      head.writeUInt32LE(listAt, entryAt + 8);
      for (const [index, value] of values.entries()) {
        head.writeUInt32LE(tag === 324 ? tilesAt + index * tileSide ** 2 : value, listAt + 4 * index);
      }
      listAt += 4 * values.length;
    }
  }
  const tiles = Array.from({ length: tileCount }, (_, at) => tilePixels(at % tilesInRow, Math.floor(at / tilesInRow)));
  return Buffer.concat([head, ...tiles]);
}
