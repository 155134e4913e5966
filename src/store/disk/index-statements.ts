/** What the index is asked and told, as prepared statements. */

import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementResultingChanges } from 'node:sqlite';

/** A row as SQLite gives it: those of these columns that were asked for. */
export interface Row {
  readonly id?: SQLOutputValue;
  readonly key?: SQLOutputValue;
  readonly variant?: SQLOutputValue;
  readonly generation?: SQLOutputValue;
  readonly metadata?: SQLOutputValue;
  readonly size_bytes?: SQLOutputValue;
  readonly allocated_bytes?: SQLOutputValue;
  readonly negated_bytes?: SQLOutputValue;
  readonly is_inline?: SQLOutputValue;
  readonly is_complete?: SQLOutputValue;
  readonly pinned_until?: SQLOutputValue;
  readonly is_used?: SQLOutputValue;
  readonly hand?: SQLOutputValue;
  readonly entry_count?: SQLOutputValue;
  readonly name?: SQLOutputValue;
  readonly reserved_bytes?: SQLOutputValue;
  readonly instance?: SQLOutputValue;
  readonly checksum?: SQLOutputValue;
  readonly block_checksum?: SQLOutputValue;
  readonly bytes?: SQLOutputValue;
  readonly page_count?: SQLOutputValue;
  readonly freelist_count?: SQLOutputValue;
}

/** So many pages of the index go back to the file system in one transaction. */
const pagesGivenBackAtOnce = 512;

/** A prepared statement: all of its rows, the first of them, or what it changed. */
interface Statement {
  all(...values: SQLInputValue[]): readonly Row[];
  get(...values: SQLInputValue[]): Row | undefined;
  run(...values: SQLInputValue[]): StatementResultingChanges;
}

/** The prepared statements, by what they do. */
export type IndexStatements = ReturnType<typeof prepareStatements>;

