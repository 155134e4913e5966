/**
 * The package that this program is part of: its version, the files that belong to it besides its code, and how the program starts
 * itself again. The single executable has these files inside; otherwise they are in the folder of the package.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The files inside the single executable; undefined where Node runs the program from files. */
const inside = readSingleExecutable();

/** The root of the package. This file is two folders below it, as source and when built. Not used in the single executable. */
const root = inside === undefined ? fileURLToPath(new URL('../../', import.meta.url)) : '';

function readSingleExecutable(): typeof import('node:sea') | undefined {
  // Not an import: a Node without this module must still be able to load the program.
  const sea = process.getBuiltinModule('node:sea');
  return sea?.isSea() === true ? sea : undefined;
}

/** Reads a file by its path in the package, such as `config.schema.json`. Throws where there is none. */
export function readPackageFile(path: string): Buffer {
  return inside === undefined ? readFileSync(join(root, path)) : Buffer.from(inside.getAsset(path));
}

/**
 * Reads all files below a folder of the package, such as `assets/demo`. The names are relative to the folder, with `/` between
 * their parts. Returns an empty map where there is no such folder.
 */
export function readPackageFolder(folder: string): ReadonlyMap<string, Buffer> {
  return new Map(namesBelow(folder).map((name) => [name, readPackageFile(`${folder}/${name}`)]));
}

function namesBelow(folder: string): readonly string[] {
  if (inside !== undefined) {
    const keys = inside.getAssetKeys().filter((key) => key.startsWith(`${folder}/`));
    return keys.map((key) => key.slice(folder.length + 1)).sort();
  }
  try {
    const found = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
    const paths = found.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    return paths.map((path) => path.slice(join(root, folder).length + 1).replaceAll(sep, '/')).sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** The version of the package. */
export const version = (JSON.parse(readPackageFile('package.json').toString()) as { readonly version: string }).version;

/**
 * Returns the arguments of Node that start this program, before those of a command. The single executable is a program itself and
 * needs none: its only arguments are those of the command. Without a debugger by SIGUSR1, from the first instruction on.
 */
export function programArguments(): readonly string[] {
  return inside === undefined ? ['--disable-sigusr1', join(root, 'bin/rangeway.js')] : [];
}
