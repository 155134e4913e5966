/** Standard output as a server's log uses it: written without ever waiting for a reader. */

import { constants, fstatSync, openSync, writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { backgroundClock } from '../setup/system.ts';
import { LineBuffer, type LineTarget } from '../telemetry/line-buffer.ts';
import type { LogStream } from '../telemetry/log.ts';

const stdoutFd = 1;
/** A pipe takes so many bytes as a whole or not at all (PIPE_BUF), so lines of several processes do not mix. */
const pipePieceBytes = 4096;
const filePieceBytes = 65_536;

/** Opens the log on standard output. What is held when the process exits, or ends by an uncaught exception, is written then. */
export function openProcessLog(): LogStream {
  const buffer = new LineBuffer(openTarget());
  process.on('exit', () => buffer.finish());
  const { stdout } = process;
  return Object.assign(buffer, { isTTY: stdout.isTTY, hasColors: () => stdout.isTTY && stdout.hasColors() });
}

function openTarget(): LineTarget {
  const kind = fstatSync(stdoutFd);
  const own = kind.isFIFO() || isatty(stdoutFd) ? reopen() : undefined;
  const fd = own ?? stdoutFd;
  const keepNonBlocking = own === undefined && (kind.isFIFO() || kind.isSocket()) ? setNonBlocking : () => {};
  return {
    pieceBytes: kind.isFile() ? filePieceBytes : pipePieceBytes,
    write(piece) {
      keepNonBlocking();
      return typeof piece === 'string' ? writeSync(fd, piece) : writeSync(fd, piece);
    },
    after: backgroundClock.after,
    sleep: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  };
}

/**
 * The pipe or terminal opened once more. Whether writes wait is a property that all processes with the same descriptor share, and
 * starting a worker resets it; with a descriptor of its own this process decides. Undefined where the system has no `/proc`, or
 * does not allow it.
 */
function reopen(): number | undefined {
  try {
    return openSync(`/proc/self/fd/${stdoutFd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return undefined;
  }
}

/** A socket cannot be opened once more. Node knows how to set the property, but has no public function for it. */
function setNonBlocking(): void {
  const { _handle: handle } = process.stdout as { readonly _handle?: { setBlocking?(isBlocking: boolean): unknown } };
  handle?.setBlocking?.(false);
}
