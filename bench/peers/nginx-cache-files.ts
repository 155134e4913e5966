/** Many files in the cache of nginx, made from one that it has written. */

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { BenchFault } from '../fault.ts';

/** What stands before the key in each file, behind a header of fixed length that has the key's checksum in it. */
const beforeKey = '\nKEY: ';

/** So many files are written before other work gets its turn. */
const filesAtOnce = 1000;

/** See `Peer.multiply`. The cache has `levels=1:2`. Throws `BenchFault` where there is not one file of the usual form. */
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
  if (sumAt < 0 || !key.endsWith(pathOf(0)))
    throw new BenchFault('the files of nginx have another form than was known');
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
