/** A fake environment for a command: it records the output, sends signals, and has a clock. */

import type { CliIo, StopSignal } from '../../../src/cli/io.ts';

/** A `CliIo` that a test controls. */
export interface FakeCliIo extends CliIo {
  /** The output so far, by stream. */
  readonly written: { stdout: string; stderr: string };
  /** The exit codes of calls that would end the process at once. */
  readonly exits: readonly number[];
  /** Sends a stop signal after the clock has advanced by `laterMs`. */
  signal(name: StopSignal, laterMs?: number): void;
  /** Sends the reload signal. */
  signalReload(): void;
  /** Waits until standard output matches, and returns the match. */
  waitFor(pattern: RegExp): Promise<RegExpExecArray>;
}

export function createFakeCliIo(env: CliIo['env'] = {}): FakeCliIo {
  const written = { stdout: '', stderr: '' };
  const exits: number[] = [];
  const listeners = new Set<(signal: StopSignal) => void>();
  const reloadListeners = new Set<() => void>();
  const watchers = new Set<() => void>();
  let now = 0;
  const stdout = {
    write(text: string) {
      written.stdout += text;
      for (const watcher of watchers) watcher();
    },
  };
  return {
    written,
    exits,
    env,
    home: '/nowhere',
    stdout,
    openLog: () => stdout,
    stderr: {
      write(text) {
        written.stderr += text;
      },
    },
    now: () => now,
    exit: (code) => exits.push(code),
    onStopSignal(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    onReloadSignal(listener) {
      reloadListeners.add(listener);
      return () => reloadListeners.delete(listener);
    },
    signalReload() {
      for (const listener of reloadListeners) listener();
    },
    signal(name, laterMs = 0) {
      now += laterMs;
      for (const listener of listeners) listener(name);
    },
    waitFor(pattern) {
      return new Promise((resolve) => {
        const watcher = () => {
          const match = pattern.exec(written.stdout);
          if (match === null) return;
          watchers.delete(watcher);
          resolve(match);
        };
        watchers.add(watcher);
        watcher();
      });
    },
  };
}
