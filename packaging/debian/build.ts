/**
 * `npm run build:deb`: makes a Debian package of the single executable, which needs no Node of the system. It needs dpkg-deb.
 *
 *     npm run build:deb                                  dist/deb/rangeway_VERSION_ARCH.deb and dist/bin/rangeway, for this machine
 *     npm run build:deb -- --arch arm64 --out DIRECTORY  for another architecture: x64 or arm64
 *     npm run build:deb -- --quick                       compresses less: the file is larger by two thirds
 *
 * DEBFULLNAME and DEBEMAIL name its maintainer, SOURCE_DATE_EPOCH the time of its files, as for Debian's own programs.
 */

import { createHash } from 'node:crypto';
import { chmod, copyFile, lstat, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { createProcessIo } from '../../src/cli/io.ts';
import { createProgram } from '../../src/cli/program.ts';
import { version } from '../../src/setup/package-files.ts';
import { type Binary, buildBinary } from '../binary/build.ts';
import { type Architecture, architectures, parseArchitecture } from '../binary/node-release.ts';
import { checkout, failBuild, run } from '../checkout.ts';
import { formatManPage } from '../man/man-page.ts';
import { formatCopyright } from './copyright.ts';

/** How to build the package. */
interface DebOptions {
  readonly binary: Binary;
  readonly architecture: Architecture;
  /** The directory of the package, which is made where it is absent. */
  readonly out: string;
  /** Compresses less, which takes a tenth of the time. */
  readonly isQuick: boolean;
  readonly environment: NodeJS.ProcessEnv;
}

/** The architectures by their names in Debian. */
const debianNames: Readonly<Record<Architecture, string>> = { x64: 'amd64', arm64: 'arm64' };

/** The packages with the libraries of the executable. A test compares them with what it asks for. */
const depends = 'libatomic1, libc6 (>= 2.28), libgcc-s1, libstdc++6 (>= 5.2)';

const shells = [
  { shell: 'bash', path: 'usr/share/bash-completion/completions/rangeway' },
  { shell: 'zsh', path: 'usr/share/zsh/vendor-completions/_rangeway' },
  { shell: 'fish', path: 'usr/share/fish/vendor_completions.d/rangeway.fish' },
];

/** Builds the package of an executable; resolves with its path. Rejects with the reason where a step fails. */
async function buildDeb({ binary, architecture, out, isQuick, environment }: DebOptions): Promise<string> {
  const work = await mkdtemp(join(tmpdir(), 'rangeway-deb-'));
  try {
    const root = join(work, 'root');
    await mkdir(join(root, 'usr/bin'), { recursive: true });
    await copyFile(binary.path, join(root, 'usr/bin/rangeway'));
    await writeFiles(root, binary, environment);
    await writeControl(root, debianNames[architecture], environment);
    const path = join(out, `rangeway_${debianVersion()}_${debianNames[architecture]}.deb`);
    await mkdir(out, { recursive: true });
    const compression = isQuick ? ['-Zgzip', '-z1'] : ['-Zxz', '-z6'];
    await run('dpkg-deb', ['--root-owner-group', ...compression, '--build', root, path]);
    return path;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Returns the version of the package. A pre-release is older than its release. */
function debianVersion(): string {
  return `${version.replaceAll('-', '~')}-1`;
}

function maintainerOf({ DEBFULLNAME, DEBEMAIL }: NodeJS.ProcessEnv): string {
  return `${DEBFULLNAME ?? 'Rangeway'} <${DEBEMAIL ?? 'rangeway@localhost'}>`;
}

/** Writes all files but the executable, which is there. */
async function writeFiles(root: string, { licences }: Binary, environment: NodeJS.ProcessEnv) {
  const own = (path: string): Promise<Buffer> => readFile(join(checkout, path));
  const program = createProgram(createProcessIo(), () => undefined);
  const files: [path: string, content: Buffer | string][] = [
    ['etc/rangeway/rangeway.json', await own('packaging/debian/rangeway.json')],
    ['usr/lib/systemd/system/rangeway.service', await own('packaging/systemd/rangeway.service')],
    ['usr/lib/systemd/system/rangeway.socket', await own('packaging/systemd/rangeway.socket')],
    ['usr/share/rangeway/config.schema.json', await own('config.schema.json')],
    ['usr/share/man/man1/rangeway.1.gz', compress(formatManPage(program, version))],
    ['usr/share/doc/rangeway/README.Debian', await own('packaging/debian/README.Debian')],
    ['usr/share/doc/rangeway/copyright', formatCopyright(licences)],
    ['usr/share/doc/rangeway/changelog.gz', compress(await own('CHANGELOG.md'))],
    ['usr/share/doc/rangeway/changelog.Debian.gz', compress(formatChangelog(environment))],
    ['usr/share/doc/rangeway/examples/config.example.json', await own('config.example.json')],
    ['usr/share/lintian/overrides/rangeway', await own('packaging/debian/lintian-overrides')],
  ];
  for (const { shell, path } of shells) {
    const script = await completionFor(shell);
    if (script !== undefined) files.push([path, script]);
  }
  for (const [path, content] of files) await writeIn(root, path, content);
}

/** Returns the completion script of a shell; undefined where the program has no command for it. */
async function completionFor(shell: string): Promise<string | undefined> {
  const program = createProgram(createProcessIo(), () => undefined);
  if (!program.commands.some((command) => command.name() === 'completion')) return undefined;
  const { stdout } = await run(process.execPath, [join(checkout, 'bin/rangeway.js'), 'completion', shell]);
  return stdout;
}

async function writeIn(root: string, path: string, content: Buffer | string, mode = 0o644): Promise<void> {
  const file = join(root, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, content);
  await chmod(file, mode);
}

/** Compresses as `gzip -9n` does: without a time. */
function compress(content: Buffer | string): Buffer {
  return gzipSync(content, { level: 9 });
}

function formatChangelog(environment: NodeJS.ProcessEnv): string {
  const { SOURCE_DATE_EPOCH: stated } = environment;
  const date = new Date(stated === undefined ? Date.now() : Number(stated) * 1000);
  const time = date.toUTCString().replace('GMT', '+0000');
  return [
    `rangeway (${debianVersion()}) unstable; urgency=medium`,
    '',
    `  * Version ${version}. Its changes are in /usr/share/doc/rangeway/changelog.gz.`,
    '',
    ` -- ${maintainerOf(environment)}  ${time}`,
    '',
  ].join('\n');
}

async function writeControl(root: string, debianName: string, environment: NodeJS.ProcessEnv): Promise<void> {
  const files = await filesBelow(root);
  const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const control = [
    'Package: rangeway',
    `Version: ${debianVersion()}`,
    `Architecture: ${debianName}`,
    `Maintainer: ${maintainerOf(environment)}`,
    `Installed-Size: ${Math.ceil(bytes / 1024)}`,
    `Depends: ${depends}`,
    'Section: httpd',
    'Priority: optional',
    'Description: reverse caching proxy that puts HTTP byte ranges in front of any origin',
    ' Rangeway stands in front of a web server that can only send whole files. It',
    ' fetches each file once, keeps it in memory and on disk, and answers every',
    ' byte range itself: videos seek, downloads resume, and tools read parts of',
    ' large files.',
    ' .',
    ' The package contains everything that the program needs, Node.js included.',
    '',
  ];
  const sums = files.map(({ path, md5 }) => `${md5}  ${path}\n`);
  await writeIn(root, 'DEBIAN/control', control.join('\n'));
  await writeIn(root, 'DEBIAN/conffiles', '/etc/rangeway/rangeway.json\n');
  await writeIn(root, 'DEBIAN/md5sums', sums.join(''));
  for (const name of ['postinst', 'prerm', 'postrm']) {
    await copyFile(join(checkout, 'packaging/debian', name), join(root, 'DEBIAN', name));
    await chmod(join(root, 'DEBIAN', name), 0o755);
  }
}

async function filesBelow(root: string) {
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return await Promise.all(
    paths.sort().map(async (path) => ({
      path: path.slice(root.length + 1),
      md5: createHash('md5')
        .update(await readFile(path))
        .digest('hex'),
      sizeBytes: (await lstat(path)).size,
    })),
  );
}

/** Builds as the command line says; resolves with the exit code. */
async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      arch: { type: 'string', default: process.arch },
      out: { type: 'string', default: join(checkout, 'dist') },
      quick: { type: 'boolean', default: false },
    },
  });
  const architecture = parseArchitecture(values.arch);
  if (architecture === undefined) throw new Error(`--arch: expected ${architectures.join(' or ')}`);
  // The modes of directories are those in the package.
  process.umask(0o022);
  const binary = await buildBinary({ architecture, out: resolve(values.out, 'bin') });
  const path = await buildDeb({
    binary,
    architecture,
    out: resolve(values.out, 'deb'),
    isQuick: values.quick,
    environment: process.env,
  });
  console.log(`${path}: ${((await lstat(path)).size / 1e6).toFixed(1)} MB`);
  return 0;
}

if (import.meta.main) process.exitCode = await main().catch(failBuild);
