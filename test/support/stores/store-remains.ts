/** Finds what processes that share a store have left behind in it, while they run. */

import { basename, join } from 'node:path';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { bodyFiles } from './disk-store.ts';

/** The state of a shared store. When nothing is being written, everything but `instances` should be empty or 0. */
export interface StoreRemains {
  /** Number of processes that have the store open. */
  readonly instances: number;
  /** Generations with a writer, according to the index. */
  readonly held: readonly string[];
  /** The index's counters minus the real numbers: entries, and bytes of entries. */
  readonly miscounted: readonly [entries: number, bytes: number];
  /** Files whose generation is not in the index. */
  readonly orphans: readonly string[];
  /** Generations whose files are missing. */
  readonly bodiless: readonly string[];
}

interface Row {
  readonly generation?: SQLOutputValue;
  readonly has_sums?: SQLOutputValue;
  readonly instances?: SQLOutputValue;
  readonly entries?: SQLOutputValue;
  readonly bytes?: SQLOutputValue;
}

/** Examines the store in a directory. Changes nothing. */
export async function storeRemains(dir: string): Promise<StoreRemains> {
  const database = new DatabaseSync(join(dir, 'index.sqlite'), { readOnly: true, timeout: 5000 });
  const ask = (sql: string): readonly Row[] => database.prepare(sql).all();
  try {
    database.exec('BEGIN');
    const [counted] = ask('SELECT entry_count AS entries, allocated_bytes AS bytes FROM room');
    const [there] = ask('SELECT COUNT(*) AS entries, COALESCE(SUM(allocated_bytes), 0) AS bytes FROM entries');
    const held = ask('SELECT generation FROM held').map(({ generation }) => String(generation));
    const [open] = ask('SELECT COUNT(*) AS instances FROM instances');
    const rows = ask('SELECT generation, block_checksum IS NULL AS has_sums FROM entries WHERE is_inline = 0');
    const inFiles = new Map(rows.map(({ generation, has_sums }) => [String(generation), has_sums === 1]));
    const paths = await bodyFiles(dir);
    const names = new Set(paths.map((path) => basename(path)));
    return {
      instances: Number(open?.instances),
      held,
      miscounted: [Number(counted?.entries) - Number(there?.entries), Number(counted?.bytes) - Number(there?.bytes)],
      orphans: paths.filter((path) => !inFiles.has(basename(path).replace(/\.\w+$/, ''))),
      bodiless: [...inFiles].flatMap(([name, hasSums]) => {
        const isThere = names.has(`${name}.body`) && (!hasSums || names.has(`${name}.sums`));
        return isThere ? [] : [name];
      }),
    };
  } finally {
    database.close();
  }
}