/** Prepares all statements once. Throws the error of SQLite. */
export function prepareStatements(database: DatabaseSync) {
  const prepare = (sql: string): Statement => database.prepare(sql);
  return {
    begin: prepare('BEGIN IMMEDIATE'),
    commit: prepare('COMMIT'),
    rollback: prepare('ROLLBACK'),
    entriesOfKey: prepare(
      `SELECT key, variant, generation, metadata, size_bytes, is_inline, is_complete, pinned_until, checksum, block_checksum
       FROM entries WHERE key = ? ORDER BY id DESC`,
    ),
    currentOfVariant: prepare(
      `SELECT key, variant, generation, metadata, size_bytes, is_inline, is_complete, pinned_until, checksum, block_checksum
       FROM entries WHERE key = ? AND variant = ? AND pinned_until IS NULL`,
    ),
    entryOfGeneration: prepare(
      `SELECT key, variant, generation, metadata, size_bytes, allocated_bytes, is_inline, is_complete, pinned_until,
              checksum, block_checksum
       FROM entries WHERE generation = ?`,
    ),
    idOfGeneration: prepare('SELECT id FROM entries WHERE generation = ?'),
    bodyOfGeneration: prepare(
      `SELECT bytes, bodies.checksum AS checksum
       FROM bodies JOIN entries ON entries.id = entry_id WHERE generation = ?`,
    ),
    insertEntry: prepare(
      `INSERT INTO entries
         (key, variant, generation, metadata, size_bytes, allocated_bytes, is_inline, is_complete, checksum, stored_at, block_checksum)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    insertBody: prepare('INSERT INTO bodies (entry_id, bytes, checksum) VALUES (?, ?, ?)'),
    // A tag that is there already, because it is listed twice or its row was damaged, is no reason to fail.
    insertTag: prepare('INSERT OR IGNORE INTO tags SELECT ?, id FROM entries WHERE generation = ?'),
    deleteTags: prepare('DELETE FROM tags WHERE entry_id = (SELECT id FROM entries WHERE generation = ?)'),
    taggedEntries: prepare(
      `SELECT id, key, variant, generation, metadata, size_bytes, is_inline, is_complete, pinned_until, checksum, block_checksum
       FROM tags JOIN entries ON id = entry_id WHERE tag = ? AND entry_id > ? ORDER BY entry_id LIMIT ?`,
    ),
    // Without an end of the range, for there is none that every text with the prefix comes before: who asks stops by itself.
    entriesFrom: prepare(
      `SELECT id, key, variant, generation, metadata, size_bytes, is_inline, is_complete, pinned_until, checksum, block_checksum
       FROM entries WHERE (key, variant, id) > (?, ?, ?) ORDER BY key, variant, id LIMIT ?`,
    ),
    updateMetadata: prepare('UPDATE entries SET metadata = ?, checksum = ?, allocated_bytes = ? WHERE generation = ?'),
    updateAllocated: prepare('UPDATE entries SET allocated_bytes = ? WHERE generation = ?'),
    updateIncomplete: prepare('UPDATE entries SET is_complete = 0 WHERE generation = ?'),
    updatePin: prepare('UPDATE entries SET pinned_until = ?, checksum = ? WHERE generation = ?'),
    superfluousPins: prepare(
      `SELECT generation FROM entries WHERE key = ? AND variant = ? AND pinned_until > ?
       ORDER BY id DESC LIMIT -1 OFFSET ?`,
    ),
    expiredPins: prepare('SELECT generation FROM entries WHERE pinned_until <= ? ORDER BY pinned_until LIMIT ?'),
    deleteCurrent: prepare(
      `DELETE FROM entries WHERE key = ? AND variant = ? AND pinned_until IS NULL
       RETURNING key, generation, is_inline, block_checksum, allocated_bytes`,
    ),
    deleteGeneration: prepare(
      `DELETE FROM entries WHERE generation = ?
       RETURNING key, generation, is_inline, block_checksum, allocated_bytes`,
    ),
    room: prepare('SELECT allocated_bytes, negated_bytes, hand, entry_count FROM room WHERE id = 1'),
    recount: prepare(
      `INSERT OR REPLACE INTO room
       SELECT 1, COALESCE(SUM(allocated_bytes), 0), -COALESCE(SUM(allocated_bytes), 0), 0, COUNT(*) FROM entries`,
    ),
    afterHand: prepare(
      `SELECT id, entries.generation AS generation, allocated_bytes, entry_id IS NOT NULL AS is_used, instance
       FROM entries LEFT JOIN uses ON entry_id = id LEFT JOIN held ON held.generation = entries.generation
       WHERE id > ? ORDER BY id LIMIT ?`,
    ),
    updateHand: prepare('UPDATE room SET hand = ? WHERE id = 1'),
    insertUse: prepare('INSERT OR IGNORE INTO uses SELECT id FROM entries WHERE generation = ?'),
    deleteUse: prepare('DELETE FROM uses WHERE entry_id = ?'),
    ...prepareSharing(prepare),
    pageCount: prepare('PRAGMA page_count'),
    freePageCount: prepare('PRAGMA freelist_count'),
    giveBackPages: prepare(`PRAGMA incremental_vacuum(${pagesGivenBackAtOnce})`),
  };
}

/** The statements about the processes that share the index. */
function prepareSharing(prepare: (sql: string) => Statement) {
  return {
    allInstances: prepare('SELECT name FROM instances'),
    instanceOf: prepare('SELECT name FROM instances WHERE name = ?'),
    reservedByOthers: prepare(
      'SELECT COALESCE(SUM(reserved_bytes), 0) AS reserved_bytes FROM instances WHERE name <> ?',
    ),
    putInstance: prepare('INSERT OR REPLACE INTO instances VALUES (?, ?)'),
    addReserved: prepare(
      `INSERT INTO instances VALUES (?1, MAX(0, ?2))
       ON CONFLICT (name) DO UPDATE SET reserved_bytes = MAX(0, reserved_bytes + ?2)`,
    ),
    keepReserved: prepare(
      `INSERT INTO instances SELECT ?1, reserved_bytes FROM instances WHERE name = ?2
       ON CONFLICT (name) DO UPDATE SET reserved_bytes = reserved_bytes + excluded.reserved_bytes`,
    ),
    deleteInstance: prepare('DELETE FROM instances WHERE name = ?'),
    holderOf: prepare('SELECT instance FROM held WHERE generation = ?'),
    hold: prepare('INSERT OR REPLACE INTO held VALUES (?, ?)'),
    letGo: prepare('DELETE FROM held WHERE generation = ? AND instance = ?'),
    letAllGoOf: prepare('DELETE FROM held WHERE instance = ?'),
    letAllGo: prepare('DELETE FROM held'),
  };
}
