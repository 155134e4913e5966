/** The releases of Node that the single executable is made of, as the npm registry has them for each architecture. */

import { access, mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { checkout, run } from '../checkout.ts';

/** The architectures of the packages, by their names in Node. */
export const architectures = ['x64', 'arm64'] as const;

/** An architecture, by its name in Node. */
export type Architecture = (typeof architectures)[number];

/** The names that Debian, container builders and the kernel have for the architectures. */
const otherNames: ReadonlyMap<string, string> = new Map([
  ['amd64', 'x64'],
  ['x86_64', 'x64'],
  ['aarch64', 'arm64'],
]);

/** Parses the name of an architecture. Returns undefined for another text. */
export function parseArchitecture(text: string): Architecture | undefined {
  return architectures.find((each) => each === (otherNames.get(text) ?? text));
}

/** A release of Node, unpacked. */
export interface NodeRelease {
  readonly version: string;
  /** The path of the executable. */
  readonly executable: string;
  /** The path of its licence, with those of everything that is built into it. */
  readonly licence: string;
}

const cache = join(checkout, 'node_modules/.cache/rangeway-node');

/**
 * Returns the release for Linux that has the version of this process. It is unpacked below `node_modules/.cache`; the first call
 * takes it from npm's cache or from the registry, and npm checks its integrity.
 */
export async function fetchNodeRelease(architecture: Architecture): Promise<NodeRelease> {
  const version = process.versions.node;
  const directory = join(cache, `linux-${architecture}-${version}`);
  const release = { version, executable: join(directory, 'bin/node'), licence: join(directory, 'LICENSE') };
  const isThere = await access(release.licence).then(
    () => true,
    () => false,
  );
  if (!isThere) await unpack(`node-linux-${architecture}@${version}`, directory);
  return release;
}

/** Unpacks a package into a directory, which is complete as soon as it is there. */
async function unpack(name: string, directory: string): Promise<void> {
  await mkdir(cache, { recursive: true });
  const temporary = await mkdtemp(join(cache, 'unpacked-'));
  try {
    const packed = await run('npm', ['pack', name, '--silent', '--prefer-offline', '--pack-destination', temporary], {
      cwd: temporary,
    });
    const archive = join(temporary, packed.stdout.trim());
    await run('tar', ['-xzf', archive, '-C', temporary, 'package/bin/node', 'package/LICENSE']);
    await rename(join(temporary, 'package'), directory);
  } catch (error) {
    // Another build may have been faster.
    if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}
