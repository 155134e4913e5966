/**
 * Locks that decide which processes may use a store's directory: one process alone, or an owner and the processes that it starts.
 * They are SQLite locks on two empty files, because such a lock ends with its process, however that ends.
 */

import { closeSync, openSync } from 'node:fs';
import * as promises from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StoreFault } from '../../store.ts';
import { createDirectory, type FileSystem, systemCode } from '../bodies/file-system.ts';
import { isBusy } from './index-tables.ts';

/** A lock that is held until it is released or the process ends. */
export interface DirectoryLock extends Disposable {
  /** Releases the lock. May be called more than once. */
  release(): void;
}

/** Lock file of the owner of the directory. */
const ownerFile = 'owner.lock';
/**
 * Lock file that the processes started by the owner share. A process that opens or replaces the index also has its write lock for
 * that time.
 */
const membersFile = 'members.lock';

/** How long to wait for the processes of a dead owner, which end by themselves, in milliseconds. */
const membersGoneWithinMs = 5_000;
/** How long to wait for another process that opens or replaces the index, in milliseconds. */
const indexFreeWithinMs = 10_000;

/** Keeps locks that nothing else refers to: their connections would be garbage-collected and closed. */
const heldLocks = new Set<DatabaseSync>();

/**
 * Locks a store's directory for this process and those that it will start; creates the directory where it does not exist. May
 * block the event loop for up to 5 seconds while it waits for processes that an earlier, dead owner has started. Throws
 * `StoreFault`, with `in_use` when another process has the directory.
 */
export async function lockDirectory(dir: string, fileSystem: FileSystem = promises): Promise<DirectoryLock> {
  await createStoreDirectory(fileSystem, dir, dir);
  const owner = lock(dir, ownerFile, 'BEGIN EXCLUSIVE', 0);
  try {
    lock(dir, membersFile, 'BEGIN EXCLUSIVE', membersGoneWithinMs).release();
    return owner;
  } catch (error) {
    owner.release();
    throw error;
  }
}

/** Joins the processes that the owner of a directory has started. Throws `StoreFault`. */
export function joinDirectory(dir: string): DirectoryLock {
  return lock(dir, membersFile, 'BEGIN; SELECT COUNT(*) FROM sqlite_schema', membersGoneWithinMs);
}

/** Runs a function that only one process at a time may run on the index. Throws `StoreFault`, and what the function throws. */
export function withIndexLock<T>(dir: string, run: () => T): T {
  using _lock = lock(dir, membersFile, 'BEGIN IMMEDIATE', indexFreeWithinMs);
  return run();
}

/** Creates `path`, a directory of the store in `dir`, and its missing parents. Throws `StoreFault` `io`. */
export async function createStoreDirectory(fileSystem: FileSystem, dir: string, path: string): Promise<void> {
  try {
    await createDirectory(fileSystem, path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new StoreFault('io', `The directory ${dir} cannot be created: ${why}`, { cause: error });
  }
}

/** Returns the fault of a failed opening: `in_use` where another process has the lock, otherwise `io`. */
export function openingFault(error: unknown, dir: string): StoreFault {
  if (isBusy(error)) {
    const message = `The directory ${dir} is in use by another process. Choose another one with --dir.`;
    return new StoreFault('in_use', message, { cause: error });
  }
  const why = error instanceof Error ? error.message : String(error);
  return new StoreFault('io', `The store in ${dir} cannot be opened: ${why}`, { cause: error });
}

function lock(dir: string, file: string, begin: string, timeoutMs: number): DirectoryLock {
  let database: DatabaseSync | undefined;
  try {
    createFile(join(dir, file));
    database = new DatabaseSync(join(dir, file), { timeout: timeoutMs });
    // Nothing is ever written, so SQLite should create no journal file beside it.
    database.exec(`PRAGMA journal_mode = MEMORY; ${begin}`);
  } catch (error) {
    database?.close();
    throw openingFault(error, dir);
  }
  const held = database;
  heldLocks.add(held);
  const release = () => {
    if (heldLocks.delete(held)) held.close();
  };
  return { release, [Symbol.dispose]: release };
}

/**
 * Creates an empty file for this user alone where there is none; returns whether it did. An existing file is not opened, because
 * closing it again would end this process's own locks on it.
 */
export function createFile(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx', 0o600));
    return true;
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
    return false;
  }
}
