/** The npm package: its files, and its command, module and types after an installation into an empty folder. */

import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject } from 'vitest';
import { type CountingOrigin, openCountingOrigin } from '../support/origins/counting-origin.ts';
import { itPackaged } from '../support/packages/packaged.ts';
import { runProgram } from '../support/processes/programs.ts';
import { projectDirectory, startProgram } from '../support/processes/rangeway-process.ts';
import { isPeriodic } from '../support/values/periodic-body.ts';

const tarball = join(inject('packages'), 'rangeway.tgz');
const { version } = JSON.parse(await readFile(join(projectDirectory, 'package.json'), 'utf8')) as { version: string };

/** Uses what the package exports, and states what must not compile. */
const consumer = `
import { createServer } from 'node:http';
import { createSecureServer } from 'node:http2';
import { createRangeway, type Emit, type EmbeddedConfig, EmbeddedConfigFault, type Rangeway, type ServerEvent } from 'rangeway';

const config: EmbeddedConfig = { store: { type: 'memory' }, routes: [{ origin: 'http://127.0.0.1:3000' }] };
const seen: ServerEvent[] = [];
const emit: Emit = (event) => void seen.push(event);
export const rangeway: Rangeway = await createRangeway(config, { emit });
createServer(rangeway.handler).on('upgrade', rangeway.upgrade);
createSecureServer({ allowHTTP1: true }, rangeway.handler);
createServer((request, response) => rangeway.middleware(request, response, (error?: unknown) => void error));
export const status: number = (await rangeway.fetch(new Request('http://a.example/'), { clientAddress: '::1' })).status;
export const fault: Error = new EmbeddedConfigFault('no');
// @ts-expect-error: an embedded Rangeway does not listen.
await createRangeway({ ...config, listen: '127.0.0.1:0' });
// @ts-expect-error: events are objects.
export const text: string = seen[0];
await rangeway.close({ graceMs: 5 });
`;

