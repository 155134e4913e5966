/** The single executable, in an empty environment: no PATH, no Node, an empty working directory, and another user where root tests. */

import { once } from 'node:events';
import { chmod, chown, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, inject } from 'vitest';
import { itPackaged } from '../support/packages/packaged.ts';
import { runProgram } from '../support/processes/programs.ts';
import { projectDirectory, type RangewayProcess, startProgram } from '../support/processes/rangeway-process.ts';
import { unprivilegedId } from '../support/processes/root-only.ts';

const executable = join(inject('packages'), 'rangeway');
const user = process.getuid?.() === 0 ? { uid: unprivilegedId, gid: unprivilegedId } : {};

let origin: Server;
let originUrl: string;
let requests: string[];
const body = Buffer.from(Array.from({ length: 1_000_000 }, (_, index) => (index * 7919) % 251));

beforeAll(async () => {
  requests = [];
  origin = createServer((request, response) => {
    requests.push(request.url ?? '');
    response.writeHead(200, { 'cache-control': 'max-age=600', 'content-length': body.length }).end(body);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
afterAll(() => {
  origin.close().closeAllConnections();
});

/** An empty home directory of the user, which is also the working directory. */
async function openHome(): Promise<AsyncDisposable & { readonly dir: string; readonly env: NodeJS.ProcessEnv }> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-home-'));
  if (user.uid !== undefined) await chown(dir, user.uid, user.gid);
  return {
    dir,
    env: { HOME: dir, TMPDIR: dir },
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

type Home = Awaited<ReturnType<typeof openHome>>;

function start(home: Home, args: readonly string[], environment: NodeJS.ProcessEnv = {}): RangewayProcess {
  return startProgram(executable, args, { ...user, cwd: home.dir, env: { ...home.env, ...environment } });
}

/** Runs a command to its end, and returns its exit code and its output. */
async function command(home: Home, ...args: readonly string[]) {
  await using started = start(home, args);
  const code = await started.ended();
  return { code, output: started.output() };
}

describe('commands', () => {
  itPackaged([], 'print the version and the help, without an environment', async () => {
    const { version } = JSON.parse(await readFile(join(projectDirectory, 'package.json'), 'utf8')) as {
      version: string;
    };
    await using printed = startProgram(executable, ['--version'], { ...user, cwd: '/', env: {} });
    expect([await printed.ended(), printed.output()]).toEqual([0, `${version}\n`]);
    await using helped = startProgram(executable, ['--help'], { ...user, cwd: '/', env: {} });
    expect([await helped.ended(), helped.output()]).toEqual([0, expect.stringMatching(/^Usage: rangeway [\s\S]*\n$/)]);
  });

  itPackaged([], 'check a configuration, with sendfile where this system has it', async () => {
    await using home = await openHome();
    const example = await readFile(join(projectDirectory, 'config.example.json'), 'utf8');
    await writeFile(join(home.dir, 'rangeway.json'), example);
    expect(await command(home, 'check', 'rangeway.json')).toEqual({
      code: 0,
      output: 'rangeway.json: ok, sendfile on\n',
    });
    await writeFile(join(home.dir, 'wrong.json'), '{ "lisen": "8080" }');
    expect(await command(home, 'check', 'wrong.json')).toMatchObject({
      code: 2,
      output: expect.stringContaining('lisen'),
    });
  });

  itPackaged([], 'print the schema', async () => {
    await using home = await openHome();
    const schema = await readFile(join(projectDirectory, 'config.schema.json'), 'utf8');
    expect(await command(home, 'schema')).toEqual({ code: 0, output: schema });
  });

  itPackaged([], 'probe an origin', async () => {
    await using home = await openHome();
    const { code, output } = await command(home, 'probe', `${originUrl}/film`);
    expect(code, output).toBe(0);
    expect(output).toContain(`GET /film of ${originUrl}`);
  });
});

itPackaged([], 'the demo serves its page and its video', async () => {
  await using home = await openHome();
  await using demo = start(home, ['demo', '--listen', '127.0.0.1:0']);
  const [, url = ''] = await demo.waitFor(/Rangeway\s+(http:\S+)\s[\s\S]*Ctrl-C/);
  expect(await (await fetch(url)).text()).toContain('<video');
  const video = await readFile(join(projectDirectory, 'assets/demo/range-test.mp4'));
  const response = await fetch(`${url}/range-test.mp4`, { headers: { range: 'bytes=1000-1999' } });
  expect(response.status).toBe(206);
  expect(Buffer.from(await response.arrayBuffer())).toEqual(video.subarray(1000, 2000));
  expect(await demo.stop('SIGTERM'), demo.output()).toBe(0);
});

describe.each([1, 2])('with --workers %i', (workers) => {
  const flags = () => [originUrl, '--listen', '127.0.0.1:0', '--dir', 'store', '--workers', String(workers)];

  itPackaged([], 'stores on disk, answers ranges, is administered, and stops', async () => {
    await using home = await openHome();
    await using server = start(home, flags());
    const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),/);
    expect(await command(home, 'health', '--dir', 'store')).toEqual({ code: 0, output: 'ready\n' });

    const path = `/film-${workers}`;
    const readRange = async () => {
      const response = await fetch(url + path, { headers: { range: 'bytes=-1000' } });
      expect(response.status).toBe(206);
      expect(response.headers.get('content-range')).toBe('bytes 999000-999999/1000000');
      expect(Buffer.from(await response.arrayBuffer())).toEqual(body.subarray(-1000));
      return response.headers.get('cache-status') ?? '';
    };
    expect(await readRange()).toContain('fwd=uri-miss');
    await expect.poll(readRange).toMatch(/; hit(?:;|$)/);
    expect(requests.filter((each) => each === path)).toHaveLength(1);

    const listed = await command(home, 'ls', '--dir', 'store');
    expect(listed, listed.output).toMatchObject({ code: 0, output: expect.stringContaining(path) });
    expect(await command(home, 'purge', path, '--dir', 'store')).toMatchObject({ code: 0 });
    expect(await readRange()).toContain('fwd=');
    expect(requests.filter((each) => each === path)).toHaveLength(2);

    expect(await server.stop('SIGTERM'), server.output()).toBe(0);
    expect(server.output()).toContain('"stage":"stopped"');
  });

  itPackaged([], 'writes a readable log, and its store survives a restart', async () => {
    await using home = await openHome();
    const path = `/kept-${workers}`;
    for (const cacheStatus of [/fwd=uri-miss/, /; hit(?:;|$)/]) {
      await using server = start(home, [...flags(), '--log-format', 'pretty']);
      const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),/);
      // The port is another one each time, and the key contains the Host.
      const [response] = (await once(get(url + path, { headers: { host: 'files.example' } }), 'response')) as [
        IncomingMessage,
      ];
      expect((await buffer(response)).equals(body)).toBe(true);
      expect(response.headers['cache-status']).toMatch(cacheStatus);
      await server.waitFor(new RegExp(`GET +200 .* ${path}`));
      expect(await server.stop('SIGTERM'), server.output()).toBe(0);
    }
  });
});

describe('NODE_OPTIONS', () => {
  const sdk = join(projectDirectory, 'test/support/processes/spans-to-output.ts');

  itPackaged([], '--require loads an SDK for traces', async () => {
    await using home = await openHome();
    const args = [originUrl, '--listen', '127.0.0.1:0', '--workers', '2'];
    await using server = start(home, args, { NODE_OPTIONS: `--require=${sdk}` });
    const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),/);
    await (await fetch(`${url}/traced`)).arrayBuffer();
    await server.waitFor(/^span .*"url.path":"\/traced"/m);
  });

  itPackaged([], '--import, which Node ignores here, gets a line that says so', async () => {
    await using home = await openHome();
    await using server = start(home, ['--version'], { NODE_OPTIONS: `--import=file://${sdk}` });
    expect(await server.ended()).toBe(0);
    expect(server.output()).toMatch(/^rangeway: NODE_OPTIONS: .* use --require, .*$/m);
  });
});

