/** The commands in a real terminal (tmux): what people see, their keys, and the terminal afterwards. */

import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { openActivityServer } from '../support/origins/activity-server.ts';
import { itWith } from '../support/processes/programs.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { openTerminal } from '../support/processes/tmux.ts';

/** The shell is back: its prompt is the last line, and it says what `stty` tells of the terminal. */
const restored = /icanon-on echo-on\n\$/;
/** An empty prompt: the shell waits for a line. */
const prompt = /^\$$/m;
const askTerminal =
  'stty -a | grep -q " icanon" && printf icanon-on; stty -a | grep -q " echo " && printf " echo-on\\n"';

async function openDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'rangeway-terminal-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

describe('rangeway top', () => {
  itWith(['tmux'], 'draws, moves, sorts, filters, purges, stops fills and quits', async () => {
    await using server = await openActivityServer();
    await using terminal = await openTerminal(120, 30);
    await terminal.type(`rangeway top --admin ${server.place} --interval 100ms`);
    const first = await terminal.waitFor(/100\/s.* in flight/);
    expect(first).toMatch(/^Rangeway http:\/\/127\.0\.0\.1:\d+ ready {2}1 of 2 workers/);
    expect(first).toMatch(/▓▓▓▓░{12} 25\.0 % {2}1 MB of 4 MB .* http:\/\/media\.example\/film\.mp4/);
    expect(first).toContain('http://media.example/映画.m4s');
    await terminal.press('s', 's', 's');
    await terminal.waitFor(/FILLS 2 {2}by name/);
    await terminal.press('/');
    await terminal.press('-l', 'FILM');
    await terminal.press('Enter');
    await terminal.waitFor(/FILLS 1 of 2 {2}by name, with "FILM"/);
    await terminal.press('p');
    await terminal.waitFor(/^Purge http:\/\/media\.example\/film\.mp4\? y \/ n$/m);
    await terminal.press('n');
    await terminal.waitFor(/^q quit/m);
    expect(server.orders).toEqual([]);
    await terminal.press('p');
    await terminal.waitFor(/y \/ n/);
    await terminal.press('y');
    await terminal.waitFor(/^purged \(2\): http:\/\/media\.example\/film\.mp4$/m);
    await terminal.press('x');
    await terminal.waitFor(/Stop the fill of .*y \/ n/);
    await terminal.press('y');
    await terminal.waitFor(/^stopped: /m);
    expect(server.orders).toEqual([
      'POST /api/v1/purge {"url":"http://media.example/film.mp4","mode":"hard"}',
      'DELETE /api/v1/fills/1.1',
    ]);
    await terminal.press('?');
    await terminal.waitFor(/Any key goes back/);
    await terminal.press('Space');
    await terminal.resize(60, 12);
    await terminal.waitFor(/^requests .*\n(.*\n){9,10}q quit[^\n]{1,60}$/m);
    await terminal.press('q');
    // What is typed before the shell has the terminal again would be keys of the command.
    await terminal.waitFor(prompt);
    await terminal.type(askTerminal);
    expect(await terminal.waitFor(restored)).not.toContain('FILLS');
  });

  itWith(['tmux'], 'restores the terminal at Ctrl-C, at signals and while it is suspended', async () => {
    await using server = await openActivityServer();
    await using terminal = await openTerminal(100, 24);
    await using dir = await openDirectory();
    const file = join(dir.path, 'pid');
    const start = async (): Promise<void> => {
      await terminal.type(`clear; rangeway top --admin ${server.place} --interval 100ms`);
      await terminal.waitFor(/in flight/);
    };
    await start();
    await terminal.press('C-z');
    await terminal.waitFor(prompt);
    await terminal.type(askTerminal);
    await terminal.waitFor(restored);
    await terminal.type('clear; fg');
    await terminal.waitFor(/in flight/);
    await terminal.press('C-c');
    await terminal.waitFor(prompt);
    await terminal.type(`clear; ${askTerminal}`);
    await terminal.waitFor(restored);
    for (const signal of ['INT', 'TERM', 'HUP']) {
      // `exec` gives the process the id that the subshell has printed.
      await terminal.type(
        `clear; (sh -c 'echo $PPID' > ${file}; exec_rangeway top --admin ${server.place} --interval 100ms)`,
      );
      await terminal.waitFor(/in flight/);
      process.kill(Number(await readFile(file, 'utf8')), `SIG${signal}`);
      await terminal.waitFor(prompt);
      await terminal.type(`clear; ${askTerminal}`);
      await terminal.waitFor(restored);
    }
  });

  itWith(['tmux'], 'restores the terminal where the server goes away for good', async () => {
    const server = await openActivityServer();
    await using terminal = await openTerminal(100, 24);
    await terminal.type(`rangeway top --admin ${server.place} --interval 100ms`);
    await terminal.waitFor(/in flight/);
    await server[Symbol.asyncDispose]();
    await terminal.waitFor(/^rangeway: no server listens at http:\/\/127\.0\.0\.1:\d+/m);
    await terminal.type(askTerminal);
    await terminal.waitFor(restored);
  });
});