describe('the files', () => {
  let names: string[];
  beforeAll(async () => {
    if (inject('packages') === '') return;
    const { stdout } = await runProgram('tar', ['-tzf', tarball], '/');
    names = stdout
      .toString()
      .trim()
      .split('\n')
      .map((name) => name.replace(/^package\//, ''));
  });

  itPackaged([], 'are those that users need', async () => {
    const needed = [
      ...['bin/rangeway.js', 'dist/index.js', 'dist/index.d.ts', 'dist/cli/main.js', 'dist/man/rangeway.1'],
      ...['docs/library.md', 'examples/node-http.ts', 'examples/vite.config.ts'],
      ...['dist/dashboard/index.html', 'dist/dashboard/LICENSES.md'],
      ...['config.schema.json', 'config.example.json', 'assets/demo/range-test.mp4', 'docs/operations.md'],
      ...['packaging/systemd/rangeway.service', 'packaging/systemd/rangeway.socket'],
      ...['LICENSE', 'README.md', 'CHANGELOG.md', 'SECURITY.md', 'package.json'],
    ];
    expect(needed.filter((name) => !names.includes(name))).toEqual([]);
  });

  itPackaged([], 'are no others', async () => {
    const known = [
      /^(?:LICENSE|README\.md|CHANGELOG\.md|SECURITY\.md|package\.json|config\.(?:schema|example)\.json)$/,
      /^bin\/[\w-]+\.js$/,
      /^examples\/[\w.-]+\.(?:ts|conf|cfg|json|yaml|sh)$/,
      /^assets\/demo\/[\w.-]+$/,
      /^docs\/(?:(?:recipes\/)?[\w-]+\.md|images\/[\w-]+\.(?:png|svg))$/,
      /^packaging\/systemd\/rangeway\.(?:service|socket)$/,
      /^dist\/man\/rangeway\.1$/,
      /^dist\/dashboard\//,
      /^dist\/(?!config\/write-schema)(?:[\w-]+\/)*[\w-]+\.(?:js|js\.map|d\.ts)$/,
    ];
    expect(names.filter((name) => !known.some((pattern) => pattern.test(name)))).toEqual([]);
  });

  itPackaged([], 'have the dashboard, where the project has one', async () => {
    const { scripts } = JSON.parse(await readFile(join(projectDirectory, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const hasDashboard = Object.values(scripts).some((script) => script.includes('dashboard'));
    expect(names.includes('dist/dashboard/index.html')).toBe(hasDashboard);
  });
});

describe('installed into an empty folder', () => {
  let dir: string;
  let origin: CountingOrigin;
  /** PATH with the Node of this process, and without that of the machine. */
  let env: NodeJS.ProcessEnv;
  beforeAll(async () => {
    if (inject('packages') === '') return;
    dir = await mkdtemp(join(tmpdir(), 'rangeway-npm-'));
    origin = await openCountingOrigin('whole', 1_000_000);
    await symlink(process.execPath, join(dir, 'node'));
    const { PATH = '', ...others } = process.env;
    env = {
      ...others,
      PATH: [dir, ...PATH.split(delimiter).filter((each) => !each.includes('node_modules'))].join(delimiter),
    };
    delete env['NODE_COMPILE_CACHE'];
    await writeFile(join(dir, 'package.json'), '{ "private": true }\n');
    await using installed = startProgram('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', tarball], {
      cwd: dir,
      env,
    });
    expect(await installed.ended(), installed.output()).toBe(0);
  });
  afterAll(async () => {
    if (inject('packages') === '') return;
    await origin[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  itPackaged(['npx'], 'npx rangeway --version', async () => {
    await using started = startProgram('npx', ['--no-install', 'rangeway', '--version'], { cwd: dir, env });
    expect([await started.ended(), started.output()]).toEqual([0, `${version}\n`]);
  });

  itPackaged([], 'npm knows its manual page', async () => {
    const description = JSON.parse(await readFile(join(dir, 'node_modules/rangeway/package.json'), 'utf8')) as {
      man: string;
    };
    expect(await readFile(join(dir, 'node_modules/rangeway', description.man), 'utf8')).toMatch(/^\.TH RANGEWAY 1 /);
  });

  itPackaged([], 'the command serves ranges, with several workers', async () => {
    const command = join(dir, 'node_modules/.bin/rangeway');
    const flags = ['--listen', '127.0.0.1:0', '--dir', join(dir, 'store'), '--workers', '2'];
    await using server = startProgram(command, [origin.url, ...flags], { cwd: dir, env });
    const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),/);
    const response = await fetch(`${url}/film`, { headers: { range: 'bytes=500000-500999' } });
    expect(response.status).toBe(206);
    expect(isPeriodic(Buffer.from(await response.arrayBuffer()), 500_000)).toBe(true);
    expect(await server.stop('SIGTERM'), server.output()).toBe(0);
  });

  itPackaged([], 'the command checks the example, whose schema is beside it', async () => {
    const example = join(dir, 'node_modules/rangeway/config.example.json');
    const command = join(dir, 'node_modules/.bin/rangeway');
    await using checked = startProgram(command, ['check', example], { cwd: dirname(example), env });
    expect([await checked.ended(), checked.output()]).toEqual([0, expect.stringContaining(': ok')]);
  });

  itPackaged([], 'the module serves ranges', async () => {
    const program = `
      import { createRangeway } from 'rangeway';
      await using rangeway = await createRangeway(process.argv[1]);
      const request = new Request('http://a.example/film', { headers: { range: 'bytes=500000-500999' } });
      const response = await rangeway.fetch(request);
      console.log(response.status, (await response.arrayBuffer()).byteLength);`;
    const args = ['--input-type=module', '--eval', program, origin.url];
    await using started = startProgram(process.execPath, args, { cwd: dir, env });
    expect([await started.ended(), started.output()]).toEqual([0, '206 1000\n']);
  });

  itPackaged([], 'the types are sound, and fit a program and the examples', async () => {
    // The packages that a program has besides: those of this checkout, so that nothing is fetched.
    await mkdir(join(dir, 'node_modules/@types'), { recursive: true });
    for (const name of ['@types/node', '@types/express', 'express', 'vite']) {
      await symlink(join(projectDirectory, 'node_modules', name), join(dir, 'node_modules', name));
    }
    await cp(join(dir, 'node_modules/rangeway/examples'), join(dir, 'examples'), { recursive: true });
    await writeFile(join(dir, 'program.ts'), consumer);
    await writeFile(join(dir, 'package.json'), '{ "private": true, "type": "module" }\n');
    const compilerOptions = {
      ...{ target: 'es2024', lib: ['es2024', 'esnext.disposable', 'esnext.iterator'], types: ['node'] },
      ...{ module: 'nodenext', strict: true, noEmit: true, skipLibCheck: false },
    };
    const config = { compilerOptions, include: ['program.ts', 'examples'] };
    await writeFile(join(dir, 'tsconfig.json'), JSON.stringify(config));
    const compiler = join(projectDirectory, 'node_modules/.bin/tsc');
    await using compiled = startProgram(compiler, ['-p', dir], { cwd: dir, env });
    expect([await compiled.ended(), compiled.output()]).toEqual([0, '']);
  });
});
