/** The Dockerfile, the compose file and .dockerignore: they are valid, and have what docs/packages.md promises. */

import { execFileSync } from 'node:child_process';
import { validate } from 'dockerfile-utils';
import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { onlyOne, readServices, readStages, textOf } from '../support/packages/container-files.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';

const { version } = JSON.parse(textOf('package.json')) as { version: string };
const stages = readStages();
const [build = [], image = []] = stages;

const graceSeconds = (() => {
  const checked = checkConfig({ routes: [{ origin: 'http://127.0.0.1:3000' }] }, '.');
  if (checked.kind === 'invalid') throw new Error('invalid');
  return checked.config.shutdownGraceSeconds;
})();

describe('Dockerfile', () => {
  it('is valid', () => {
    expect(validate(textOf('Dockerfile'))).toEqual([]);
    expect(stages).toHaveLength(2);
  });

  it('builds on the platform of the builder, for the platform of the image', () => {
    expect(onlyOne(build, 'FROM')).toMatchObject({
      flags: { platform: '$BUILDPLATFORM' },
      text: expect.stringMatching(/^node:26-.* AS build$/),
    });
    expect(
      image.filter(({ keyword }) => keyword === 'RUN'),
      'nothing runs on the platform of the image',
    ).toEqual([]);
    expect(onlyOne(build, 'ARG').text).toBe('TARGETARCH');
  });

  it('installs what package-lock.json says before the source is copied, so that the layer is kept', () => {
    const order = build
      .filter(({ keyword, text }) => keyword === 'COPY' || text.startsWith('npm'))
      .map(({ text }) => text);
    expect(order.slice(0, 3)).toEqual([
      'package.json package-lock.json ./',
      'npm pkg delete scripts.prepare && npm ci --no-audit --no-fund',
      '. .',
    ]);
  });

  it('takes only finished files into the image', () => {
    const copies = image.filter(({ keyword }) => keyword === 'COPY' || keyword === 'ADD');
    expect(copies.map(({ keyword, flags, text }) => [keyword, flags['from'], text])).toEqual([
      ['COPY', 'build', '/image/ /'],
      ['COPY', 'build', '/store /var/cache/rangeway'],
    ]);
  });

  it('runs as a numeric user other than root, which owns the volume for the store', () => {
    const { text: user } = onlyOne(image, 'USER');
    expect(user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(JSON.parse(onlyOne(image, 'VOLUME').text)).toEqual(['/var/cache/rangeway']);
    const store = image.find(({ text }) => text.startsWith('/store'));
    expect(store?.flags['chown']).toBe(user);
    expect(onlyOne(image, 'ENV').text).toBe('XDG_CACHE_HOME=/var/cache');
  });

  it('starts the program itself, which gets SIGTERM', () => {
    expect(JSON.parse(onlyOne(image, 'ENTRYPOINT').text)).toEqual(['/usr/bin/rangeway']);
    expect(JSON.parse(onlyOne(image, 'CMD').text)).toEqual(['--config', '/etc/rangeway/rangeway.json']);
    expect(onlyOne(image, 'STOPSIGNAL').text).toBe('SIGTERM');
  });

  it('has a health check without a shell, which ends before it counts as failed', () => {
    const { flags, text } = onlyOne(image, 'HEALTHCHECK');
    expect(JSON.parse(text.replace(/^CMD /, ''))).toEqual(['/usr/bin/rangeway', 'health']);
    // `rangeway health` waits for 5 seconds.
    expect(Number.parseInt(flags['timeout'] ?? '', 10)).toBeGreaterThan(5);
  });

  it('has labels, with the version of the package', () => {
    const { text } = onlyOne(image, 'LABEL');
    const labels = [...text.matchAll(/org\.opencontainers\.image\.([a-z.]+)="([^"]*)"/g)].map(([, name]) => name);
    expect(labels).toEqual(['title', 'description', 'licenses', 'version', 'revision', 'base.name']);
    expect(image.filter(({ keyword }) => keyword === 'ARG').map(({ text: argument }) => argument)).toContain(
      `VERSION=${version}`,
    );
    expect(text).toContain(`base.name="${onlyOne(image, 'FROM').text}"`);
  });
});

describe('.dockerignore', () => {
  const patterns = textOf('.dockerignore')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  const isIgnored = (name: string): boolean =>
    patterns.some((pattern) =>
      pattern.startsWith('**/*')
        ? name.endsWith(pattern.slice(4))
        : `${name}/`.startsWith(`${pattern}/`) || `/${name}/`.includes(`/${pattern.replace(/^\*\*\//, '')}/`),
    );

  it('leaves out what is not of the source, and secrets of git', () => {
    for (const name of [
      'node_modules/zod/index.js',
      '.git/config',
      'dist/index.js',
      'rangeway-0.1.0.tgz',
      'test/a.ts',
    ]) {
      expect(isIgnored(name), name).toBe(true);
    }
  });

  it('leaves nothing out that the build needs', () => {
    const names = execFileSync('git', ['ls-files'], { cwd: projectDirectory, encoding: 'utf8' }).split('\n');
    const needed =
      /^(?:src|bin|assets|packaging|dashboard)\/|^(?:package|package-lock|tsconfig|tsconfig\.build)\.json$|^LICENSE$/;
    expect(names.filter((name) => needed.test(name)).length).toBeGreaterThan(100);
    expect(names.filter((name) => needed.test(name) && isIgnored(name))).toEqual([]);
  });
});

describe('compose.yaml', () => {
  const services = readServices();

  it('has a legacy origin, and Rangeway that starts when the origin is healthy', () => {
    expect(Object.keys(services)).toEqual(['origin', 'rangeway']);
    expect(services['origin']?.command).toEqual(['demo', '--origin-only', '--listen', '0.0.0.0:3000']);
    expect(services['rangeway']?.command).toEqual(['http://origin:3000', '--listen', '0.0.0.0:8080']);
    expect(services['rangeway']?.['depends_on']).toEqual({ origin: { condition: 'service_healthy' } });
    expect(services['origin']?.healthcheck?.test).toEqual([
      ...['CMD', '/usr/bin/rangeway', 'probe', 'http://127.0.0.1:3000/poster.svg'],
    ]);
  });

  it.each(Object.entries(services))('%s may do nothing that it does not need', (_name, service) => {
    expect(service).toMatchObject({
      image: 'rangeway',
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
      pids_limit: expect.any(Number),
    });
    expect(service.tmpfs).toEqual([expect.stringMatching(/^\/tmp:(?=.*noexec)(?=.*nosuid)(?=.*nodev)/)]);
    // Only this machine can connect.
    for (const port of service['ports'] as readonly string[]) expect(port).toMatch(/^127\.0\.0\.1:/);
    for (const name of ['privileged', 'cap_add', 'user', 'network_mode', 'pid'])
      expect(service).not.toHaveProperty(name);
  });

  it('keeps the store in a volume, and waits longer for the end than shutdownGraceSeconds', () => {
    expect(services['rangeway']?.['volumes']).toEqual(['store:/var/cache/rangeway']);
    expect(Number(/^(\d+)s$/.exec(String(services['rangeway']?.['stop_grace_period']))?.[1])).toBeGreaterThan(
      graceSeconds + 5,
    );
  });
});
