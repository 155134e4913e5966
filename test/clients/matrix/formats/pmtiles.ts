/** A PMTiles archive (version 3) of one zoom level. */

import { patternBytes } from '../../../support/values/pattern-body.ts';

/** The zoom level, and the bytes of each of its tiles. */
export const zoom = 4;
const tileCount = 4 ** zoom;
const tileBytes = 10_000;
/** The id of the first tile of the level (Hilbert order). */
const firstId = (4 ** zoom - 1) / 3;

/** Returns the content of a tile, by its position in the level. */
function tileAt(position: number): Uint8Array {
  return patternBytes(0, tileBytes, position + 1);
}

/** Returns the content of the tile with an id. */
export function tileContent(id: number): Uint8Array {
  return tileAt(id - firstId);
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) | 128, ...varint(Math.floor(value / 128))];
}

/** Makes the archive: header, root directory, metadata, tiles. */
export function makeMap(): Buffer {
  const positions = Array.from({ length: tileCount }, (_, at) => at);
  const directory = Buffer.from([
    ...varint(tileCount),
    ...positions.flatMap((at) => varint(at === 0 ? firstId : 1)),
    ...positions.flatMap(() => varint(1)),
    ...positions.flatMap(() => varint(tileBytes)),
    // An offset is stored plus one; 0 means right after the one before.
    ...positions.flatMap((at) => varint(at === 0 ? 1 : 0)),
  ]);
  const metadata = Buffer.from('{}');
  const header = Buffer.alloc(127);
  header.write('PMTiles');
  header.writeUInt8(3, 7);
  const metadataAt = header.length + directory.length;
  const tilesAt = metadataAt + metadata.length;
  const numbers = [
    ...[header.length, directory.length, metadataAt, metadata.length, tilesAt, 0],
    ...[tilesAt, tileCount * tileBytes, tileCount, tileCount, tileCount],
  ];
  for (const [at, value] of numbers.entries()) header.writeBigUInt64LE(BigInt(value), 8 + 8 * at);
  // Clustered; neither directories nor tiles are compressed; tiles of an unknown type.
  header.set([1, 1, 1, 0, zoom, zoom], 96);
  return Buffer.concat([header, directory, metadata, ...positions.map(tileAt)]);
}
