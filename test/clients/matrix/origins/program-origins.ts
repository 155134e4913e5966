/** Origins that are programs: servers of files, of WebDAV and of audio, and Apache with PHP and git. */

import { once } from 'node:events';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createConnection, createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { until } from '../../../support/clocks/until.ts';
import { openPythonOrigin } from '../../../support/origins/whole-file-origins.ts';
import { findProgram } from '../../../support/processes/programs.ts';
import { type RangewayProcess, startProgram } from '../../../support/processes/rangeway-process.ts';
import type { LegacyOrigin, StartedOrigin } from '../origin.ts';

/** `python3 -m http.server`: HTTP/1.0, a length, Last-Modified, no ranges. */
export const pythonOrigin: LegacyOrigin = {
  name: 'Python http.server',
  programs: ['python3'],
  habit: { hasRanges: false, isStrong: true, transfers: 1 },
  async start(dir) {
    const started = await openPythonOrigin(dir);
    return {
      target: { host: '127.0.0.1', port: Number(new URL(started.url).port) },
      targetOf: (path) => path,
      [Symbol.asyncDispose]: () => started.close(),
    };
  },
};

/** nginx as it is installed, or with `max_ranges 0`. */
function nginxOrigin(name: string, hasRanges: boolean): LegacyOrigin {
  return {
    name,
    programs: ['nginx'],
    habit: { hasRanges, isStrong: true, transfers: 1 },
    async start(dir, work) {
      const path = join(work, 'socket');
      const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
      await writeFile(
        join(work, 'nginx.conf'),
        `${userInfo().uid === 0 ? 'user root;' : ''}
daemon off;
pid ${join(work, 'pid')};
error_log stderr;
events {}
http {
  types { video/mp4 mp4 m4s; application/vnd.apple.mpegurl m3u8; application/dash+xml mpd; text/html html; }
  default_type application/octet-stream;
  access_log off;
  ${temporary.map((kind) => `${kind}_temp_path ${join(work, kind)};`).join('\n  ')}
  server {
    listen unix:${path};
    root ${dir};
    ${hasRanges ? '' : 'max_ranges 0;'}
  }
}
`,
      );
      const started = startProgram(findProgram('nginx') ?? '', ['-p', work, '-c', join(work, 'nginx.conf')], {});
      await connectable({ path }, started);
      return {
        target: { path },
        targetOf: (target) => target,
        [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
      };
    },
  };
}

export const nginxWithRanges = nginxOrigin('nginx', true);
export const nginxWithoutRanges = nginxOrigin('nginx, max_ranges 0', false);

/** Starts Apache in the foreground before a directory, with gzip, git's CGI program and a download script in PHP. */
async function startApache(dir: string, work: string, prefix: string): Promise<StartedOrigin> {
  const scripts = join(work, 'cgi');
  await mkdir(scripts);
  const script = join(scripts, 'download.php');
  await writeFile(
    script,
    `#!${findProgram('php-cgi') ?? '/usr/bin/php-cgi'}
<?php
$path = realpath('${dir}' . $_SERVER['PATH_INFO']);
if ($path === false || !is_file($path)) { http_response_code(404); exit('not found'); }
header('Content-Type: application/octet-stream');
header('Content-Disposition: attachment; filename="' . basename($path) . '"');
readfile($path);
`,
  );
  await chmod(script, 0o755);
  const modules = ['mpm_event', 'authz_core', 'alias', 'mime', 'env', 'filter', 'deflate', 'cgid', 'dir'];
  // The port is free when it is asked for; if another program takes it before Apache does, the next one is tried.
  for (let attempt = 0; ; attempt += 1) {
    const port = await freePort();
    await writeFile(
      join(work, 'apache.conf'),
      `ServerRoot ${work}
ServerName localhost
Listen 127.0.0.1:${port}
PidFile ${join(work, 'apache.pid')}
ErrorLog ${join(work, 'error.log')}
${modules.map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`).join('\n')}
ScriptSock ${join(work, 'cgisock')}
${userInfo().uid === 0 ? 'User www-data\nGroup www-data' : ''}
StartServers 1
ThreadsPerChild 25
MaxSpareThreads 50
MinSpareThreads 5
MaxRequestWorkers 100
TypesConfig /dev/null
AddType video/mp4 .mp4 .m4s
AddType application/vnd.apple.mpegurl .m3u8
DocumentRoot ${dir}
ScriptAlias /download.php ${script}
ScriptAliasMatch "^/git/(.*)$" /usr/lib/git-core/git-http-backend/$1
SetEnv REDIRECT_STATUS 200
SetEnv GIT_PROJECT_ROOT ${dir}
SetEnv GIT_HTTP_EXPORT_ALL 1
# The repository belongs to the user of the tests, and Apache is another one.
SetEnv GIT_CONFIG_COUNT 1
SetEnv GIT_CONFIG_KEY_0 safe.directory
SetEnv GIT_CONFIG_VALUE_0 *
<Directory />
  Options FollowSymLinks ExecCGI
  Require all granted
</Directory>
<Location />
  SetOutputFilter DEFLATE
</Location>
# As in Debian's configuration, downloads of no type are not compressed.
<Location /download.php>
  SetEnv no-gzip 1
</Location>
`,
    );
    const started = startProgram(findProgram('apache2') ?? '', ['-DFOREGROUND', '-f', join(work, 'apache.conf')], {});
    const target = { host: '127.0.0.1', port };
    try {
      await connectable(target, started);
      return {
        target,
        targetOf: (path) => `${prefix}${path}`,
        [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
      };
    } catch (error) {
      await started[Symbol.asyncDispose]();
      if (attempt === 3) throw error;
    }
  }
}

/** Apache that compresses whatever a client accepts compressed. */
export const apacheOrigin: LegacyOrigin = {
  name: 'Apache, gzip',
  programs: ['apache2'],
  habit: { hasRanges: true, isStrong: true, transfers: 1 },
  start: (dir, work) => startApache(dir, work, ''),
};

/** A download script in PHP: no length, no validator, no ranges. */
export const phpOrigin: LegacyOrigin = {
  name: 'PHP download script',
  programs: ['apache2', 'php-cgi'],
  habit: { hasRanges: false, isStrong: false, transfers: 1 },
  start: (dir, work) => startApache(dir, work, '/download.php'),
};

/** An origin that is one program, started on a port of this machine with the arguments for it. */
function commandOrigin(
  origin: Pick<LegacyOrigin, 'name' | 'programs' | 'habit'>,
  args: (port: number, dir: string, work: string) => readonly string[] | Promise<readonly string[]>,
): LegacyOrigin {
  const { programs } = origin;
  return {
    ...origin,
    async start(dir, work) {
      // As for Apache, another program may take the port first.
      for (let attempt = 0; ; attempt += 1) {
        const target = { host: '127.0.0.1', port: await freePort() };
        const program = startProgram(findProgram(programs[0] ?? '') ?? '', await args(target.port, dir, work), {});
        try {
          await connectable(target, program);
          await answering(target.port, program);
          return {
            target,
            targetOf: (path) => path,
            [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
          };
        } catch (error) {
          await program[Symbol.asyncDispose]();
          if (attempt === 3) throw error;
        }
      }
    },
  };
}

/** `php -S`: a length, no validator, no ranges. */
export const phpServerOrigin = commandOrigin(
  { name: 'PHP built-in server', programs: ['php'], habit: { hasRanges: false, isStrong: false, transfers: 1 } },
  (port, dir) => ['-S', `127.0.0.1:${port}`, '-t', dir],
);

/** `caddy file-server`: ranges, strong tags. */
export const caddyOrigin = commandOrigin(
  { name: 'Caddy', programs: ['caddy'], habit: { hasRanges: true, isStrong: true, transfers: 1 } },
  (port, dir) => ['file-server', '--listen', `127.0.0.1:${port}`, '--root', dir],
);

/** A WebDAV server: ranges, strong tags. */
export const webdavOrigin = commandOrigin(
  { name: 'WebDAV (rclone)', programs: ['rclone'], habit: { hasRanges: true, isStrong: true, transfers: 1 } },
  (port, dir) => [
    'serve',
    'webdav',
    dir,
    '--addr',
    `127.0.0.1:${port}`,
    '--copy-links',
    '--dir-cache-time',
    '0',
    '--config',
    '/dev/null',
  ],
);

/** Icecast as it serves files: never stored, so each seek is a transfer; no validator; each range reaches to the end of the file. */
export const icecastOrigin = commandOrigin(
  { name: 'Icecast, files', programs: ['icecast2'], habit: { hasRanges: true, isStrong: false, transfers: 4 } },
  async (port, dir, work) => {
    const log = join(work, 'log');
    await mkdir(log, { recursive: true });
    await chmod(log, 0o777);
    const file = join(work, 'icecast.xml');
    const user = '<changeowner><user>nobody</user><group>nogroup</group></changeowner>';
    await writeFile(
      file,
      `<icecast>
  <limits><clients>50</clients><sources>1</sources></limits>
  <authentication><source-password>unused</source-password><admin-password>unused</admin-password></authentication>
  <hostname>localhost</hostname>
  <listen-socket><port>${port}</port><bind-address>127.0.0.1</bind-address></listen-socket>
  <paths><logdir>${log}</logdir><webroot>${dir}</webroot><adminroot>${dir}</adminroot></paths>
  <security><chroot>0</chroot>${userInfo().uid === 0 ? user : ''}</security>
</icecast>
`,
    );
    return ['-c', file];
  },
);

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
}

/** Waits until a program answers requests: some accept connections before that. Throws where it ends before that. */
async function answering(port: number, program: RangewayProcess): Promise<void> {
  let isOver = false;
  void program.ended().then(() => {
    isOver = true;
  });
  await until('the origin answers', async () => {
    if (isOver) throw new Error(`the origin has ended:\n${program.output()}`);
    return await fetch(`http://127.0.0.1:${port}/`).then(
      async (response) => {
        await response.body?.cancel();
        return true;
      },
      () => false,
    );
  });
}

/** Waits until a program accepts connections. Throws, with its output, where it ends before that. */
async function connectable(target: StartedOrigin['target'], program: RangewayProcess): Promise<void> {
  let isOver = false;
  void program.ended().then(() => {
    isOver = true;
  });
  await until('the origin listens', async () => {
    if (isOver) throw new Error(`the origin has ended:\n${program.output()}`);
    const socket = createConnection(target);
    try {
      await once(socket, 'connect');
      return true;
    } catch {
      return false;
    } finally {
      socket.destroy();
    }
  });
}
