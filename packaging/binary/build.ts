/**
 * `npm run build:binary`: makes one executable file of the program, the packages that it uses and Node. It runs on Linux with glibc,
 * without a Node installation.
 *
 *     npm run build:binary                                  dist/bin/rangeway, for this machine
 *     npm run build:binary -- --arch arm64 --out DIRECTORY  DIRECTORY/bin/rangeway, for another architecture: x64 or arm64
 *     npm run build:binary -- --keep-symbols                without strip; the file is a quarter larger
 */

import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { readPackageFolder, version } from '../../src/setup/package-files.ts';
import { checkout, failBuild, run } from '../checkout.ts';
import { bundleProgram } from './bundle.ts';
import { formatLicences, type LicenceTexts } from './licences.ts';
import { type Architecture, architectures, fetchNodeRelease, parseArchitecture } from './node-release.ts';

/** The files that the executable contains: they are read through `src/setup/package-files.ts`. */
const assetFolders = ['assets/demo', 'dist/dashboard'];

/** How to build the executable. */
export interface BinaryOptions {
  readonly architecture: Architecture;
  /** The directory of the executable and its licences, which is made where it is absent. */
  readonly out: string;
  /** Keeps the debugging symbols of Node. */
  readonly keepSymbols?: boolean | undefined;
}

/** The executable. */
export interface Binary {
  readonly path: string;
  readonly sizeBytes: number;
  /** The licences of everything in it. */
  readonly licences: LicenceTexts;
}

/** Builds `rangeway` and `LICENSES.txt` in a directory. Rejects with the reason where a step fails. */
export async function buildBinary({ architecture, out, keepSymbols = false }: BinaryOptions): Promise<Binary> {
  if (Number.parseInt(process.versions.node, 10) < 26) {
    throw new Error(`Node 26 builds single executables; this is ${process.version}. Use npm run build:binary.`);
  }
  const work = await mkdtemp(join(tmpdir(), 'rangeway-binary-'));
  try {
    const [bundle, node] = await Promise.all([bundleProgram(), fetchNodeRelease(architecture)]);
    // Relative to the directory of the build: the name is in the executable, and in stack traces.
    const main = 'rangeway.mjs';
    const empty = join(work, 'node');
    const output = join(work, 'rangeway');
    await writeFile(join(work, main), bundle.code);
    await copyFile(node.executable, empty);
    if (!keepSymbols) await strip(empty, architecture);
    const assets = ['package.json', ...assetFolders.flatMap(filesIn)].map((name) => [name, join(checkout, name)]);
    await writeFile(
      join(work, 'sea.json'),
      JSON.stringify({
        main,
        mainFormat: 'module',
        executable: empty,
        output,
        disableExperimentalSEAWarning: true,
        // V8 can compile only for the architecture that it runs on. Compiled code saves a third of the time of a start.
        useCodeCache: architecture === process.arch,
        // NODE_OPTIONS works as for Node: for example to load an SDK for traces, or to set the size of the heap.
        execArgvExtension: 'env',
        // No debugger by SIGUSR1, also before the program itself ignores the signal.
        execArgv: ['--disable-sigusr1'],
        assets: Object.fromEntries(assets),
      }),
    );
    await run(process.execPath, ['--build-sea', 'sea.json'], { cwd: work });
    await chmod(output, 0o755);
    const licences: LicenceTexts = {
      own: await readFile(join(checkout, 'LICENSE'), 'utf8'),
      packages: bundle.packages,
      dashboard: readPackageFolder('dist/dashboard').get('LICENSES.md')?.toString(),
      nodeVersion: node.version,
      node: await readFile(node.licence, 'utf8'),
    };
    await mkdir(out, { recursive: true });
    await writeFile(join(out, 'LICENSES.txt'), formatLicences(licences));
    const path = join(out, 'rangeway');
    await moveFile(output, path);
    if (architecture === process.arch) await checkVersion(path);
    const { size: sizeBytes } = await stat(path);
    return { path, sizeBytes, licences };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

function filesIn(folder: string): string[] {
  return [...readPackageFolder(folder).keys()].map((name) => `${folder}/${name}`);
}

/** The names of binutils for each architecture (GNU), as Debian has them. */
const strips: Readonly<Record<Architecture, string>> = {
  x64: 'x86_64-linux-gnu-strip',
  arm64: 'aarch64-linux-gnu-strip',
};

/** Removes the symbols of an executable. Rejects with advice where there is no program that can do it. */
async function strip(path: string, architecture: Architecture): Promise<void> {
  const program = architecture === process.arch ? 'strip' : strips[architecture];
  try {
    await run(program, ['--strip-all', '--remove-section=.comment', path]);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const name =
      architecture === process.arch
        ? 'binutils'
        : `binutils-${strips[architecture].replace(/-strip$/, '').replaceAll('_', '-')}`;
    throw new Error(`there is no program ${program}: install ${name}, or use --keep-symbols`);
  }
}

/** Moves a file, also to another file system. A running executable of this name goes on with the old file. */
async function moveFile(from: string, to: string): Promise<void> {
  await copyFile(from, `${to}.new`);
  await rename(`${to}.new`, to);
}

async function checkVersion(path: string): Promise<void> {
  const { stdout } = await run(path, ['--version'], { env: {} });
  if (stdout !== `${version}\n`) throw new Error(`${path} does not print its version, but: ${stdout}`);
}

/** Builds as the command line says; resolves with the exit code. */
async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      arch: { type: 'string', default: process.arch },
      out: { type: 'string', default: join(checkout, 'dist') },
      'keep-symbols': { type: 'boolean', default: false },
    },
  });
  const architecture = parseArchitecture(values.arch);
  if (architecture === undefined) throw new Error(`--arch: expected ${architectures.join(' or ')}`);
  const options = { architecture, out: resolve(values.out, 'bin'), keepSymbols: values['keep-symbols'] };
  const { path, sizeBytes, licences } = await buildBinary(options);
  const size = `${Math.round(sizeBytes / 1e6)} MB`;
  const parts = `Node ${licences.nodeVersion}, ${licences.packages.length} packages`;
  console.log(`${path}: ${size}, linux-${architecture}, ${parts}`);
  return 0;
}

if (import.meta.main) process.exitCode = await main().catch(failBuild);
