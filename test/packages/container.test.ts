/**
 * The image, without an engine for containers: what the Dockerfile copies is put beside the libraries of its base image, and run as
 * compose.yaml says: as its user, process 1, with a root file system that is read-only, and without new privileges.
 */

import { execFileSync } from 'node:child_process';
import { chmod, chown, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { expect, inject } from 'vitest';
import { onlyOne, readServices, readStages } from '../support/packages/container-files.ts';
import { buildPrograms } from '../support/packages/packaged.ts';
import { type ScratchRoot, sealRoot } from '../support/packages/scratch-root.ts';
import { type RangewayProcess, startProgram } from '../support/processes/rangeway-process.ts';
import { itAsRoot } from '../support/processes/root-only.ts';

const [build = [], image = []] = readStages();
const { origin, rangeway } = readServices();
const { text: user } = onlyOne(image, 'USER');
const entrypoint = JSON.parse(onlyOne(image, 'ENTRYPOINT').text) as [string];
const health = JSON.parse(onlyOne(image, 'HEALTHCHECK').text.replace(/^CMD /, '')) as string[];
const [name = '', value = ''] = onlyOne(image, 'ENV').text.split('=');
const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/home/nonroot', [name]: value };

/** Makes the root of the image in a directory. */
async function layOut(root: string, work: string): Promise<void> {
  await layOutBase(root);
  // The lines of the Dockerfile, with other directories.
  const places: Readonly<Record<string, string>> = {
    '/out/bin': inject('packages'),
    '/image': join(work, 'image'),
    '/store': join(work, 'store'),
  };
  const local = (text: string) =>
    text.replaceAll(/(?<=^|\s)(?:\/out\/bin|\/image|\/store)(?=[\s/]|$)/g, (place) => places[place] ?? place);
  const [layout, ...others] = build.filter(({ keyword, text }) => keyword === 'RUN' && text.startsWith('install '));
  if (layout === undefined || others.length > 0) throw new Error('expected one RUN that makes /image');
  execFileSync('sh', ['-ec', local(layout.text)]);
  for (const { flags, text } of image.filter(({ keyword }) => keyword === 'COPY')) {
    const [from = '', to = ''] = local(text).split(' ');
    const target = join(root, to);
    // As Docker does: the contents of a directory, with the owner root or the stated one.
    await mkdir(target, { recursive: true });
    execFileSync('cp', ['-a', `${from.replace(/\/$/, '')}/.`, target]);
    execFileSync('chown', ['-R', flags['chown'] ?? '0:0', to === '/' ? join(root, 'usr/bin/rangeway') : target]);
  }
}

/** What the base image has: the C and C++ libraries, and the user. */
async function layOutBase(root: string): Promise<void> {
  const executable = join(inject('packages'), 'rangeway');
  const listed = execFileSync('ldd', [executable], { encoding: 'utf8' });
  const libraries = [...listed.matchAll(/(?:=> |^\s+)(\/\S+)/gm)].map(([, path = '']) => path);
  for (const library of libraries) {
    // The loader has a fixed path; the others are where Debian has them.
    const path = basename(library).startsWith('ld-') ? library : join('/usr/lib', basename(library));
    await mkdir(dirname(join(root, path)), { recursive: true });
    await copyFile(library, join(root, path));
  }
  for (const directory of ['dev', 'etc', 'home/nonroot', 'proc', 'tmp']) {
    await mkdir(join(root, directory), { recursive: true });
  }
  await writeFile(join(root, 'etc/passwd'), `nonroot:x:${user}:nonroot:/home/nonroot:/sbin/nologin\n`);
}

interface Container extends AsyncDisposable {
  readonly root: ScratchRoot;
  /** Starts the entry point as process 1. */
  start(args: readonly string[]): RangewayProcess;
  /** Runs a command beside it, as `docker exec` does. Returns its exit code and its output. */
  execute(command: readonly string[]): Promise<{ readonly code: number | null; readonly output: string }>;
}

async function openContainer(): Promise<Container> {
  const work = await mkdtemp(join(tmpdir(), 'rangeway-image-'));
  await chmod(work, 0o755);
  const dir = join(work, 'root');
  await mkdir(dir);
  await layOut(dir, work);
  const [, tmpfsOptions = ''] = rangeway?.tmpfs[0]?.split(':') ?? [];
  const volume = join(work, 'volume');
  // A new volume has the owner and the permissions of the directory in the image.
  await mkdir(volume, { mode: 0o700 });
  const [uid = 0, gid = 0] = user.split(':').map(Number);
  await chown(volume, uid, gid);
  const root = await sealRoot(dir, [
    ['var/cache/rangeway', '--bind', volume],
    ['tmp', '-t', 'tmpfs', '-o', tmpfsOptions, 'tmpfs'],
    ['proc', '-t', 'proc', 'proc'],
    ['dev', '--bind', '/dev'],
  ]);
  const inside = ['setpriv', '--no-new-privs', 'chroot', `--userspec=${user}`, dir];
  const run = (program: string, args: readonly string[]) => startProgram(program, args, { cwd: '/', env: environment });
  return {
    root,
    start: (args) => run('/usr/bin/unshare', ['--pid', '--fork', '--kill-child', ...inside, ...entrypoint, ...args]),
    async execute(command) {
      await using started = run('/usr/bin/env', [...inside, ...command]);
      return { code: await started.ended(), output: started.output() };
    },
    async [Symbol.asyncDispose]() {
      await root[Symbol.asyncDispose]();
      await rm(work, { recursive: true, force: true });
    },
  };
}

/** Returns the id of the only child of a process. */
async function childOf({ pid }: RangewayProcess): Promise<number> {
  return Number((await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim());
}

const programs = [...buildPrograms, 'mount', 'unshare', 'setpriv', 'chroot', 'ldd'];

itAsRoot(
  programs,
  'serves as compose.yaml says, is healthy, and stops at SIGTERM',
  async () => {
    await using container = await openContainer();
    const originCommand = origin?.command.with(-1, '127.0.0.1:0') ?? [];
    await using started = container.start(originCommand);
    const [, originUrl = ''] = await started.waitFor(/^origin\s+(http:\S+)\s/m);
    const [, ...probe] = (origin?.healthcheck?.test ?? []).map((word) =>
      word.replace('http://127.0.0.1:3000', originUrl),
    );
    expect(await container.execute(probe)).toMatchObject({ code: 0 });

    for (const workers of ['1', '2']) {
      // With a port that the system chooses, the store would be temporary.
      const store = ['--dir', `/var/cache/rangeway/store-${workers}`];
      const command = [originUrl, '--listen', '127.0.0.1:0', ...store, '--workers', workers];
      expect((await container.execute(health)).code, 'nothing runs yet').toBe(1);
      await using server = container.start(command);
      const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),.* storing in \/var\/cache\/rangeway\//);
      const main = await childOf(server);
      const status = await readFile(`/proc/${main}/status`, 'utf8');
      const [uid = '', gid = ''] = user.split(':');
      expect(status).toMatch(new RegExp(`^Uid:\\s+${uid}\\s+${uid}\\s+${uid}\\s`, 'm'));
      expect(status).toMatch(new RegExp(`^Gid:\\s+${gid}\\s`, 'm'));
      expect(status).toMatch(/^NSpid:\s+\d+\s+1$/m);
      expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
      expect(status).toMatch(/^CapEff:\s+0+$/m);
      await expect(writeFile(join(container.root.dir, 'etc/anything'), '')).rejects.toThrow('EROFS');

      const response = await fetch(`${url}/poster.svg`, { headers: { range: 'bytes=0-9' } });
      expect([response.status, (await response.text()).length]).toEqual([206, 10]);
      expect(await container.execute(health)).toEqual({ code: 0, output: 'ready\n' });
      expect(await container.execute([...entrypoint, 'ls'])).toMatchObject({
        code: 0,
        output: expect.stringContaining('/poster.svg'),
      });

      process.kill(main, 'SIGTERM');
      expect(await server.ended(), server.output()).toBe(0);
      expect(server.output()).toContain('"stage":"stopped"');
    }
    process.kill(await childOf(started), 'SIGTERM');
    expect(await started.ended()).toBe(0);
  },
  180_000,
);

itAsRoot(
  programs,
  'without a configuration it says which file is absent',
  async () => {
    await using container = await openContainer();
    const command = JSON.parse(onlyOne(image, 'CMD').text) as string[];
    await using server = container.start(command);
    expect(await server.ended()).toBe(2);
    expect(server.output()).toMatch(/^\/etc\/rangeway\/rangeway\.json: cannot be read: .*\n$/);
  },
  180_000,
);
