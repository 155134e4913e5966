/** A line at the bottom of a terminal that says what a command does just now. Without a terminal there is none. */

import type { CliIo } from '../io.ts';
import { canRedraw } from './abilities.ts';
import { clip } from './style.ts';

/** The line; disposing removes it. */
export interface StatusLine extends Disposable {
  /** Whether the line is visible at all. */
  readonly isShown: boolean;
  /** Replaces its text, which has no colours and no control characters. */
  show(text: string): void;
  /** Writes lines to standard output or standard error; the status stays below them. */
  print(stream: 'stdout' | 'stderr', text: string): void;
}

/** Erases the line of the cursor. */
const ERASE = '\r\u001b[2K';

/** Opens the line on standard error. */
export function openStatusLine(io: CliIo): StatusLine {
  const isShown = canRedraw(io.stderr, io.env);
  const sharesTerminal = isShown && io.stdout.isTTY === true;
  let text = '';
  const erase = (): void => {
    if (text !== '') io.stderr.write(ERASE);
  };
  const draw = (): void => {
    // One column stays free: some terminals go to the next line once the last one is used.
    if (text !== '') io.stderr.write(clip(text, (io.stderr.columns ?? 80) - 1));
  };
  return {
    isShown,
    show(next) {
      if (!isShown || next === text) return;
      erase();
      text = next;
      draw();
    },
    print(stream, lines) {
      const interferes = isShown && (stream === 'stderr' || sharesTerminal);
      if (interferes) erase();
      io[stream].write(lines);
      if (interferes) draw();
    },
    [Symbol.dispose]() {
      erase();
      text = '';
    },
  };
}
