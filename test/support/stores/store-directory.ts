/** Examines a store's directory while no server uses it. */

import { copyFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { bodyFiles } from './disk-store.ts';

/** Returns the paths of body and sidecar files whose generation is not in the index. Changes nothing. */
export async function orphanedFiles(dir: string): Promise<string[]> {
  const known = await generationsInFiles(dir);
  return (await bodyFiles(dir)).filter((path) => !known.has(basename(path).replace(/\.\w+$/, '')));
}

/** Returns the generations with bodies in files, according to the index. Opens a copy, because opening an index changes it. */
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
