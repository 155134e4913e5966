/** The files that the clients of the matrix ask for, made once for a run. */

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { findProgram } from '../../support/processes/programs.ts';
import { patternBytes } from '../../support/values/pattern-body.ts';
import { makeTable } from './formats/parquet.ts';
import { makePdf } from './formats/pdf.ts';
import { makeMap } from './formats/pmtiles.ts';
import { makeTar } from './formats/tar.ts';
import { makeImage } from './formats/tiff.ts';
import { makeArchive } from './formats/zip.ts';

const run = promisify(execFile);

/** The directory with the files, and the bytes that clients compare with. */
export interface Fixtures {
  readonly dir: string;
  /** `file.bin`: some blocks of 256 KiB, and no multiple of a block. */
  readonly file: Buffer;
  /** `film.mp4`, a minute of H.264 and AAC with its index at the end. */
  readonly film: Buffer;
  /** `large.bin`: the film several times, 17 MiB. */
  readonly large: Buffer;
  readonly sizes: Readonly<Record<FixtureName, number>>;
  /** The id of the commit that `repo.git` has. */
  readonly commit: string;
}

/** The names of the files whose size is known. */
type FixtureName =
  | 'file.bin'
  | 'film.mp4'
  | 'sound.mp4'
  | 'archive.zip'
  | 'map.pmtiles'
  | 'table.parquet'
  | 'image.tif'
  | 'paper.pdf';

/** The package that npm and pip install: its name, and its version. */
export const packageName = 'blue-heron';
export const packageVersion = '1.2.3';
/** What npm unpacks. */
export const packageText = 'export const bird = "blue heron";\n';

const yearAgo = new Date(Date.now() - 365 * 24 * 3_600_000);

/** Makes all files below a directory. Those that need a program which is missing are left out. */
export async function makeFixtures(dir: string): Promise<Fixtures> {
  const file = Buffer.from(patternBytes(0, 1_300_001).buffer);
  const source = fileURLToPath(new URL('../../../assets/demo/range-test.mp4', import.meta.url));
  const film = await readFile(source);
  const large = Buffer.alloc(17 * 1024 * 1024, film);
  const made: Record<string, Uint8Array> = {
    'file.bin': file,
    'large.bin': large,
    'archive.zip': await makeArchive(),
    'map.pmtiles': makeMap(),
    'table.parquet': makeTable(),
    'image.tif': makeImage(),
    'paper.pdf': makePdf(),
  };
  for (const [name, bytes] of Object.entries(made)) await writeFile(join(dir, name), bytes);
  await copyFile(source, join(dir, 'film.mp4'));
  const sizes = Object.fromEntries(Object.entries(made).map(([name, bytes]) => [name, bytes.length]));
  if (findProgram('ffmpeg') !== undefined) sizes['sound.mp4'] = await makeMedia(dir, source);
  await makePackages(dir);
  const commit = findProgram('git') === undefined ? '' : await makeRepository(dir, file);
  // A file of the last minute has a weak date (RFC 9110 §8.8.2.2), and most files are older.
  for (const name of await readdir(dir)) await utimes(join(dir, name), yearAgo, yearAgo);
  return {
    dir,
    file,
    film,
    large,
    sizes: { ...sizes, 'film.mp4': film.length } as Record<FixtureName, number>,
    commit,
  };
}

/** Makes `sound.mp4`, and byte-range playlists for HLS and DASH in `hls/` and `dash/`. Returns the size of the sound. */
async function makeMedia(dir: string, source: string): Promise<number> {
  const convert = (args: readonly string[], cwd: string) =>
    run('ffmpeg', ['-v', 'error', '-i', source, ...args], { cwd });
  await mkdir(join(dir, 'hls'));
  await mkdir(join(dir, 'dash'));
  await convert(['-vn', '-c', 'copy', 'sound.mp4'], dir);
  const hls = ['-f', 'hls', '-hls_time', '4', '-hls_playlist_type', 'vod', '-hls_segment_type', 'fmp4'];
  await convert(['-c', 'copy', ...hls, '-hls_flags', 'single_file', 'film.m3u8'], join(dir, 'hls'));
  const dash = ['-f', 'dash', '-single_file', '1', '-seg_duration', '4', '-global_sidx', '1'];
  await convert(['-c', 'copy', ...dash, 'film.mpd'], join(dir, 'dash'));
  return (await readFile(join(dir, 'sound.mp4'))).length;
}

const about = { name: packageName, version: packageVersion, type: 'module', main: 'index.js' };

/** Writes the index that npm reads, for a registry whose path is this at the server: an index has absolute paths of its packages. */
export async function writeNpmIndex({ dir }: Pick<Fixtures, 'dir'>, path: string): Promise<void> {
  const tarball = await readFile(join(dir, 'npm', `${packageName}.tgz`));
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  // npm puts its registry in place of this host.
  const dist = { integrity, tarball: `https://registry.npmjs.org${path}${packageName}.tgz` };
  const versions = { [packageVersion]: { ...about, dist } };
  const index = { name: packageName, 'dist-tags': { latest: packageVersion }, versions };
  await writeFile(join(dir, 'npm', packageName), JSON.stringify(index));
}

/** Makes the packages of an index each for npm (`npm/`) and pip (`simple/`). */
export async function makePackages(dir: string): Promise<void> {
  const tarball = gzipSync(makeTar({ 'package/package.json': JSON.stringify(about), 'package/index.js': packageText }));
  await mkdir(join(dir, 'npm'));
  await writeFile(join(dir, 'npm', `${packageName}.tgz`), tarball);
  const wheel = await makeArchive({
    'blue_heron/__init__.py': 'bird = "blue heron"\n',
    'blue_heron-1.2.3.dist-info/METADATA': `Metadata-Version: 2.1\nName: ${packageName}\nVersion: ${packageVersion}\n`,
    'blue_heron-1.2.3.dist-info/WHEEL': 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    'blue_heron-1.2.3.dist-info/RECORD': '',
  });
  const name = 'blue_heron-1.2.3-py3-none-any.whl';
  const hash = createHash('sha256').update(wheel).digest('hex');
  const folder = join(dir, 'simple', packageName);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, name), wheel);
  await writeFile(join(folder, 'index.html'), `<!DOCTYPE html><a href="${name}#sha256=${hash}">${name}</a>\n`);
}

/** Makes a bare repository with one commit, for dumb and for smart HTTP. Returns the id of the commit. */
async function makeRepository(dir: string, file: Buffer): Promise<string> {
  const work = join(dir, 'repo.work');
  const git = (...args: string[]) =>
    run('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.org', ...args], { cwd: work });
  await mkdir(work);
  await git('init', '--quiet');
  await writeFile(join(work, 'file.bin'), file);
  await git('add', 'file.bin');
  await git('commit', '--quiet', '--message', 'Add a file');
  const { stdout } = await git('rev-parse', 'HEAD');
  await git('clone', '--quiet', '--bare', work, join(dir, 'repo.git'));
  await run('git', ['repack', '-adq'], { cwd: join(dir, 'repo.git') });
  await run('git', ['update-server-info'], { cwd: join(dir, 'repo.git') });
  return stdout.trim();
}
