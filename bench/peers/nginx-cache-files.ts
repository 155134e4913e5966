/** Fills the cache of nginx with copies of one file that nginx has written. */

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { BenchFault } from '../fault.ts';

/** The text before the key in each cache file. Before it is a header of fixed length, which contains the key's checksum. */
const beforeKey = '\nKEY: ';

/** Number of files that are written in one turn of the event loop. */
const filesAtOnce = 1000;

/** Implements `Peer.multiply` for a cache with `levels=1:2`. Throws `BenchFault` unless there is exactly one file, of the known format. */
export async function multiplyNginxFiles(
  dir: string,
  entries: number,
  pathOf: (number: number) => string,
): Promise<void> {
  const cache = join(dir, 'cache');
  const found = readdirSync(cache, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const [file] = found;
  if (file === undefined || found.length > 1) throw new BenchFault(`nginx has ${found.length} files in ${cache}`);
  const bytes = readFileSync(join(file.parentPath, file.name));
  const keyAt = bytes.indexOf(beforeKey) + beforeKey.length;
  const key = bytes.toString('latin1', keyAt, bytes.indexOf('\n', keyAt));
  const sumAt = bytes.subarray(0, keyAt).indexOf(littleEndian(crc32(key)));
  if (sumAt < 0 || !key.endsWith(pathOf(0))) throw new BenchFault('the cache files of nginx have an unknown format');
  for (let number = 1; number < entries; number += 1) {
    if (number % filesAtOnce === 0) await setImmediate();
    const copyKey = key.replace(pathOf(0), pathOf(number));
    bytes.write(copyKey, keyAt, 'latin1');
    littleEndian(crc32(copyKey)).copy(bytes, sumAt);
    const name = createHash('md5').update(copyKey).digest('hex');
    const folder = join(cache, name.slice(-1), name.slice(-3, -1));
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, name), bytes);
  }
}

function littleEndian(sum: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(sum);
  return bytes;
}
