/** Reads the built dashboard. This is the only place that knows where its files are. */

import { readdir, readFile } from 'node:fs/promises';

/** The directory of the built dashboard. This file is two folders below the package, as source and when built. */
const directory = new URL('../../dist/dashboard/', import.meta.url);

/** The names that are served; a license notice, for example, is not. */
const servedName = /^(?:index\.html|favicon\.svg|assets\/[\w.-]+)$/;

let files: ReadonlyMap<string, Uint8Array> | undefined;

/**
 * Resolves with the dashboard's files by their names, with `/` between folders. They are read once, so that the page and its
 * assets are of the same build. Resolves with undefined where the dashboard is not built.
 */
export async function readDashboardFiles(): Promise<ReadonlyMap<string, Uint8Array> | undefined> {
  files ??= await readAll();
  return files;
}

async function readAll(): Promise<ReadonlyMap<string, Uint8Array> | undefined> {
  const names = await readdir(directory, { recursive: true }).catch(() => []);
  const served = names.map((name) => name.replaceAll('\\', '/')).filter((name) => servedName.test(name));
  if (!served.includes('index.html')) return undefined;
  return new Map(
    await Promise.all(served.map(async (name) => [name, await readFile(new URL(name, directory))] as const)),
  );
}
