/** Bundles the program and the packages that it uses into one module. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

/** A package whose code is in the bundle. */
export interface BundledPackage {
  readonly name: string;
  readonly version: string;
  /** The SPDX expression of its package.json. */
  readonly licence: string;
  /** The text of its licence file. */
  readonly licenceText: string;
}

/** The program as one module. */
export interface Bundle {
  readonly code: string;
  /** By name. */
  readonly packages: readonly BundledPackage[];
}

const entry = fileURLToPath(new URL('entry.ts', import.meta.url));

/**
 * Bundles the program. The code is not minified, so that stack traces name its functions. Rejects at every warning of the bundler,
 * and for a package without a licence file.
 */
export async function bundleProgram(): Promise<Bundle> {
  const build = await rolldown({
    input: entry,
    platform: 'node',
    onLog: (level, { code, message }) => {
      if (level === 'warn') throw new Error(`the bundler warns: ${code ?? ''} ${message}`);
    },
  });
  const { output } = await build.generate({ format: 'esm', codeSplitting: false });
  await build.close();
  const [chunk, ...others] = output;
  if (others.length > 0) throw new Error(`the bundle has more than one file: ${others.map((each) => each.fileName)}`);
  const strays = chunk.imports.filter((name) => !name.startsWith('node:'));
  if (strays.length > 0) throw new Error(`not in the bundle: ${strays.join(', ')}`);
  const directories = new Set(chunk.moduleIds.flatMap((id) => packageDirectory(id) ?? []));
  const packages = [...directories].map(readPackage).sort((a, b) => (a.name < b.name ? -1 : 1));
  return { code: chunk.code, packages };
}

/** Returns the directory of the package that a module belongs to; undefined for the program's own source. */
function packageDirectory(moduleId: string): string | undefined {
  const [, directory] = /^(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/.exec(moduleId) ?? [];
  return directory;
}

/** Packages under the MIT licence that lack the file with it, and the copyright notices in their repositories. */
const notices: Readonly<Record<string, string>> = { '@redis/client': 'Copyright (c) 2022-2025, Redis, inc.' };

function readPackage(directory: string): BundledPackage {
  const { name, version, license } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as {
    readonly name: string;
    readonly version: string;
    readonly license?: unknown;
  };
  const file = readdirSync(directory).find((each) => /^(?:licen[cs]e|copying)(?:\.(?:md|txt))?$/i.test(each));
  const notice = license === 'MIT' ? notices[name] : undefined;
  if (typeof license !== 'string' || (file === undefined && notice === undefined)) {
    throw new Error(`${name} does not state its licence`);
  }
  const licenceText = file === undefined ? mitText(notice ?? '') : readFileSync(join(directory, file), 'utf8');
  return { name, version, licence: license, licenceText };
}

/** Returns the text of the MIT licence, which is our own licence, too, with another copyright notice. */
function mitText(notice: string): string {
  return readFileSync(new URL('../../LICENSE', import.meta.url), 'utf8').replace(/^Copyright .*$/m, notice);
}