itPackaged([], 'goes on after the file was replaced, as an upgrade does', async () => {
  await using home = await openHome();
  const own = join(home.dir, 'bin', 'rangeway');
  await mkdir(join(home.dir, 'bin'));
  await copyFile(executable, own);
  await chmod(own, 0o755);
  const args = [originUrl, '--listen', '127.0.0.1:0', '--dir', 'store'];
  await using server = startProgram(own, args, { ...user, cwd: home.dir, env: home.env });
  const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),/);
  await rm(own);
  expect((await fetch(`${url}/replaced`)).status).toBe(200);
  expect(await server.stop('SIGTERM'), server.output()).toBe(0);
});

/** The packages of Debian with the libraries. GCC 5.2 has the libstdc++ 3.4.21 that is expected below. */
const debianPackages: Readonly<Record<string, string>> = {
  libatomic: 'libatomic1',
  libgcc_s: 'libgcc-s1',
  'libstdc++': 'libstdc++6 (>= 5.2)',
  libc: 'libc6 (>= 2.28)',
  libdl: 'libc6 (>= 2.28)',
  libm: 'libc6 (>= 2.28)',
  libpthread: 'libc6 (>= 2.28)',
  'ld-linux-x86-64': 'libc6 (>= 2.28)',
  'ld-linux-aarch64': 'libc6 (>= 2.28)',
};

describe('the file', () => {
  itPackaged([], 'has its licences beside it: of Node, and of every package that Rangeway depends on', async () => {
    const licences = await readFile(join(inject('packages'), 'LICENSES.txt'), 'utf8');
    const description = JSON.parse(await readFile(join(projectDirectory, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>;
    };
    const named = [...Object.entries(description.dependencies).map((each) => each.join(' ')), 'Node.js '];
    expect(named.filter((each) => !licences.includes(`  ${each}`))).toEqual([]);
    expect(licences).toContain(await readFile(join(projectDirectory, 'LICENSE'), 'utf8'));
  });

  itPackaged(['readelf'], 'needs a system as old as docs/packages.md says', async () => {
    const { stdout } = await runProgram('readelf', ['--wide', '--version-info', '--dynamic', executable], '/');
    const text = stdout.toString();
    const newest = (name: string) =>
      [...text.matchAll(new RegExp(`Name: ${name}_([\\d.]+)`, 'g'))]
        .map(([, version = '']) => version)
        .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
        .at(-1);
    expect({ glibc: newest('GLIBC'), libstdc: newest('GLIBCXX') }).toEqual({ glibc: '2.28', libstdc: '3.4.21' });
    const documented = await readFile(join(projectDirectory, 'docs/packages.md'), 'utf8');
    expect(documented).toContain('glibc 2.28');
    const libraries = [...text.matchAll(/Shared library: \[(.*?)\.so/g)].map(([, name = '']) => name);
    const { stdout: depends } = await runProgram(
      'dpkg-deb',
      ['--field', join(inject('packages'), 'rangeway.deb'), 'Depends'],
      '/',
    );
    const owners = new Set(libraries.map((name) => debianPackages[name] ?? `the package of ${name}`));
    expect([...owners].sort()).toEqual(depends.toString().trim().split(', ').sort());
  });
});
