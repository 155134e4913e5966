import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/main.ts';
import { describeSending } from '../../src/setup/move-to-socket.ts';
import { createFakeCliIo } from '../support/proxies/fake-cli-io.ts';

const dir = mkdtempSync(join(tmpdir(), 'rangeway-commands-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

const good = file('good.json', '{ "routes": [{ "origin": "http://127.0.0.1:3000" }] }');
const bad = file('bad.json', '{ "lisen": 1, "routes": [{ "orgin": "x" }] }');
const broken = file('broken.json', '{\n  "routes": [\n}');
const storeOnly = file('store-only.json', '{ "store": { "maxSizeBytes": "1GB", "memoryBytes": "2" } }');

/** Runs a command that does not serve, and returns its output and exit code. */
async function outcomeOf(...argv: string[]) {
  const io = createFakeCliIo();
  const code = await run(argv, io);
  return { code, ...io.written };
}

const adminFlags = ['--admin', '--config', '--dir', '--token'];

describe('help and version', () => {
  it.each([['--help'], ['-h'], ['help'], ['serve', '--help'], ['help', 'serve']])('%s %s', async (...argv) => {
    const { code, stdout, stderr } = await outcomeOf(...argv);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Usage: rangeway/);
    const flags = [
      '--listen',
      '--config',
      '--store',
      '--dir',
      '--max-size',
      '--memory',
      '--default-ttl',
      '--origin-host',
    ];
    for (const flag of [...flags, '--workers', '--admin', '--admin-token', '--log-level', '--log-format', '--help'])
      expect(stdout).toContain(flag);
  });

  it('help names every command', async () => {
    const { stdout } = await outcomeOf('--help');
    for (const name of [
      'serve',
      'check',
      'explain',
      'probe',
      'top',
      'ls',
      'purge',
      'warm',
      'reload',
      'hash-password',
      'sign',
      'demo',
      'completion',
      'help',
    ])
      expect(stdout).toMatch(new RegExp(`^  ${name} `, 'm'));
  });

  it.each([
    ['explain', '--help'],
    ['help', 'explain'],
  ])('%s %s', async (...argv) => {
    const { code, stdout, stderr } = await outcomeOf(...argv);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Usage: rangeway explain \[options\] <url>\n/);
    expect([...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag)).toEqual([
      ...[
        '--range',
        '--header',
        '--request',
        '--client',
        '--json',
        '--admin',
        '--config',
        '--dir',
        '--token',
        '--help',
      ],
    ]);
  });

  it.each([
    ['demo', '--help'],
    ['help', 'demo'],
  ])('%s %s', async (...argv) => {
    const { code, stdout, stderr } = await outcomeOf(...argv);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Usage: rangeway demo \[options\]\n/);
    expect(stdout.match(/--[\w-]+/g)).toEqual(['--listen', '--origin-only', '--help']);
  });

  it.each<[command: string, usage: string, ...flags: string[]]>([
    ['probe', '[options] <origin-url> [path]', '--header', '--insecure', '--json'],
    ['top', '[options]', '--interval', '--count', '--json', ...adminFlags],
    [
      'ls',
      '[options] [url]',
      ...['--host', '--tag', '--coverage', '--no-coverage', '--limit', '--json'],
      ...adminFlags,
    ],
    [
      'purge',
      '[options] [url...]',
      ...['--prefix', '--host', '--tag', '--group', '--origin', '--all', '--soft', '--json'],
      ...adminFlags,
    ],
    [
      'warm',
      '[options] [url...]',
      ...['--from', '--sitemap', '--manifest', '--rendition', '--header'],
      ...['--rate', '--bandwidth', '--jobs', '--resume', '--json'],
      ...adminFlags,
    ],
    ['reload', '[options]', '--json', ...adminFlags],
    ['health', '[options]', '--json', ...adminFlags],
  ])('%s --help', async (command, usage, ...flags) => {
    const { code, stdout, stderr } = await outcomeOf(command, '--help');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(`Usage: rangeway ${command} ${usage}\n`);
    // Flags of this command have an indent of two. Flags within its help text have a larger one.
    expect([...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, flag]) => flag)).toEqual([...flags, '--help']);
  });

  it.each(['--version', '-v', '-V'])('%s', async (flag) => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    expect(await outcomeOf(flag)).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });
});

describe('schema', () => {
  it('prints the JSON Schema of configuration files', async () => {
    const { code, stdout } = await outcomeOf('schema');
    expect(code).toBe(0);
    expect(stdout).toBe(readFileSync(new URL('../../config.schema.json', import.meta.url), 'utf8'));
  });
});

