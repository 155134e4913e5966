/** Files at an origin without ranges, and a proxy in front of it: the setup of the tests with real clients. */

import { link, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { WholeFileOrigin } from '../support/origins/whole-file-origins.ts';
import { startProxy } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

/** Size of each file: more than four blocks of 256 KiB, and no multiple of a block. */
export const fileSizeBytes = 1_300_001;

/** The name under which each file is served. */
export const fileName = 'file.bin';

/** A file at the proxy, and a work directory. */
export interface ProxiedFile {
  /** URL of the file at the proxy. */
  readonly url: string;
  readonly bytes: Buffer;
  /** Path of a copy on disk. */
  readonly original: string;
  /** An empty work directory. */
  readonly dir: string;
}

/** A proxy in front of an origin, and any number of files that no client has requested yet. */
export interface ProxiedFiles extends AsyncDisposable {
  next(): Promise<ProxiedFile>;
}

type OpenOrigin = (dir: string) => Promise<WholeFileOrigin>;

/** Starts an origin, and a proxy with an empty store. All files have these bytes; a pattern by default. */
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

/** Runs a test with a new proxy whose store is empty, and stops the proxy afterwards. */
export async function withProxyBefore(
  open: OpenOrigin,
  test: (file: ProxiedFile) => Promise<void>,
  bytes?: Buffer,
): Promise<void> {
  await using files = await openProxiedFiles(open, bytes);
  await test(await files.next());
}

/** Runs the tests of a `describe` with one proxy, each with its own file. The first test that is not skipped starts the proxy. */
export function shareProxyBefore(open: OpenOrigin): (test: (file: ProxiedFile) => Promise<void>) => Promise<void> {
  let files: Promise<ProxiedFiles> | undefined;
  afterAll(async () => (await files)?.[Symbol.asyncDispose]());
  return async (test) => {
    files ??= openProxiedFiles(open);
    await test(await (await files).next());
  };
}
