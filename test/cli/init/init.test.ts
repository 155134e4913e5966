/** `rangeway init`: what it asks, what it writes, and that the file serves. */

import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { type InitFlags, init } from '../../../src/cli/init/init.ts';
import { run } from '../../../src/cli/main.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { itWith } from '../../support/processes/programs.ts';
import { startRangeway } from '../../support/processes/rangeway-process.ts';
import { runOnTerminal, type TerminalStep } from '../../support/processes/terminal.ts';
import { createFakeCliIo } from '../../support/proxies/fake-cli-io.ts';
import { testCertificate } from '../../support/values/tls-certificate.ts';

const root = mkdtempSync(join(tmpdir(), 'rangeway-init-test-'));
afterAll(() => rmSync(root, { recursive: true }));
const newDir = () => mkdtemp(join(root, 'case-'));

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function openOrigin(answer: RequestListener = (_request, response) => response.end('body')): Promise<string> {
  return `http://127.0.0.1:${await open(createServer(answer))}`;
}

async function open(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

/** Nothing listens there. */
const deadOrigin = 'http://127.0.0.1:9';

/** Runs the command without a terminal. */
async function written(file: string, flags: InitFlags) {
  const io = createFakeCliIo();
  const input = Readable.from([]);
  const code = await init(file, flags, io, {
    input,
    random: (size) => Buffer.alloc(size, 7),
    now: () => Date.parse('2026-12-01'),
  });
  return { code, ...io.written };
}

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

describe('init --yes', () => {
  it('writes a file that is valid, and says what is next', async () => {
    const dir = await newDir();
    const file = join(dir, 'r.jsonc');
    const { code, stdout, stderr } = await written(file, { yes: true, origin: deadOrigin, probe: false });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toBe(`Wrote ${file}. Next:\n  rangeway doctor -c ${file}\n  rangeway -c ${file}\n`);
    const loaded = await loadConfig(file);
    expect(loaded).toMatchObject({
      kind: 'ok',
      config: {
        listen: [{ address: { kind: 'tcp', host: '127.0.0.1' } }],
        store: { type: 'disk', dir: undefined },
        workers: 1,
        admin: undefined,
        routes: [{ origin: { url: `${deadOrigin}/` } }],
      },
    });
    expect(readdirSync(dir)).toEqual(['r.jsonc']);
  });

  it('takes each answer from its flag', async () => {
    const dir = await newDir();
    const file = join(dir, 'etc', 'r.json');
    const flags: InitFlags = {
      yes: true,
      origin: 'https://files.example.org/base',
      probe: false,
      listen: '0.0.0.0:8443',
      dir: join(dir, 'store'),
      maxSize: '50GB',
      memory: '1GB',
      workers: '3',
      admin: '9180',
      originHost: 'keep',
      insecureTls: true,
    };
    const { code, stdout } = await written(file, flags);
    expect(code).toBe(0);
    const token = join(dir, 'etc', 'admin-token');
    expect(stdout).toMatch(new RegExp(`^Wrote ${token}, which only this user can read\\.\nWrote ${file}\\.`));
    expect(await loadConfig(file)).toMatchObject({
      kind: 'ok',
      config: {
        listen: [{ address: { host: '0.0.0.0', port: 8443 } }],
        store: { dir: join(dir, 'store'), maxSizeBytes: 50e9, memoryBytes: 1e9 },
        workers: 3,
        admin: { listen: { port: 9180 }, token: { kind: 'file', name: token } },
        routes: [{ origin: { url: 'https://files.example.org/base', host: 'keep', insecureTls: true } }],
      },
    });
    // The file is relative, so that both can be moved together.
    expect(await readFile(file, 'utf8')).toContain('"token": "file:./admin-token"');
    expect(await modeOf(token)).toBe('600');
    expect(await readFile(token, 'utf8')).toMatch(/^[\w-]{43}\n$/);
  });

  it.each<[flags: InitFlags, want: object]>([
    [{ store: 'memory' }, { store: { type: 'memory', maxSizeBytes: 256e6 } }],
    [{ store: 'memory', maxSize: '1GB' }, { store: { type: 'memory', maxSizeBytes: 1e9 } }],
    [
      { store: 'redis', memory: '1GB' },
      { store: { type: 'redis', url: { node: { host: '127.0.0.1', port: 6379 } }, memoryBytes: 1e9 } },
    ],
    [{ store: 'rediss://a.example/2' }, { store: { type: 'redis', url: { node: { host: 'a.example' } }, tls: true } }],
    [{ admin: 'off' }, { admin: 'off' }],
    [{ admin: '9180', adminToken: 'env:TOKEN' }, { admin: { token: { kind: 'env', name: 'TOKEN' } } }],
    [{ admin: 'unix:/run/admin.sock' }, { admin: { listen: { kind: 'unix', path: '/run/admin.sock' } } }],
    [{ workers: 'auto' }, { workers: 'auto' }],
    [{ listen: 'unix:/run/r.sock' }, { listen: [{ address: { kind: 'unix', path: '/run/r.sock' } }] }],
    [{ listen: 'systemd' }, { listen: [{ address: { kind: 'systemd' } }] }],
    [{ dir: 'relative' }, { store: { dir: join(process.cwd(), 'relative') } }],
  ])('%j', async (flags, want) => {
    const file = join(await newDir(), 'r.json');
    expect(await written(file, { yes: true, origin: deadOrigin, probe: false, ...flags })).toMatchObject({
      code: 0,
      stderr: '',
    });
    expect(await loadConfig(file)).toMatchObject({ kind: 'ok', config: want });
  });

  it('keeps an existing token', async () => {
    const dir = await newDir();
    await writeFile(join(dir, 'admin-token'), 'a-token-of-a-good-length\n');
    const flags: InitFlags = { yes: true, origin: deadOrigin, probe: false, admin: '9180' };
    const { code, stdout } = await written(join(dir, 'r.json'), flags);
    expect(code).toBe(0);
    expect(stdout).not.toContain('admin-token');
    expect(await readFile(join(dir, 'admin-token'), 'utf8')).toBe('a-token-of-a-good-length\n');
  });

  it('replaces no file without --force', async () => {
    const file = join(await newDir(), 'r.json');
    await writeFile(file, 'mine');
    const flags: InitFlags = { yes: true, origin: deadOrigin, probe: false };
    expect(await written(file, flags)).toEqual({
      code: 1,
      stdout: '',
      stderr: `rangeway: ${file} exists: --force replaces it, or name another file\n`,
    });
    expect(await readFile(file, 'utf8')).toBe('mine');
    expect(await written(file, { ...flags, force: true })).toMatchObject({ code: 0, stderr: '' });
    expect(await loadConfig(file)).toMatchObject({ kind: 'ok' });
  });

  it('says where it cannot write', async () => {
    const dir = await newDir();
    await writeFile(join(dir, 'file'), '');
    const { code, stderr } = await written(join(dir, 'file', 'r.json'), {
      yes: true,
      origin: deadOrigin,
      probe: false,
    });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^rangeway: cannot write: (?:ENOTDIR|EEXIST)/);
  });

  it.each<[want: string, flags: InitFlags]>([
    ['there is no terminal, so nothing can be asked: give --yes and --origin URL', {}],
    ['there is no terminal', { origin: deadOrigin }],
    ['--yes takes defaults, and the origin has none: give --origin URL', { yes: true }],
    [
      '--origin: expected the URL of an origin; did you mean "http://localhost:3000"?',
      { yes: true, origin: 'localhost:3000' },
    ],
    ['--insecure-tls: applies to an https:// origin only', { yes: true, origin: deadOrigin, insecureTls: true }],
    ['--path: expected a path that begins with "/"', { yes: true, origin: deadOrigin, path: 'film' }],
    ['--listen: expected [host:]port', { yes: true, origin: deadOrigin, probe: false, listen: 'here' }],
    ['--store: expected "disk", "memory" or "redis"', { yes: true, origin: deadOrigin, probe: false, store: 'ram' }],
    [
      '--dir: applies to a store of type "disk" only',
      { yes: true, origin: deadOrigin, probe: false, store: 'memory', dir: 'x' },
    ],
    ['--max-size: expected a size', { yes: true, origin: deadOrigin, probe: false, maxSize: '10G' }],
    ['--memory: must be at least 1MB', { yes: true, origin: deadOrigin, probe: false, memory: '1KB' }],
    ['--workers: expected a number', { yes: true, origin: deadOrigin, probe: false, workers: 'many' }],
    ['--admin: expected', { yes: true, origin: deadOrigin, probe: false, admin: 'here' }],
    [
      '--admin-token: expected "env:NAME"',
      { yes: true, origin: deadOrigin, probe: false, admin: '9180', adminToken: 's3cret' },
    ],
    ['--admin-token is for --admin [host:]port', { yes: true, origin: deadOrigin, probe: false, adminToken: 'env:X' }],
  ])('misuse: %s', async (want, flags) => {
    const dir = await newDir();
    const { code, stdout, stderr } = await written(join(dir, 'r.json'), flags);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(`rangeway: ${want}`);
    expect(stderr).not.toContain('s3cret');
    expect(readdirSync(dir)).toEqual([]);
  });

  it('writes what the origin can do as comments, whatever it sends', async () => {
    const origin = await openOrigin((_request, response) => {
      response.writeHead(200, { 'content-type': 'video/mp4', etag: 'W/"*/ \\u0085 }"' }).end('body');
    });
    const file = join(await newDir(), 'r.json');
    const { code, stderr } = await written(file, { yes: true, origin, path: '/film.mp4' });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const text = await readFile(file, 'utf8');
    expect(text).toContain('// What GET /film.mp4 showed on 2026-12-01, by rangeway probe:');
    expect(text).toMatch(/^ {6}\/\/ {3}ranges {7}none: asked for one byte it sends the whole \(200\)$/m);
    expect(text).toMatch(/^ {6}\/\/ "cache": \{"defaultTtlSeconds":60\},$/m);
    expect(await loadConfig(file)).toMatchObject({
      kind: 'ok',
      config: { routes: [{ origin: { url: `${origin}/` } }] },
    });
  });

  it('writes the file also where the origin does not answer', async () => {
    const file = join(await newDir(), 'r.json');
    const { code, stderr } = await written(file, { yes: true, origin: deadOrigin });
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /^rangeway: http:\/\/127\.0\.0\.1:9\/ cannot be asked: ECONNREFUSED.*; the file is written all the same\n$/,
    );
  });

  it('chooses a port that is free, and not that of the origin', async () => {
    const file = join(await newDir(), 'r.json');
    const flags: InitFlags = { yes: true, origin: 'http://localhost:8080', probe: false };
    expect(await written(file, flags)).toMatchObject({ code: 0 });
    const loaded = await loadConfig(file);
    const address = loaded.kind === 'ok' ? loaded.config.listen[0]?.address : undefined;
    expect(address?.kind === 'tcp' && address.port).toBeGreaterThan(8080);
  });

  it('can be named by --help, and serves with its file', async () => {
    const io = createFakeCliIo();
    expect(await run(['init', '--help'], io)).toBe(0);
    expect(io.written.stdout).toContain('--no-probe');
    const dir = await newDir();
    const origin = await openOrigin();
    const file = join(dir, 'r.jsonc');
    const flags = ['--listen', '127.0.0.1:0', '--dir', join(dir, 'store'), '--admin', '127.0.0.1:0'];
    await using made = startRangeway(['init', file, '-y', '--origin', origin, ...flags]);
    expect(await made.ended(), made.output()).toBe(0);
    await using checked = startRangeway(['check', file]);
    expect(await checked.ended(), checked.output()).toBe(0);
    await using served = startRangeway(['-c', file]);
    const [, url = ''] = await served.waitFor(/ready on (http:[^\s",]+)/);
    expect(await (await fetch(url)).text()).toBe('body');
  });
});

describe('on a terminal', () => {
  const asked = {
    origin: 'such as http://127.0.0.1:3000: ',
    path: 'Best a large file [/]: ',
    listen: '0.0.0.0:PORT is for other machines [127.0.0.1:',
    store: 'A directory, "memory", or the URL of Redis or Valkey [',
    size: 'How much is stored at most?',
    memory: 'requested all the time? [',
    admin: 'also those with a token [socket]: ',
  };

  itWith(['python3'], 'init asks, takes Enter for defaults, and writes the file', async () => {
    const dir = await newDir();
    const origin = await openOrigin();
    const steps: readonly TerminalStep[] = [
      [asked.origin, `${origin}\n`],
      [asked.path, '\n'],
      [asked.listen, '\n'],
      [asked.store, '\n'],
      [asked.size, '\n'],
      [asked.memory, '\n'],
      [asked.admin, '\n'],
    ];
    const { code, shown } = await runOnTerminal(['init'], steps, dir, { HOME: dir, XDG_CACHE_HOME: '' });
    expect(code, shown).toBe(0);
    expect(shown).toContain('ranges       none: asked for one byte it sends the whole (200)');
    expect(shown).toMatch(/Where are responses stored\? .* \[.*\/\.cache\/rangeway\/127\.0\.0\.1-\d+\]: /);
    expect(shown).toMatch(/stored at most\? \d.* are free there \[\w+\]: /);
    expect(shown).toMatch(
      /\nWrote rangeway\.jsonc\. Next:\n {2}rangeway doctor -c rangeway\.jsonc\n {2}rangeway -c rangeway\.jsonc\n$/,
    );
    expect(await loadConfig(join(dir, 'rangeway.jsonc'))).toMatchObject({
      kind: 'ok',
      config: { store: { dir: undefined }, admin: undefined, routes: [{ origin: { url: `${origin}/` } }] },
    });
  });

  itWith(['python3'], 'init takes the server and the path from the URL of a file', async () => {
    const dir = await newDir();
    const origin = await openOrigin();
    const steps: readonly TerminalStep[] = [
      [asked.origin, `${origin}/film.mp4\n`],
      [`that is the URL of a file: the server is ${origin}\n`.replace('\n', '\r\n'), ''],
      ['Best a large file [/film.mp4]: ', '\n'],
      ...[asked.listen, asked.store, asked.size, asked.memory, asked.admin].map((each) => [each, '\n'] as const),
    ];
    const { code, shown } = await runOnTerminal(['init'], steps, dir, { HOME: dir });
    expect(code, shown).toBe(0);
    const text = await readFile(join(dir, 'rangeway.jsonc'), 'utf8');
    expect(text).toContain('What GET /film.mp4 showed');
    expect(await loadConfig(join(dir, 'rangeway.jsonc'))).toMatchObject({
      config: { routes: [{ origin: { url: `${origin}/` } }] },
    });
  });

  itWith(['python3'], 'init says what is wrong with an answer, and asks again', async () => {
    const dir = await newDir();
    const steps: readonly TerminalStep[] = [
      [asked.origin, '\n'],
      [asked.origin, 'localhost:3000\n'],
      ['did you mean "http://localhost:3000"?', ''],
      [asked.origin, `${deadOrigin}\n`],
      [asked.path, 'film\n'],
      ['expected a path', ''],
      [asked.path, '/film\n'],
      ['Go on all the same? yes or no [no]: ', 'perhaps\n'],
      ['Go on all the same? yes or no [no]: ', 'yes\n'],
      [asked.listen, 'here\n'],
      ['expected [host:]port', ''],
      [asked.listen, '0.0.0.0:18080\n'],
      [asked.store, '~/store\n'],
      [asked.size, '10G\n'],
      ['expected a size', ''],
      [asked.size, '20GB\n'],
      [asked.memory, '64MB\n'],
      [asked.admin, 'someone\n'],
      [asked.admin, '9180\n'],
      ['or env:NAME [file:admin-token]: ', '\n'],
    ];
    const { code, shown } = await runOnTerminal(['init', 'r.json'], steps, dir, { HOME: dir });
    expect(code, shown).toBe(0);
    expect(await loadConfig(join(dir, 'r.json'))).toMatchObject({
      kind: 'ok',
      config: {
        listen: [{ address: { host: '0.0.0.0', port: 18_080 } }],
        store: { dir: join(dir, 'store'), maxSizeBytes: 20e9, memoryBytes: 64e6 },
        admin: { token: { kind: 'file', name: join(dir, 'admin-token') } },
      },
    });
    expect(await modeOf(join(dir, 'admin-token'))).toBe('600');
  });

  itWith(['python3'], 'init asks only what no flag answers, and about a certificate', async () => {
    const dir = await newDir();
    const port = await open(createTlsServer(testCertificate, (_request, response) => response.end('body')));
    const flags = [
      '--origin',
      `https://127.0.0.1:${port}`,
      '--path',
      '/',
      '--listen',
      '18080',
      '--max-size',
      '1GB',
      '--admin',
      'off',
    ];
    const steps: readonly TerminalStep[] = [
      ['Accept any certificate from it?', 'yes\n'],
      [asked.store, 'memory\n'],
    ];
    const { code, shown } = await runOnTerminal(['init', 'r.json', ...flags], steps, dir);
    expect(code, shown).toBe(0);
    expect(shown).not.toContain(asked.memory);
    expect(await loadConfig(join(dir, 'r.json'))).toMatchObject({
      kind: 'ok',
      config: {
        store: { type: 'memory', maxSizeBytes: 1e9 },
        admin: 'off',
        routes: [{ origin: { insecureTls: true } }],
      },
    });
  });

  itWith(
    ['python3'],
    'init ends at Ctrl-C, at Ctrl-D, at "no" and at a wrong flag without writing anything',
    async () => {
      const dir = await newDir();
      const interrupted = await runOnTerminal(['init'], [[asked.origin, '\u0003']], dir);
      expect(interrupted.code).toBe(-2);
      const ended = await runOnTerminal(['init'], [[asked.origin, '\u0004']], dir);
      expect(ended.code).toBe(1);
      expect(ended.shown).toContain('rangeway: nothing was written\n');
      const refused = await runOnTerminal(
        ['init', '--origin', deadOrigin, '--path', '/'],
        [['Go on all the same?', '\n']],
        dir,
      );
      expect(refused.code).toBe(1);
      const misused = await runOnTerminal(['init', '--workers', 'many'], [], dir);
      expect(misused.code).toBe(2);
      expect(misused.shown).toContain('--workers: expected a number');
      expect(readdirSync(dir)).toEqual([]);
    },
  );

  itWith(['python3'], 'doctor has colours, unless NO_COLOR is set', async () => {
    const dir = await newDir();
    await mkdir(join(dir, 'store'));
    const flags = ['doctor', '--listen', '0', '--dir', 'store'];
    expect((await runOnTerminal(flags, [], dir)).shown).toContain('\u001b[32mok\u001b[39m');
    const plain = await runOnTerminal(flags, [], dir, { NO_COLOR: '1' });
    expect(plain.shown).not.toContain('\u001b');
    expect(plain.shown).toMatch(/^\w+ +node /m);
  });
});
