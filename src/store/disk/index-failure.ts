/** How SQLite fails: what its errors say of the index. */

import { systemCode } from './file-system.ts';
import { ForeignTables } from './index-format.ts';

/** Primary result codes of SQLite (https://sqlite.org/rescode.html). */
const sqlite = { error: 1, busy: 5, locked: 6, corrupt: 11, full: 13, constraint: 19, notADatabase: 26 } as const;
/** Rows as the store writes them break no constraint: where one is broken, a row or an index of the table is damaged. */
const damageCodes: ReadonlySet<number> = new Set([sqlite.corrupt, sqlite.constraint, sqlite.notADatabase]);

/** The file is damaged or no database; the disk is full; another process has kept it locked for long; or else. */
export type IndexFailure = 'damaged' | 'full' | 'busy' | 'other';

/** How SQLite failed; undefined for another error. */
export function failureOf(error: unknown): IndexFailure | undefined {
  // A number that no store has written: it is beyond those that JavaScript knows exactly.
  if (systemCode(error) === 'ERR_OUT_OF_RANGE') return 'damaged';
  const code = sqliteCode(error);
  if (code === undefined) return undefined;
  if (damageCodes.has(code)) return 'damaged';
  if (isBusy(error)) return 'busy';
  return code === sqlite.full ? 'full' : 'other';
}

/** Whether an error says that another connection has a lock that is needed. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === sqlite.busy || code === sqlite.locked;
}

/** Whether an error at the opening says that the file is damaged, or has not the tables that its format promises. */
export function isUnusable(error: unknown): boolean {
  return error instanceof ForeignTables || failureOf(error) === 'damaged' || sqliteCode(error) === sqlite.error;
}

/** The primary result code of an error of SQLite; undefined for another error. */
function sqliteCode(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode & 0xff
    : undefined;
}
