/** A store's directory as it lies on the disk, looked at from outside while no server has it. */

import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { bodyFiles } from './disk-store.ts';

/** The body and sidecar files whose generation the index does not know, as paths. The directory is only read. */
export async function orphanedFiles(dir: string): Promise<string[]> {
  const known = await generationsInFiles(dir);
  return (await bodyFiles(dir)).filter((path) => !known.has(basename(path).replace(/\.\w+$/, '')));
}

/** The generations whose bodies the index says to be in files. Asks a copy: whoever opens an index tidies it up. */
async function generationsInFiles(dir: string): Promise<ReadonlySet<string>> {
  const copies = await mkdtemp(join(tmpdir(), 'rangeway-index-'));
  try {
    const names = (await readdir(dir)).filter((name) => /^index\.sqlite(?:-wal)?$/.test(name));
    for (const name of names) await copyFile(join(dir, name), join(copies, name));
    const database = new DatabaseSync(join(copies, 'index.sqlite'));
    try {
      const rows: { readonly generation?: SQLOutputValue }[] = database
        .prepare('SELECT generation FROM entries WHERE is_inline = 0')
        .all();
      return new Set(rows.map((row) => String(row.generation)));
    } finally {
      database.close();
    }
  } finally {
    await rm(copies, { recursive: true, force: true });
  }
}
