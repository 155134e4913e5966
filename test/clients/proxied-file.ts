/** Files at a whole-file origin, and Rangeway before it: what every real client is tried on. */

import { link, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { WholeFileOrigin } from '../support/origins/whole-file-origins.ts';
import { startProxy } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

/** More than four blocks of 256 KiB, and no multiple of one. */
export const fileSizeBytes = 1_300_001;

/** The name under which each file is served. */
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

/** A proxy with an empty store before an origin, and any number of files that nobody has asked for yet. */
export interface ProxiedFiles extends AsyncDisposable {
  next(): Promise<ProxiedFile>;
}

type OpenOrigin = (dir: string) => Promise<WholeFileOrigin>;

/** Starts both. All files have these bytes, a pattern if not given. */
export async function openProxiedFiles(
  open: OpenOrigin,
  bytes: Buffer = Buffer.from(patternBytes(0, fileSizeBytes).buffer),
): Promise<ProxiedFiles> {
  await using started = new AsyncDisposableStack();
  const root = await mkdtemp(join(tmpdir(), 'rangeway-client-'));
  started.defer(() => rm(root, { recursive: true, force: true }));
  const original = join(root, fileName);
  await writeFile(original, bytes);
  await mkdir(join(root, 'served'));
  const origin = started.adopt(await open(join(root, 'served')), (opened) => opened.close());
  const proxy = started.use(await startProxy(origin.url));
  const all = started.move();
  let count = 0;
  return {
    async next() {
      count += 1;
      const dir = join(root, `work-${count}`);
      await mkdir(dir);
      await mkdir(join(root, 'served', String(count)));
      await link(original, join(root, 'served', String(count), fileName));
      return { url: `${proxy.url}/${count}/${fileName}`, bytes, original, dir };
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Runs a test with a new proxy whose store is empty, and clears up after it. */
export async function withProxyBefore(
  open: OpenOrigin,
  test: (file: ProxiedFile) => Promise<void>,
  bytes?: Buffer,
): Promise<void> {
  await using files = await openProxiedFiles(open, bytes);
  await test(await files.next());
}

/** Runs tests of this `describe` with one proxy, each with a file of its own. It is started for the first that is not skipped. */
export function shareProxyBefore(open: OpenOrigin): (test: (file: ProxiedFile) => Promise<void>) => Promise<void> {
  let files: Promise<ProxiedFiles> | undefined;
  afterAll(async () => (await files)?.[Symbol.asyncDispose]());
  return async (test) => {
    files ??= openProxiedFiles(open);
    await test(await (await files).next());
  };
}
