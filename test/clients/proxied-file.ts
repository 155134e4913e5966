/** One file at a whole-file origin, and Rangeway before it: what every real client is tried on. */

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { patternBytes } from '../support/pattern-body.ts';
import { startProxy } from '../support/rangeway-process.ts';
import type { WholeFileOrigin } from '../support/whole-file-origins.ts';

/** More than four blocks of 256 KiB, and no multiple of one. */
export const fileSizeBytes = 1_300_001;

/** The name under which the file is served. */
export const fileName = 'file.bin';

/** What a test has in its hands. */
export interface ProxiedFile {
  /** The file's address at Rangeway. */
  readonly url: string;
  /** Every byte of it, and where they are on disk. */
  readonly bytes: Buffer;
  readonly original: string;
  /** An empty directory to work in. */
  readonly dir: string;
}

/** Runs a test with a new proxy whose store is empty, and clears up after it. The file is a pattern if not given. */
export async function withProxyBefore(
  open: (dir: string) => Promise<WholeFileOrigin>,
  test: (file: ProxiedFile) => Promise<void>,
  bytes: Buffer = Buffer.from(patternBytes(0, fileSizeBytes).buffer),
): Promise<void> {
  const root = await mkdtemp(join(tmpdir(), 'rangeway-client-'));
  try {
    const served = join(root, 'served');
    const dir = join(root, 'work');
    await mkdir(served);
    await mkdir(dir);
    const original = join(served, fileName);
    await writeFile(original, bytes);
    await withOrigin(await open(served), (url) => test({ url: `${url}/${fileName}`, bytes, original, dir }));
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

async function withOrigin(origin: WholeFileOrigin, test: (url: string) => Promise<void>): Promise<void> {
  try {
    await using proxy = await startProxy(origin.url);
    await test(proxy.url);
  } finally {
    await origin.close();
  }
}