describe('misuse exits with 2 and a hint', () => {
  const origin = 'http://127.0.0.1:3000';

  it.each<[want: string, ...argv: string[]]>([
    ['rangeway: give the URL of an origin, or a file with --config\n'],
    ['rangeway: unknown command "chek"; did you mean "check"?\n', 'chek', good],
    ['rangeway: unknown command "demo1"; did you mean "demo"?\n', 'demo1'],
    ['rangeway: unknown command "halp"; did you mean "help"?\n', 'halp'],
    ["rangeway: unknown option '--lisen'\n(Did you mean --listen?)\n", origin, '--lisen', '8080'],
    ["rangeway: option '-l, --listen <[host:]port>' argument missing\n", origin, '--listen'],
    ['rangeway: one origin is served, not 2: several need a file with routes\n', origin, origin],
    ["rangeway: missing required argument 'file'\n", 'check'],
    ['Expected a time such as 60s, 5m or 500ms.', origin, '--default-ttl', '60'],
    [
      'rangeway: <origin>: expected the URL of an origin such as "http://127.0.0.1:3000" or "unix:/run/app.sock"\n',
      'example.org',
    ],
    ['rangeway: <origin>: expected the URL of an origin; did you mean "http://localhost:3000"?\n', 'localhost:3000'],
    ['rangeway: <origin>: is listen[0], 127.0.0.1:8080: Rangeway would be its own origin', 'http://localhost:8080'],
    ['rangeway: --insecure-tls: applies to an https:// origin only\n', origin, '--insecure-tls'],
    ['rangeway: <origin>: must not hold a user name or password\n', 'http://a:b@c', '--origin-host', 'keep'],
    ['rangeway: --origin-host: expected "auto", "origin", "keep" or a host name', origin, '--origin-host', 'http://x'],
    ['rangeway: --default-ttl: must be at most 31536000, found 86400000\n', origin, '--default-ttl', '1000d'],
    ['rangeway: --listen: expected [host:]port such as "8080"', origin, '--listen', 'here'],
    ['rangeway: --store: expected "disk", "memory" or "redis", found "ram"\n', origin, '--store', 'ram'],
    ['rangeway: --max-size: expected a size such as "512MiB" or "10GB", found "10G"\n', origin, '--max-size', '10G'],
    ['rangeway: --memory: must be at least 1MB\n', origin, '--memory', '10KB'],
    ['rangeway: --dir: applies to a store of type "disk" only\n', origin, '--store', 'memory', '--dir', 'x'],
    ['rangeway: --workers: expected a number from 1 to 256, or "auto"', origin, '--workers', 'many'],
    ['rangeway: --workers: must be at most 256, found 1000\n', origin, '--workers', '1000'],
    ['rangeway: --admin: expected [host:]port', origin, '--admin', 'here'],
    ['rangeway: --admin: expected [host:]port such as "9180" or "unix:PATH"\n', origin, '--admin', 'systemd'],
    ['rangeway: --admin-token: is required where other machines can connect\n', origin, '--admin', '0.0.0.0:9180'],
    ['rangeway: --admin-token: expected "env:NAME"', origin, '--admin', '9180', '--admin-token', 's3cret'],
    [
      'rangeway: --admin off and --admin-token exclude each other\n',
      origin,
      '--admin',
      'off',
      '--admin-token',
      'env:X',
    ],
    [
      "rangeway: option '--log-level <level>' argument 'loud' is invalid. Allowed choices are trace, debug, info,",
      origin,
      '--log-level',
      'loud',
    ],
    ['rangeway: --log-format: expected "auto", "pretty" or "json"', origin, '--log-format', 'xml'],
    [`rangeway: <origin> and the routes of ${good} exclude each other`, origin, '--config', good],
    [
      `rangeway: --default-ttl goes with <origin>; in ${good} it is an option of a route\n`,
      '--config',
      good,
      '--default-ttl',
      '1s',
    ],
    [`rangeway: --origin-host goes with <origin>; in ${good} it`, '--config', good, '--origin-host', 'keep'],
    [`${storeOnly}: routes: is required\n`, '--config', storeOnly, '--memory', '1GB'],
    [`${storeOnly}: store.memoryBytes: must be at least 1MB\n`, '--config', storeOnly, origin],
    [`${bad}: lisen: unknown option "lisen"; did you mean "listen"?\n`, '--config', bad],
    [`${broken}: line 3, column 1: expected a value\n`, '--config', broken],
    ['/nowhere.json: cannot be read: ENOENT', '--config', '/nowhere.json'],
  ])('%s', async (want, ...argv) => {
    const { code, stdout, stderr } = await outcomeOf(...argv);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(want);
    expect(stderr, 'no stack').not.toContain('    at ');
    expect(stderr, 'no secret').not.toContain('s3cret');
  });
});

describe('check', () => {
  it('accepts a valid file', async () => {
    expect(await outcomeOf('check', good)).toEqual({
      code: 0,
      stdout: `${good}: ok, ${describeSending('auto')}\n`,
      stderr: '',
    });
  });

  it('reports every problem of every file, one per line', async () => {
    const { code, stdout, stderr } = await outcomeOf('check', bad, good, broken);
    expect({ code, stdout }).toEqual({ code: 2, stdout: `${good}: ok, ${describeSending('auto')}\n` });
    expect(stderr.trimEnd().split('\n')).toEqual([
      `${bad}: routes[0].origin: is required`,
      `${bad}: routes[0].orgin: unknown option "orgin"; did you mean "origin"?`,
      `${bad}: lisen: unknown option "lisen"; did you mean "listen"?`,
      `${broken}: line 3, column 1: expected a value`,
    ]);
  });
});
