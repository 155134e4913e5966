/** Several processes under load that share one directory: each of them reads only right bytes, whatever the others do. */

import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';
import { sharedBlockBytes, sharedSizeBytes } from '../support/processes/sharing-messages.ts';
import { SharingProcesses } from '../support/processes/sharing-processes.ts';
import { openTestStore, temporaryDirectory } from '../support/stores/disk-store.ts';
import { orphanedFiles } from '../support/stores/store-directory.ts';

/** Returns how far the account of a closed index is off, and how many processes and held generations it lists. */
function accountOf(dir: string) {
  const database = new DatabaseSync(join(dir, 'index.sqlite'));
  try {
    return {
      ...database
        .prepare(
          `SELECT allocated_bytes - (SELECT COALESCE(SUM(allocated_bytes), 0) FROM entries) AS excess,
                  entry_count - (SELECT COUNT(*) FROM entries) AS excessCount,
                  (SELECT COUNT(*) FROM instances) AS instances, (SELECT COUNT(*) FROM held) AS held
           FROM room`,
        )
        .get(),
    };
  } finally {
    database.close();
  }
}

/** Waits until only files that are being written have no row. A store that is closed before would stop its sweep. */
async function untilSwept(dir: string): Promise<void> {
  let before: readonly string[] | undefined;
  const lasting = async () => {
    const now = await orphanedFiles(dir);
    const both = before === undefined ? undefined : now.filter((path) => before?.includes(path));
    before = now;
    return both;
  };
  await expect.poll(lasting, { interval: 200 }).toEqual([]);
}

it('two processes that find the index damaged go on with one fresh index, and read nothing wrong', async () => {
  const dir = await temporaryDirectory();
  const processes = new SharingProcesses(dir);
  const both = [await processes.start(), await processes.start()];
  await Promise.all(both.map((each) => each.afterSteps(100)));
  const index = join(dir, 'index.sqlite');
  // Both are opened before either is damaged, because both are set aside as soon as damage is found.
  const files = await Promise.all([index, `${index}-wal`].map((path) => open(path, 'r+')));
  for (const file of files) {
    const { size } = await file.stat();
    await file.write(Buffer.alloc(Math.max(0, size - 4096), 0xa5), { position: 4096 });
    await file.close();
  }
  await expect.poll(async () => (await readdir(dir)).includes('index.sqlite.damaged')).toBe(true);
  await Promise.all(both.map((each) => each.afterSteps(100)));
  await untilSwept(dir);
  const ends = await Promise.all(both.map((each) => each.end()));
  const isDamage = (wrong: string) => /"level":"(?:warn|error)".*damaged/.test(wrong);
  const others = ends.flatMap(({ wrong }) => wrong).filter((wrong) => !isDamage(wrong));
  expect(others.slice(0, 3)).toEqual([]);
  expect(accountOf(dir)).toEqual({ excess: 0, excessCount: 0, instances: 0, held: 0 });
  expect(await orphanedFiles(dir)).toEqual([]);
});

it('two processes, and one that replaces a killed one, read nothing wrong and keep the account right', async () => {
  const dir = await temporaryDirectory();
  const processes = new SharingProcesses(dir);
  const first = await processes.start();
  const second = await processes.start();
  await Promise.all([first, second].map((each) => each.afterSteps(200)));
  await second.kill();
  await first.afterSteps(50);
  const third = await processes.start([second.instance]);
  await Promise.all([first, third].map((each) => each.afterSteps(200)));
  const ends = await Promise.all([first.end(), third.end()]);
  for (const { wrong, steps } of ends) {
    expect(wrong.slice(0, 3)).toEqual([]);
    expect(steps).toBeGreaterThanOrEqual(30);
  }
  expect(accountOf(dir)).toEqual({ excess: 0, excessCount: 0, instances: 0, held: 0 });
  expect(await orphanedFiles(dir)).toEqual([]);
  const { store, events } = await openTestStore({
    dir,
    maxSizeBytes: sharedSizeBytes,
    blockSizeBytes: sharedBlockBytes,
  });
  expect(store.readUsage().entryCount).toBeGreaterThan(0);
  expect(events).toEqual([]);
});
