/** What the matrix needs to know of a client, and what the clients share. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type ProgramResult, runProgram } from '../../support/processes/programs.ts';
import type { Fixtures } from './fixtures.ts';
import type { LegacyOrigin } from './origin.ts';
import { bytesOf, type LoggedRequest } from './relay.ts';

/** Where a client finds the files, and an empty directory to work in. */
export interface Place {
  /** Returns the URL of a file of the fixtures, by its name. */
  url(name: string): string;
  /** The scheme, host and port of all URLs. */
  readonly root: string;
  /** The path of the fixtures at the origin, such as `/7`. */
  readonly prefix: string;
  readonly fixtures: Fixtures;
  readonly origin: LegacyOrigin;
  /** An empty work directory. */
  readonly dir: string;
  /** The time within which the client must be done, in milliseconds. */
  readonly patienceMs: number;
  /** The requests of this client so far, as they arrived at the server that it asks. */
  requests(): readonly LoggedRequest[];
}

/** A client of the matrix. */
export interface Client {
  /** The name in the table. */
  readonly name: string;
  /** Programs that it needs. */
  readonly programs: readonly string[];
  /** The origins before which it tells something. */
  readonly origins: readonly LegacyOrigin[];
  /**
   * The bytes of the files that it asks for, where the origin has to send each of them once at most. The suite checks that against
   * the origin's log. Undefined where the length is not known before.
   */
  readonly fileBytes: ((fixtures: Fixtures) => number) | undefined;
  /** A shorter patience, in milliseconds, for a client that might try for ever at an origin without ranges. */
  readonly withoutMs?: number;
  /** Uses the server as people do. Rejects where the client does not get what it wants. */
  run(place: Place): Promise<void>;
}

/** Returns the SHA-256 of bytes, in hexadecimal. */
function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Throws where bytes are not the expected ones, and says what is known of them. */
export function checkBytes(what: string, bytes: Uint8Array, expected: Uint8Array): void {
  if (hashOf(bytes) === hashOf(expected)) return;
  throw new Error(
    `${what}: ${bytes.length} bytes with the SHA-256 ${hashOf(bytes)}, expected ${expected.length} bytes`,
  );
}

/** As `checkBytes`, for a file. */
export async function checkFile(path: string, expected: Uint8Array): Promise<void> {
  checkBytes(path, await readFile(path), expected);
}

/** Throws with this sentence where a condition does not hold. */
export function check(isSo: boolean, sentence: string): asserts isSo {
  if (!isSo) throw new Error(sentence);
}

/** Where a program runs, and how long it may take. */
type Work = Pick<Place, 'dir' | 'patienceMs'>;

/** Runs a program in the work directory. Rejects with its output where its exit code is not 0, and where it takes too long. */
export async function runIn(
  { dir, patienceMs }: Work,
  program: string,
  args: readonly string[],
): Promise<ProgramResult> {
  const result = await runProgram(program, args, dir, patienceMs);
  if (result.code === 0) return result;
  const output = result.stderr === '' ? result.stdout.toString() : result.stderr;
  throw new Error(`${program} ended with the exit code ${result.code}: ${output.slice(-1000)}`);
}

/** Throws where a reader got more than a part of the file: then it has not read ranges. */
export function checkShare({ requests }: Place, sizeBytes: number): void {
  const bytes = bytesOf(requests());
  check(bytes < 0.75 * sizeBytes, `the reader got ${bytes} of ${sizeBytes} bytes`);
}

/** Rejects when the patience of the place is at its end. For clients that have no timeout of their own. */
export async function within({ patienceMs }: Place, work: Promise<void>): Promise<void> {
  const { promise: tooLong, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`it was not done within ${patienceMs} ms`)), patienceMs);
  try {
    await Promise.race([work, tooLong]);
  } finally {
    clearTimeout(timer);
  }
}
