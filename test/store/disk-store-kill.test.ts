/** The disk store after `kill -9`: committed entries and blocks that were added to a part are kept. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { bodyFiles, openTestStore, temporaryDirectory } from '../support/stores/disk-store.ts';
import {
  blockOf,
  findFirst,
  readEntry,
  readKey,
  type Sample,
  sampleMetadata,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const program = fileURLToPath(new URL('../support/processes/store-until-killed.ts', import.meta.url));

/** A line of the program: an entry that it has committed, and the index of a block that it has added to the part. */
type Report = Required<Pick<Sample, 'key' | 'sizeBytes' | 'seed'>> & { readonly partBlock: number };

/** Runs the program until it has reported `commits` commits, and kills it; returns all reports. */
async function storeUntilKilled(dir: string, commits: number): Promise<Report[]> {
  const child = spawn(process.execPath, [program, dir], { stdio: ['ignore', 'pipe', 'ignore'] });
  const gone = once(child, 'exit');
  const reports: Report[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    reports.push(JSON.parse(line));
    if (reports.length === commits) child.kill('SIGKILL');
  }
  await gone;
  return reports;
}

it.each([1, 25])('a process killed after %i reports has kept each block that it added to a part', async (commits) => {
  const dir = await temporaryDirectory();
  const reports = await storeUntilKilled(dir, commits);
  const { store, events } = await openTestStore({ dir });
  const entry = await findFirst(store, 'part');
  if (entry === undefined) throw new Error('the part is gone');
  expect(entry.isComplete).toBe(false);
  const writer = await store.resume(entry);
  if (writer === undefined) throw new Error('the part cannot be resumed');
  for (const { partBlock } of reports) expect(writer.hasBlock(partBlock)).toBe(true);
  const part = { key: 'part', sizeBytes: entry.sizeBytes, seed: 7 };
  for (let index = 0; index < 512; index += 1) {
    const expected = blockOf(part, 16 * 1024, index);
    if (writer.hasBlock(index)) expect(Buffer.compare(await writer.readBlock(index), expected)).toBe(0);
    else await writer.writeBlock(index, expected);
  }
  await writer.commit({ metadata: sampleMetadata(7), sizeBytes: part.sizeBytes });
  await writer[Symbol.asyncDispose]();
  expect(await readKey(store, 'part')).toEqual(Buffer.from(patternBytes(0, part.sizeBytes, 7)));
  expect(events.filter((event) => event.level !== 'info')).toEqual([]);
});

it.each([1, 7, 40])('a process killed after %i commits has kept all of them', async (commits) => {
  const dir = await temporaryDirectory();
  const reports = await storeUntilKilled(dir, commits);
  expect(reports.length).toBeGreaterThanOrEqual(commits);
  const { store, events } = await openTestStore({ dir });
  const last = new Map(reports.map((sample) => [sample.key, sample]));
  for (const { key, sizeBytes, seed } of last.values()) {
    const entry = await findFirst(store, key);
    if (entry === undefined) throw new Error(`${key} is gone`);
    const bytes = await readEntry(store, entry);
    // The commit under way when the process was killed may have succeeded without a report.
    if (key === 'again' && entry.sizeBytes !== sizeBytes) continue;
    expect(bytes).toEqual(Buffer.from(patternBytes(0, sizeBytes, seed)));
  }
  expect(await store.find('never')).toEqual([]);
  await expect
    .poll(() => events.map((event) => event.message))
    .toEqual(['Files without an entry were removed from the store.']);
  const inFiles = new Set<string>();
  for (let at = 0; at <= reports.length + 1; at += 1) {
    for (const key of [`k${at}`, 'again']) {
      const entry = await findFirst(store, key);
      if (entry !== undefined && entry.sizeBytes > 32 * 1024) inFiles.add(entry.generation);
    }
  }
  expect(await bodyFiles(dir)).toHaveLength(2 * (inFiles.size + 1));
});
