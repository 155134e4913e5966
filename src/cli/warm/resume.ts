/** Notes in a file what was fetched, so that a later run goes on after it. */

import { closeSync, openSync, readFileSync, unlinkSync, writeSync } from 'node:fs';
import type { FetchTarget } from '../../media/targets.ts';

/** The first line of such a file. */
const TITLE = '{"rangeway":"warm","version":1}';

/** The notes of a run. */
export interface WarmNotes {
  /** Whether an earlier run has fetched the target. */
  isDone(target: FetchTarget): boolean;
  /** How many targets earlier runs have fetched. */
  readonly earlier: number;
  note(target: FetchTarget): void;
  /** Ends the notes; those of a run that has nothing left are removed. */
  close(isComplete: boolean): void;
}

/** Opens the notes in a file, or creates it. Throws where the file cannot be written, or is some other file. */
export function openNotes(path: string): WarmNotes {
  const done = readNotes(path);
  const fd = openSync(path, 'a', 0o600);
  // A kill may have cut the last line: then the next one begins on a line of its own.
  writeSync(fd, done === undefined ? `${TITLE}\n` : '\n');
  const known = done ?? new Set<string>();
  return {
    earlier: known.size,
    isDone: (target) => known.has(nameOf(target)),
    note: (target) => void writeSync(fd, `${JSON.stringify(nameOf(target))}\n`),
    close(isComplete) {
      closeSync(fd);
      if (isComplete) unlinkSync(path);
    },
  };
}

/** Notes nothing. */
export const noNotes: WarmNotes = { earlier: 0, isDone: () => false, note: () => undefined, close: () => undefined };

function nameOf({ url, range }: FetchTarget): string {
  return range === undefined ? url : `${range} ${url}`;
}

/** Returns what is noted; undefined where there is no file, or an empty one. */
function readNotes(path: string): Set<string> | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  if (text === '') return undefined;
  const [title, ...lines] = text.split('\n');
  if (title !== TITLE) throw new Error(`${path} has no notes of "rangeway warm": name another file`);
  const done = new Set<string>();
  for (const line of lines) {
    const name = parseNote(line);
    if (name !== undefined) done.add(name);
  }
  return done;
}

/** Returns a note. A kill may have cut the last line. */
function parseNote(line: string): string | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'string' ? value : undefined;
  } catch {
    return undefined;
  }
}
