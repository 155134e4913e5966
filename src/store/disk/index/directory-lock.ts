/**
 * Which process may use a store's directory: one by itself, or one that starts others, and those. The locks are SQLite's on two
 * empty files, because they end with the process that holds them, however it ends.
 */

import { closeSync, openSync } from 'node:fs';
import * as promises from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { StoreFault } from '../../store.ts';
import { createDirectory, type FileSystem, systemCode } from '../bodies/file-system.ts';
import { isBusy } from './index-tables.ts';

/** A lock that is held until it is released, or the process ends. */
export interface DirectoryLock extends Disposable {
  /** Gives the lock back; may be called more than once. */
  release(): void;
}

/** One process has this file: it owns the directory. */
const ownerFile = 'owner.lock';
/** Those whom the owner has started share this one; whoever opens or replaces the index has it for a moment besides. */
const membersFile = 'members.lock';

/** So long is waited for processes whose owner has died, which end by themselves, in milliseconds. */
const membersGoneWithinMs = 5_000;
/** So long is waited for another one that opens or replaces the index, in milliseconds. */
const indexFreeWithinMs = 10_000;

/** A lock lasts although nobody remembers it: a connection that nothing refers to would be closed. */
const heldLocks = new Set<DatabaseSync>();

/**
 * Locks a store's directory for this process and those that it will start; creates it where it does not exist. Waits a
 * little, without giving anybody a turn, for those whom an earlier owner has started and who have lost it. Throws
 * `StoreFault`, `in_use` when another process has the directory.
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

/** Joins the processes whom the owner of a directory has started. Throws `StoreFault`. */
export function joinDirectory(dir: string): DirectoryLock {
  return lock(dir, membersFile, 'BEGIN; SELECT COUNT(*) FROM sqlite_schema', membersGoneWithinMs);
}

/** Runs something that one process at a time may do with the index. Throws `StoreFault`, and what it throws. */
export function withIndexLock<T>(dir: string, run: () => T): T {
  using _lock = lock(dir, membersFile, 'BEGIN IMMEDIATE', indexFreeWithinMs);
  return run();
}

/** Creates a part of a store's directory, and what is missing above it. Throws `StoreFault` `io`. */
export async function createStoreDirectory(fileSystem: FileSystem, dir: string, path: string): Promise<void> {
  try {
    await createDirectory(fileSystem, path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new StoreFault('io', `The directory ${dir} cannot be created: ${why}`, { cause: error });
  }
}

/** The fault of an opening that failed. */
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
    // Nothing is ever written: there is to be no journal beside it.
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
 * Creates a file for this user alone where there is none; tells whether it did. One that is there is not opened, for to
 * close it again would end this process's own locks on it.
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
