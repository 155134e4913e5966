/**
 * The whole terminal as a screen: it is drawn at once, keys arrive as events. However the process ends, or while it is
 * suspended, the terminal is as it was before.
 */

import { emitKeypressEvents } from 'node:readline';
import type { ReadStream, WriteStream } from 'node:tty';

/** A key: its character, or its name such as `up`, `return`, `escape`, `backspace`. */
export interface Key {
  readonly name: string;
  /** The character that it types; empty for other keys. */
  readonly text: string;
  readonly ctrl: boolean;
}

/** An open screen. Disposing restores the terminal. */
export interface Screen extends Disposable {
  readonly columns: number;
  readonly rows: number;
  /** Draws lines, one for each row, each at most as wide as the screen. Lines beyond the last row are left out. */
  draw(lines: readonly string[]): void;
}

/** What happens on a screen. */
export interface ScreenEvents {
  onKey(key: Key): void;
  /** The size has changed, or the process runs again after it was suspended: everything must be drawn. */
  onChange(): void;
}

/** The alternate screen, without a cursor and without automatic line breaks; and back. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l\u001b[2J';
const LEAVE = '\u001b[0m\u001b[?7h\u001b[?25h\u001b[?1049l';
/** A terminal that knows this mode shows what is between at once. */
const BEGIN = '\u001b[?2026h\u001b[H';
const END = '\u001b[?2026l';

/** Opens the screen of this process. */
export function openScreen(input: ReadStream, output: WriteStream, events: ScreenEvents): Screen {
  let isEntered = false;
  const enter = (): void => {
    isEntered = true;
    input.setRawMode(true);
    input.resume();
    output.write(ENTER);
  };
  const leave = (): void => {
    if (!isEntered) return;
    isEntered = false;
    output.write(LEAVE);
    try {
      input.setRawMode(false);
    } catch {
      // The terminal is gone: nothing is left to restore.
    }
    input.pause();
  };
  const suspend = (): void => {
    leave();
    // SIGSTOP cannot be caught: the process waits here for SIGCONT.
    process.kill(process.pid, 'SIGSTOP');
  };
  const resume = (): void => {
    leave();
    enter();
    events.onChange();
  };
  const onKeypress = (text: string | undefined, key: { name?: string; ctrl?: boolean; sequence?: string }): void => {
    if (key.ctrl === true && key.name === 'z') {
      // As the terminal does outside of raw mode: all processes of the job are suspended.
      process.kill(0, 'SIGTSTP');
      return;
    }
    const typed = key.ctrl !== true && text !== undefined && /^[^\p{Cc}\p{Cf}]+$/u.test(text) ? text : '';
    events.onKey({ name: key.name ?? typed, text: typed, ctrl: key.ctrl === true });
  };
  emitKeypressEvents(input);
  input.on('keypress', onKeypress);
  output.on('resize', events.onChange);
  process.on('SIGTSTP', suspend);
  process.on('SIGCONT', resume);
  // Also after an exception that nothing caught.
  process.on('exit', leave);
  enter();
  return {
    get columns() {
      return output.columns;
    },
    get rows() {
      return output.rows;
    },
    draw(lines) {
      if (!isEntered) return;
      // Each line is erased before it is written: erasing from the last column on would take its last character.
      const shown = lines.slice(0, output.rows).map((line) => `\u001b[0m\u001b[2K${line}`);
      output.write(`${BEGIN}${shown.join('\r\n')}${END}`);
    },
    [Symbol.dispose]() {
      input.off('keypress', onKeypress);
      output.off('resize', events.onChange);
      process.off('SIGTSTP', suspend);
      process.off('SIGCONT', resume);
      process.off('exit', leave);
      leave();
    },
  };
}
