/** A real terminal for a command: a window of tmux, of which a test reads the screen and to which it sends keys. */

import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectDirectory } from './rangeway-process.ts';

const execute = promisify(execFile);

/** A shell in a terminal. */
export interface Terminal extends AsyncDisposable {
  /** Types a command line and Enter. `rangeway` runs the executable of the project, `exec_rangeway` in place of the shell. */
  type(line: string): Promise<void>;
  /** Sends keys by their names in tmux, such as `q`, `C-c`, `Enter`. */
  press(...keys: readonly string[]): Promise<void>;
  /** Returns the screen. */
  read(): Promise<string>;
  /** Waits until the screen matches, and returns it. */
  waitFor(pattern: RegExp): Promise<string>;
  resize(columns: number, rows: number): Promise<void>;
}

/** Opens a terminal with a shell. Its prompt is `$ `. Disposing ends the shell and its commands. */
export async function openTerminal(
  columns: number,
  rows: number,
  environment: Record<string, string> = {},
): Promise<Terminal> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-tmux-'));
  // Node and the commands decide about colours by these; the terminal alone is to decide.
  const { CI: _ci, FORCE_COLOR: _forced, NO_COLOR: _refused, ...inherited } = process.env;
  const tmux = async (...args: readonly string[]): Promise<string> => {
    const { stdout } = await execute('tmux', ['-S', join(dir, 'socket'), '-f', '/dev/null', ...args], {
      env: { ...inherited, LC_ALL: 'C.UTF-8', TERM: 'xterm-256color' },
    });
    return stdout;
  };
  const variables = Object.entries(environment).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
  const size = ['-x', String(columns), '-y', String(rows)];
  await tmux('-u', 'new-session', '-d', ...size, ...variables, 'sh');
  const command = `'${process.execPath}' '${join(projectDirectory, 'bin/rangeway.js')}'`;
  const read = (): Promise<string> => tmux('capture-pane', '-p');
  const terminal: Terminal = {
    type: async (line) => void (await tmux('send-keys', line, 'Enter')),
    press: async (...keys) => void (await tmux('send-keys', ...keys)),
    read,
    async waitFor(pattern) {
      // Each reading is a process of its own, which takes a while: this does not spin.
      for (;;) {
        const screen = await read();
        if (pattern.test(screen)) return screen;
      }
    },
    resize: async (width, height) => void (await tmux('resize-window', '-x', String(width), '-y', String(height))),
    async [Symbol.asyncDispose]() {
      await tmux('kill-server').catch(() => undefined);
      await rm(dir, { recursive: true, force: true });
    },
  };
  // The prompt shows that the shell reads. A function keeps the long path of the executable off the screen.
  await terminal.waitFor(/^[#$]/m);
  await terminal.type(`PS1='$ '; rangeway() { ${command} "$@"; }; exec_rangeway() { exec ${command} "$@"; }; clear`);
  await terminal.waitFor(/^\$/);
  return terminal;
}
