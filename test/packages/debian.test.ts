/** The Debian package: by lintian, and its whole life in a copy of this system whose changes are lost. */

import { appendFile, chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, inject } from 'vitest';
import { buildPrograms, itPackaged } from '../support/packages/packaged.ts';
import { openSystemCopy, type ScratchRoot } from '../support/packages/scratch-root.ts';
import { runProgram } from '../support/processes/programs.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { itAsRoot } from '../support/processes/root-only.ts';

const deb = join(inject('packages'), 'rangeway.deb');

itPackaged([], 'contains what it should, and belongs to root', async () => {
  const { stdout } = await runProgram('dpkg-deb', ['--contents', deb], '/');
  const lines = stdout.toString().trim().split('\n');
  const files = lines.filter((line) => line.startsWith('-')).map((line) => /\.(\/.*)$/.exec(line)?.[1] ?? line);
  const completion = files.filter((file) => /completion/.test(file));
  expect(files.filter((file) => !completion.includes(file))).toEqual([
    '/etc/rangeway/rangeway.json',
    '/usr/bin/rangeway',
    '/usr/lib/systemd/system/rangeway.service',
    '/usr/lib/systemd/system/rangeway.socket',
    '/usr/share/doc/rangeway/README.Debian',
    '/usr/share/doc/rangeway/changelog.Debian.gz',
    '/usr/share/doc/rangeway/changelog.gz',
    '/usr/share/doc/rangeway/copyright',
    '/usr/share/doc/rangeway/examples/config.example.json',
    '/usr/share/lintian/overrides/rangeway',
    '/usr/share/man/man1/rangeway.1.gz',
    '/usr/share/rangeway/config.schema.json',
  ]);
  const { stdout: help } = await runProgram(join(inject('packages'), 'rangeway'), ['--help'], '/');
  expect(completion).toHaveLength(/^ {2}completion\b/m.test(help.toString()) ? 3 : 0);
  expect(lines.filter((line) => !/^[d-](?:rwxr-xr-x|rw-r--r--) root\/root /.test(line))).toEqual([]);
});

itPackaged(['lintian'], 'has no errors or warnings of lintian', async () => {
  // The words in Node are not ours, and to check them takes half of the time.
  const args = [
    '--no-cfg',
    '--allow-root',
    '--dont-check-part',
    'binaries/spelling',
    '--fail-on',
    'error,warning',
    deb,
  ];
  const { code, stdout, stderr } = await runProgram('lintian', args, '/');
  expect({ code, output: `${stdout}${stderr}` }).toEqual({ code: 0, output: '' });
});

/** Programs of the system that the scripts of the package call, replaced by one that records its arguments. */
const recorder = '#!/bin/sh\necho "$(basename "$0") $*" >> /root/calls\n';

/** Makes a copy of this system look as if systemd ran in it. */
async function pretendSystemd({ dir }: ScratchRoot): Promise<void> {
  await mkdir(join(dir, 'run/systemd/system'), { recursive: true });
  for (const name of ['systemctl', 'deb-systemd-invoke']) {
    await writeFile(join(dir, 'usr/bin', name), recorder);
    await chmod(join(dir, 'usr/bin', name), 0o755);
  }
}

/** Returns the calls since the last time, except those of deb-systemd-helper. */
async function takeCalls({ dir }: ScratchRoot): Promise<string[]> {
  const text = await readFile(join(dir, 'root/calls'), 'utf8').catch(() => '');
  await writeFile(join(dir, 'root/calls'), '');
  return text.split('\n').filter((line) => line !== '' && line !== 'systemctl daemon-reload');
}

async function filesNamedRangeway(root: ScratchRoot): Promise<string[]> {
  const { stdout } = await root.run('find', '/etc', '/usr', '/var', '/run', '-name', '*rangeway*');
  return stdout
    .toString()
    .split('\n')
    .filter((line) => line !== '')
    .sort();
}

const succeeds = async (root: ScratchRoot, ...command: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await root.run(...command);
  expect(code, `${command.join(' ')}: ${stdout}${stderr}`).toBe(0);
  return stdout.toString();
};

itAsRoot(
  [...buildPrograms, 'mount', 'chroot', 'dpkg', 'systemd-analyze', 'deb-systemd-helper'],
  'installs, upgrades, keeps the configuration when it is removed, and leaves nothing when it is purged',
  async () => {
    await using root = await openSystemCopy();
    const before = await filesNamedRangeway(root);
    await pretendSystemd(root);
    await writeFile(join(root.dir, 'root/rangeway.deb'), await readFile(deb));

    // Installs; the service is neither enabled nor started.
    await succeeds(root, 'dpkg', '--no-triggers', '--install', '/root/rangeway.deb');
    expect(await takeCalls(root)).toEqual(['systemctl --system daemon-reload']);
    const wanted = join(root.dir, 'etc/systemd/system/multi-user.target.wants');
    expect(await readdir(wanted).catch(() => [])).not.toContain('rangeway.service');
    const { version } = JSON.parse(await readFile(join(projectDirectory, 'package.json'), 'utf8')) as {
      version: string;
    };
    expect(await succeeds(root, 'rangeway', '--version')).toBe(`${version}\n`);
    const checked = await succeeds(root, 'rangeway', 'check', '/etc/rangeway/rangeway.json');
    expect(checked).toMatch(/^\/etc\/rangeway\/rangeway\.json: ok/);
    for (const unit of ['rangeway.service', 'rangeway.socket']) {
      const { code, stdout, stderr } = await root.run('systemd-analyze', 'verify', '--man=no', unit);
      const complaints = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('rangeway'));
      expect({ code, complaints }).toEqual({ code: 0, complaints: [] });
    }

    // An upgrade restarts the service where it runs. It keeps a configuration that was changed.
    const configuration = join(root.dir, 'etc/rangeway/rangeway.json');
    await appendFile(configuration, '\n');
    const changed = await readFile(configuration, 'utf8');
    await succeeds(root, 'dpkg', '--no-triggers', '--install', '/root/rangeway.deb');
    expect(await takeCalls(root)).toEqual([
      'systemctl --system daemon-reload',
      'deb-systemd-invoke try-restart rangeway.service',
    ]);
    expect(await readFile(configuration, 'utf8')).toBe(changed);

    // Removal stops the service, and keeps the configuration and the store.
    await mkdir(join(root.dir, 'var/cache/private/rangeway/store'), { recursive: true });
    await succeeds(root, 'ln', '-s', 'private/rangeway', '/var/cache/rangeway');
    await succeeds(root, 'dpkg', '--no-triggers', '--remove', 'rangeway');
    expect(await takeCalls(root)).toEqual([
      'deb-systemd-invoke stop rangeway.socket rangeway.service',
      'systemctl --system daemon-reload',
    ]);
    expect(await readFile(configuration, 'utf8')).toBe(changed);
    expect((await stat(join(root.dir, 'var/cache/private/rangeway/store'))).isDirectory()).toBe(true);
    expect((await root.run('test', '-e', '/usr/bin/rangeway')).code).toBe(1);

    // Purging removes the rest.
    await succeeds(root, 'dpkg', '--no-triggers', '--purge', 'rangeway');
    expect(await filesNamedRangeway(root)).toEqual(before);
  },
  180_000,
);

itPackaged([], 'its scripts refuse an argument that dpkg does not use', async () => {
  for (const name of ['postinst', 'prerm', 'postrm']) {
    const { code, stderr } = await runProgram('sh', [join(projectDirectory, 'packaging/debian', name), 'else'], '/');
    expect({ code, stderr }).toEqual({ code: 1, stderr: `${name}: unknown argument: else\n` });
  }
});
