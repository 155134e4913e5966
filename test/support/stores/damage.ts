/** Damages files, as a failing disk or a human error does. */

import { open } from 'node:fs/promises';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'vitest';

/** Changes one bit of a file. */
export async function flipBit(path: string, offset: number, bit = 0): Promise<void> {
  const file = await open(path, 'r+');
  const byte = Buffer.alloc(1);
  await file.read(byte, 0, 1, offset);
  await file.write(Buffer.from([(byte[0] ?? 0) ^ (1 << bit)]), 0, 1, offset);
  await file.close();
}

/** Overwrites a part of a file. */
export async function overwrite(path: string, offset: number, noise: Buffer): Promise<void> {
  const file = await open(path, 'r+');
  await file.write(noise, 0, noise.length, offset);
  await file.close();
}

/** Overwrites the leaves of a table of a closed index, and nothing else. */
export async function trashTable(path: string, table: string): Promise<void> {
  const database = new DatabaseSync(path);
  const leaves = database.prepare("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'");
  const pages = leaves.all(table).map(({ pageno }) => Number(pageno));
  database.close();
  expect(pages.length).toBeGreaterThan(3);
  for (const page of pages) await overwrite(path, (page - 1) * 4096, Buffer.alloc(4096, 0xa5));
}
