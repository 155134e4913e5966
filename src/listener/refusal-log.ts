/** Tells of refused connections, but not of each one: a flood of them must not fill the log. */

import { type ErrorCode, errorKinds, type ProxyError } from '../http/proxy-error.ts';
import type { Emit } from '../telemetry/events.ts';
import { type After, unreferencedTimers } from './rounds.ts';

/** So many refusals with one code are told in a window; the others are counted. */
const toldPerWindow = 10;
const windowMs = 10_000;

/** Where a listener tells what it refused before there was a request. */
export interface RefusalLog {
  /** `peer` is the address of who was refused, where there is one. */
  tell(error: ProxyError, peer: string | undefined): void;
  /** Tells how many were not told yet. */
  close(): void;
}

interface Window {
  told: number;
  untold: number;
}

/** Creates a log; the refusals beyond the first ones are told as a number when their window ends. */
export function createRefusalLog(emit: Emit, after: After = unreferencedTimers): RefusalLog {
  const windows = new Map<ErrorCode, Window>();
  let callOff: (() => void) | undefined;
  const flush = (): void => {
    callOff?.();
    callOff = undefined;
    for (const [error, { untold }] of windows) {
      if (untold === 0) continue;
      emitRefusal(error, undefined, `${untold} more connections, in ${windowMs / 1000} seconds`, untold);
    }
    windows.clear();
  };
  const emitRefusal = (
    error: ErrorCode,
    peer: string | undefined,
    detail: string | undefined,
    count?: number,
  ): void => {
    emit({ kind: 'refusal', peer, status: errorKinds[error].status, error, detail, count });
  };
  return {
    tell({ code, detail }, peer) {
      callOff ??= after(windowMs, flush);
      const window = windows.get(code) ?? { told: 0, untold: 0 };
      windows.set(code, window);
      if (window.told >= toldPerWindow) {
        window.untold += 1;
        return;
      }
      window.told += 1;
      emitRefusal(code, peer, detail);
    },
    close: flush,
  };
}
