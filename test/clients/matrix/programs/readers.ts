/** Readers of npm for formats of which a program reads a few places: Parquet, PMTiles, COG, zip and PDF. */

import { HttpRangeReader, Uint8ArrayWriter, ZipReader } from '@zip.js/zip.js';
import { fromUrl } from 'geotiff';
import { asyncBufferFromUrl, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { PMTiles, zxyToTileId } from 'pmtiles';
import { type Client, check, checkBytes, checkShare, type Place, within } from '../client.ts';
import { numberInRow, rowCount } from '../formats/parquet.ts';
import { tileContent, zoom } from '../formats/pmtiles.ts';
import { tilePixels, tileSide } from '../formats/tiff.ts';
import { memberContent, memberCount, memberName } from '../formats/zip.ts';
import { apacheOrigin, nginxWithoutRanges } from '../origins/program-origins.ts';
import { difficult } from '../origins.ts';

const origins = [...difficult, nginxWithoutRanges, apacheOrigin];

async function readParquet(place: Place): Promise<void> {
  const file = await asyncBufferFromUrl({ url: place.url('table.parquet') });
  const metadata = await parquetMetadataAsync(file, { initialFetchSize: 16_384 });
  check(Number(metadata.num_rows) === rowCount, `the table has ${metadata.num_rows} rows`);
  const rowStart = 105_000;
  const rows = await parquetReadObjects({ file, metadata, columns: ['number'], rowStart, rowEnd: rowStart + 100 });
  check(
    rows.length === 100 && rows.every(({ number }, at) => number === numberInRow(rowStart + at)),
    'the rows are not those of the table',
  );
  checkShare(place, place.fixtures.sizes['table.parquet']);
}

async function readMap(place: Place): Promise<void> {
  const map = new PMTiles(place.url('map.pmtiles'));
  for (const [x, y] of [
    [3, 9],
    [12, 1],
  ] as const) {
    const tile = await map.getZxy(zoom, x, y);
    checkBytes(`tile ${x},${y}`, new Uint8Array(tile?.data ?? []), tileContent(zxyToTileId(zoom, x, y)));
  }
  checkShare(place, place.fixtures.sizes['map.pmtiles']);
}

async function readImage(place: Place): Promise<void> {
  const tiff = await fromUrl(place.url('image.tif'), { allowFullFile: false });
  try {
    const image = await tiff.getImage();
    for (const [column, row] of [
      [5, 6],
      [0, 2],
    ] as const) {
      const [left, top] = [column * tileSide, row * tileSide];
      const [pixels] = (await image.readRasters({
        window: [left, top, left + tileSide, top + tileSide],
      })) as unknown as [Uint8Array];
      checkBytes(`tile ${column},${row}`, pixels, tilePixels(column, row));
    }
  } finally {
    tiff.close();
  }
  checkShare(place, place.fixtures.sizes['image.tif']);
}

async function readArchive(place: Place): Promise<void> {
  const archive = new ZipReader(new HttpRangeReader(place.url('archive.zip')), { useWebWorkers: false });
  const entries = await archive.getEntries();
  check(entries.length === memberCount, `the archive has ${entries.length} members`);
  const entry = entries.find(({ filename }) => filename === memberName(27));
  check(entry !== undefined && !entry.directory, 'the member is missing');
  checkBytes('the member', await entry.getData(new Uint8ArrayWriter()), memberContent(27));
  await archive.close();
  checkShare(place, place.fixtures.sizes['archive.zip']);
}

/** Returns a client that reads a file and needs no program. */
function reader(
  name: string,
  file: 'table.parquet' | 'map.pmtiles' | 'image.tif' | 'archive.zip',
  read: (place: Place) => Promise<void>,
): Client {
  return {
    name,
    programs: [],
    origins,
    fileBytes: ({ sizes }) => sizes[file],
    withoutMs: 5000,
    run: (place) => within(place, read(place)),
  };
}

export const readers: readonly Client[] = [
  reader('hyparquet: 100 rows', 'table.parquet', readParquet),
  reader('pmtiles: 2 tiles', 'map.pmtiles', readMap),
  reader('geotiff: 2 tiles of a COG', 'image.tif', readImage),
  reader('zip.js: one member', 'archive.zip', readArchive),
];