describe('the commands for a server', () => {
  let dir: string;
  let origin: Server;
  let rangeway: RangewayProcess & { readonly url: string };
  beforeAll(async () => {
    origin = createServer((request, response) => {
      response.setHeader('cache-control', 'max-age=600');
      response.setHeader('etag', '"1"');
      if (request.url !== '/film.m3u8') return void response.end('0123456789');
      response.end(`#EXTM3U\n${Array.from({ length: 60 }, (_, at) => `s${at}.ts\n`).join('')}#EXT-X-ENDLIST\n`);
    });
    origin.listen(0, '127.0.0.1');
    await once(origin, 'listening');
    dir = await mkdtemp(join(tmpdir(), 'rangeway-terminal-'));
    rangeway = await startConfigured(dir, {
      listen: '127.0.0.1:0',
      store: { dir: './store' },
      routes: [{ origin: `http://127.0.0.1:${(origin.address() as AddressInfo).port}` }],
    });
  });
  afterAll(async () => {
    await rangeway[Symbol.asyncDispose]();
    origin.close().closeAllConnections();
    await rm(dir, { recursive: true, force: true });
  });

  itWith(['tmux'], 'warm shows its progress, stops at Ctrl-C, and goes on where it was; ls draws bars', async () => {
    await using terminal = await openTerminal(110, 24);
    const notes = join(dir, 'notes');
    const command = `rangeway warm --dir ${join(dir, 'store')} --manifest ${rangeway.url}/film.m3u8 --resume ${notes}`;
    await terminal.type(`clear; ${command} --rate 5/s`);
    await terminal.waitFor(/^▓+░+ +[\d.]+ % {2}[2-9] of 61 {2}.* left$/m);
    await terminal.press('C-c');
    const stopped = await terminal.waitFor(/^rangeway: stopped; the same command goes on: /m);
    expect(stopped).not.toMatch(/░.* of 61/);
    await terminal.type(`clear; ${command}`);
    const whole = await terminal.waitFor(/^\d+ URLs, \d+ B; \d+ fetched before$/m);
    const [, now, before] = /^(\d+) URLs.*; (\d+) fetched/m.exec(whole) ?? [];
    expect(Number(now) + Number(before)).toBe(61);
    await expect(stat(notes)).rejects.toThrow('ENOENT');

    await terminal.type(`clear; rangeway ls --dir ${join(dir, 'store')} --limit 5; echo listed`);
    expect(await terminal.waitFor(/^listed/m)).toMatch(/^10 B {6}▓{16} all +200 .* http:/m);
    await terminal.type(`clear; NO_COLOR=1 rangeway probe ${rangeway.url}/s1.ts; echo probed`);
    const probed = await terminal.waitFor(/^probed/m);
    expect(probed).toContain('in short');
    expect(probed).not.toContain('asking:');
  });

  itWith(['tmux'], 'the log has a line for each request in columns', async () => {
    await using terminal = await openTerminal(110, 24);
    const { port } = origin.address() as AddressInfo;
    await terminal.type(`clear; rangeway http://127.0.0.1:${port} --listen 127.0.0.1:0 --store memory`);
    const [, url = ''] = /ready on (http:[^\s",]+)/.exec(await terminal.waitFor(/ready on http:[^\s",]+,/)) ?? [];
    for (let times = 0; times < 2; times += 1) await (await fetch(`${url}/s1.ts`)).text();
    await terminal.waitFor(/^\d\d:\d\d:\d\d GET {2}200 miss +10 B +[\d.]+ ms {2}\/s1\.ts \(uri-miss, origin 10 B\)$/m);
    await terminal.waitFor(/^\d\d:\d\d:\d\d GET {2}200 hit {10,} 10 B +[\d.]+ ms {2}\/s1\.ts$/m);
    await terminal.press('C-c');
    await terminal.waitFor(/stopped/);
  });
});
