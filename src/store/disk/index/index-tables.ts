/**
 * The index as SQLite sees it: its tables, the upgrade from each format to the next, the prepared statements, and the meaning of
 * SQLite's errors.
 */

import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementResultingChanges } from 'node:sqlite';
import { systemCode } from '../bodies/file-system.ts';

/** The tables of the file are not those of the format that it claims to have. */
class ForeignTables extends Error {}

/**
 * The steps from each format to the next one; the length of this list is the newest format. A released step is never changed, not
 * even its comments: SQLite stores the comments of a declaration, and `checkTables` compares them.
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

/** Returns the format of a database; 0 for an empty one. */
export function formatOf(database: DatabaseSync): number {
  const first: { readonly user_version?: SQLOutputValue } | undefined = database.prepare('PRAGMA user_version').get();
  return Number(first?.user_version);
}

/**
 * Upgrades a database to the newest format, within the caller's transaction. Foreign keys must not be enforced, or rebuilding a
 * table would delete the rows of other tables that refer to it. Throws `ForeignTables`, and the error of SQLite.
 */
export function upgradeFormat(database: DatabaseSync): void {
  const format = formatOf(database);
  for (const step of upgrades.slice(format)) database.exec(step);
  // Writes nothing where nothing changes: a store must open on a full disk.
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

/** Returns the declarations of a database. SQLite stores them as they were written; their white space does not matter. */
function declarations(database: DatabaseSync): string {
  const rows = database.prepare('SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name').all();
  return JSON.stringify(rows.map((row) => Object.values(row).join(' ').replace(/\s+/g, ' ')));
}

/** A row as SQLite returns it: only the selected columns. */
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
  readonly rank?: SQLOutputValue;
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

/** Number of index pages that go back to the file system in one transaction. */
const pagesGivenBackAtOnce = 512;

/** A prepared statement. Returns all rows, the first row, or what it changed. */
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
    // A tag that is already there, because it is listed twice or its row was damaged, must not make the insert fail.
    insertTag: prepare('INSERT OR IGNORE INTO tags SELECT ?, id FROM entries WHERE generation = ?'),
    deleteTags: prepare('DELETE FROM tags WHERE entry_id = (SELECT id FROM entries WHERE generation = ?)'),
    taggedEntries: prepare(
      `SELECT id, key, variant, generation, metadata, size_bytes, is_inline, is_complete, pinned_until, checksum, block_checksum
       FROM tags JOIN entries ON id = entry_id WHERE tag = ? AND entry_id > ? ORDER BY entry_id LIMIT ?`,
    ),
    // Has no upper end, because no text follows all texts with a given prefix. The caller stops by itself.
    entriesFrom: prepare(
      `SELECT id, key, variant, generation, metadata, size_bytes, is_inline, is_complete, pinned_until, checksum, block_checksum
       FROM entries WHERE (key, variant, id) > (?, ?, ?) ORDER BY key, variant, id LIMIT ?`,
    ),
    windowEnd: prepare('SELECT MAX(id) AS id FROM (SELECT id FROM entries WHERE id > ? ORDER BY id LIMIT ?)'),
    rankedRows: prepareRanked(prepare),
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
      `SELECT id, key, entries.generation AS generation, allocated_bytes, entry_id IS NOT NULL AS is_used, instance
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

/** What a row is ranked by; undefined for an order that the index does not know. A damaged row has some rank. */
const rankColumns = {
  key: 'key',
  size: 'size_bytes',
  age: "CAST(IIF(json_valid(metadata), json_extract(metadata, '$.responseAt'), 0) AS REAL)",
  used: undefined,
} as const;

/** What entries can be ranked by. */
export type RankName = keyof typeof rankColumns;

/**
 * Returns a function that prepares the statement of an order when it is first needed. The statement selects rows with ids in a
 * window by the beginning of their keys, a text and its pattern, and a tag (NULL for none), at most `LIMIT` of them in their order,
 * after a place if the first parameter is 0. Where the index does not know the order, it selects the generations of all rows as one
 * text, because a thousand rows of their own take ten times as long.
 */
function prepareRanked(prepare: (sql: string) => Statement): (by: RankName, isFalling: boolean) => Statement {
  const known = new Map<string, Statement>();
  return (by, isFalling) => {
    const name = `${by} ${isFalling}`;
    const rank = rankColumns[by] ?? '0';
    const [sign, direction] = isFalling ? ['<', 'DESC'] : ['>', 'ASC'];
    const isKnown = rankColumns[by] !== undefined;
    const selected = isKnown ? `generation, ${rank} AS rank` : "group_concat(generation, ' ') AS generation";
    const order = isKnown ? `ORDER BY ${rank} ${direction}, generation ${direction}` : '';
    const statement =
      known.get(name) ??
      prepare(
        `SELECT ${selected} FROM entries
         WHERE id > ? AND id <= ? AND (? OR (${rank}, generation) ${sign} (?, ?)) AND instr(key, ?) = 1
           AND (? = '' OR key LIKE ? ESCAPE '\\')
           AND (? IS NULL OR EXISTS (SELECT 1 FROM tags WHERE tag = ? AND entry_id = id))
         ${order} LIMIT ?`,
      );
    known.set(name, statement);
    return statement;
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
      // Not ?1 and ?2: node:sqlite before Node 24.7 cannot bind numbered parameters by position.
      `INSERT INTO instances VALUES (?, MAX(0, ?))
       ON CONFLICT (name) DO UPDATE SET reserved_bytes = MAX(0, reserved_bytes + ?)`,
    ),
    keepReserved: prepare(
      `INSERT INTO instances SELECT ?, reserved_bytes FROM instances WHERE name = ?
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

/** Primary result codes of SQLite (https://sqlite.org/rescode.html). */
const sqlite = { error: 1, busy: 5, locked: 6, corrupt: 11, full: 13, constraint: 19, notADatabase: 26 } as const;
/** Rows that the store writes violate no constraint: a violation means that a row or an index of the table is damaged. */
const damageCodes: ReadonlySet<number> = new Set([sqlite.corrupt, sqlite.constraint, sqlite.notADatabase]);

/** The file is damaged or not a database; the disk is full; another process has kept it locked for long; any other failure. */
type IndexFailure = 'damaged' | 'full' | 'busy' | 'other';

/** Returns how SQLite failed; undefined for another error. */
export function failureOf(error: unknown): IndexFailure | undefined {
  // No store has written such a number: it is beyond JavaScript's exact integers.
  if (systemCode(error) === 'ERR_OUT_OF_RANGE') return 'damaged';
  const code = sqliteCode(error);
  if (code === undefined) return undefined;
  if (damageCodes.has(code)) return 'damaged';
  if (isBusy(error)) return 'busy';
  return code === sqlite.full ? 'full' : 'other';
}

/** Checks whether an error says that another connection has a lock that is needed. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === sqlite.busy || code === sqlite.locked;
}

/** Checks whether an error at opening says that the file is damaged, or lacks the tables that its format promises. */
export function isUnusable(error: unknown): boolean {
  return error instanceof ForeignTables || failureOf(error) === 'damaged' || sqliteCode(error) === sqlite.error;
}

/** Returns the primary result code of an error of SQLite; undefined for another error. */
function sqliteCode(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode & 0xff
    : undefined;
}
