/** The tables of the index, and what leads from each of their formats to the next one. */

import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';

/** The file has tables that are not those of the format that it claims to have. */
export class ForeignTables extends Error {}

/**
 * What leads from each format to the next one; the newest format is the length of this list. A step is never changed
 * once it was released.
 */
const upgrades: readonly string[] = [
  `
    CREATE TABLE entries (
      id INTEGER PRIMARY KEY,
      key TEXT NOT NULL,
      variant TEXT NOT NULL,
      generation TEXT NOT NULL UNIQUE,
      metadata TEXT NOT NULL,
      size_bytes INTEGER NOT NULL,
      allocated_bytes INTEGER NOT NULL,
      is_inline INTEGER NOT NULL,
      checksum INTEGER NOT NULL,
      stored_at INTEGER NOT NULL,
      used_at INTEGER NOT NULL,
      UNIQUE (key, variant)
    ) STRICT;
    CREATE INDEX entries_by_use ON entries (used_at, allocated_bytes);
    -- Apart from their entries, so that a change of metadata or used_at does not write them again.
    CREATE TABLE bodies (
      entry_id INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
      bytes BLOB NOT NULL,
      checksum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE settings (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
  `,
  `
    -- A new table, for a constraint that there is one row of each key and variant cannot be dropped.
    CREATE TABLE new_entries (
      id INTEGER PRIMARY KEY,
      key TEXT NOT NULL,
      variant TEXT NOT NULL,
      generation TEXT NOT NULL UNIQUE,
      metadata TEXT NOT NULL,
      size_bytes INTEGER NOT NULL,
      allocated_bytes INTEGER NOT NULL,
      is_inline INTEGER NOT NULL,
      is_complete INTEGER NOT NULL,
      -- NULL for the current generation of a key and variant.
      pinned_until INTEGER,
      checksum INTEGER NOT NULL,
      stored_at INTEGER NOT NULL
    ) STRICT;
    INSERT INTO new_entries
      SELECT id, key, variant, generation, metadata, size_bytes, allocated_bytes, is_inline, 1, NULL, checksum, stored_at
      FROM entries;
    -- The entries that were used since the hand of the eviction passed them. Apart, because so many fit into a page.
    CREATE TABLE uses (entry_id INTEGER PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE) STRICT;
    INSERT INTO uses SELECT id FROM entries WHERE used_at > stored_at;
    DROP TABLE entries;
    ALTER TABLE new_entries RENAME TO entries;
    CREATE INDEX entries_by_place ON entries (key, variant);
    CREATE INDEX entries_by_pin ON entries (pinned_until) WHERE pinned_until IS NOT NULL;
    -- One row, so that nothing has to be counted at a start: what all entries take, the same negated, which shows a
    -- flipped bit, and the id of the entry that the hand has passed last.
    CREATE TABLE room (
      id INTEGER PRIMARY KEY,
      allocated_bytes INTEGER NOT NULL,
      negated_bytes INTEGER NOT NULL,
      hand INTEGER NOT NULL
    ) STRICT;
    INSERT INTO room SELECT 1, COALESCE(SUM(allocated_bytes), 0), -COALESCE(SUM(allocated_bytes), 0), 0 FROM entries;
    CREATE TRIGGER entry_inserted AFTER INSERT ON entries BEGIN
      UPDATE room SET allocated_bytes = allocated_bytes + NEW.allocated_bytes,
                      negated_bytes = negated_bytes - NEW.allocated_bytes WHERE id = 1;
    END;
    CREATE TRIGGER entry_resized AFTER UPDATE OF allocated_bytes ON entries BEGIN
      UPDATE room SET allocated_bytes = allocated_bytes + NEW.allocated_bytes - OLD.allocated_bytes,
                      negated_bytes = negated_bytes - NEW.allocated_bytes + OLD.allocated_bytes WHERE id = 1;
    END;
    CREATE TRIGGER entry_deleted AFTER DELETE ON entries BEGIN
      UPDATE room SET allocated_bytes = allocated_bytes - OLD.allocated_bytes,
                      negated_bytes = negated_bytes + OLD.allocated_bytes WHERE id = 1;
    END;
  `,
  `
    CREATE TABLE tags (
      tag TEXT NOT NULL,
      entry_id INTEGER NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
      PRIMARY KEY (tag, entry_id)
    ) STRICT, WITHOUT ROWID;
    -- An entry that is deleted looks its tags up here.
    CREATE INDEX tags_by_entry ON tags (entry_id);
  `,
  `
    -- The processes that have the index open, where several do, and the room that each has reserved for what no row counts.
    CREATE TABLE instances (name TEXT PRIMARY KEY, reserved_bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    -- The generations that one of them is writing: no other one writes them, and none evicts them.
    CREATE TABLE held (generation TEXT PRIMARY KEY, instance TEXT NOT NULL) STRICT, WITHOUT ROWID;
    ALTER TABLE room ADD COLUMN entry_count INTEGER NOT NULL DEFAULT 0;
    UPDATE room SET entry_count = (SELECT COUNT(*) FROM entries);
    DROP TRIGGER entry_inserted;
    CREATE TRIGGER entry_inserted AFTER INSERT ON entries BEGIN
      UPDATE room SET allocated_bytes = allocated_bytes + NEW.allocated_bytes,
                      negated_bytes = negated_bytes - NEW.allocated_bytes,
                      entry_count = entry_count + 1 WHERE id = 1;
    END;
    DROP TRIGGER entry_deleted;
    CREATE TRIGGER entry_deleted AFTER DELETE ON entries BEGIN
      UPDATE room SET allocated_bytes = allocated_bytes - OLD.allocated_bytes,
                      negated_bytes = negated_bytes + OLD.allocated_bytes,
                      entry_count = entry_count - 1 WHERE id = 1;
    END;
  `,
  `
    -- The checksum of a body that is one block in a file without a sidecar; NULL for all others.
    ALTER TABLE entries ADD COLUMN block_checksum INTEGER;
  `,
];

/** The format that this version writes. */
export const newestFormat = upgrades.length;

/** The format of a database; 0 for one that is empty. */
export function formatOf(database: DatabaseSync): number {
  const first: { readonly user_version?: SQLOutputValue } | undefined = database.prepare('PRAGMA user_version').get();
  return Number(first?.user_version);
}

/**
 * Brings a database of an older format to the newest one, within the caller's transaction. Foreign keys must not be
 * enforced, or a table that is made anew would take the rows of others with it. Throws `ForeignTables`, and the error of
 * SQLite.
 */
export function upgradeFormat(database: DatabaseSync): void {
  const format = formatOf(database);
  for (const step of upgrades.slice(format)) database.exec(step);
  // Nothing is written where nothing is to be changed: a full disk must not keep a store from being opened.
  if (format < newestFormat) database.exec(`PRAGMA user_version = ${newestFormat}`);
  checkTables(database);
}

/** Compares the tables with those of a new index: a flipped bit in a declaration would make every row look wrong. */
function checkTables(database: DatabaseSync): void {
  const sound = new DatabaseSync(':memory:');
  try {
    for (const step of upgrades) sound.exec(step);
    if (declarations(database) !== declarations(sound))
      throw new ForeignTables('The tables are not those of the format.');
  } finally {
    sound.close();
  }
}

/** SQLite keeps declarations as they were written; how they were set out does not matter. */
function declarations(database: DatabaseSync): string {
  const rows = database.prepare('SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name').all();
  return JSON.stringify(rows.map((row) => Object.values(row).join(' ').replace(/\s+/g, ' ')));
}
