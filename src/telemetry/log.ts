/** The log: events as lines of JSON for programs, or as one readable line each for people. */

import { pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { Emit } from './events.ts';
import { fieldsOf, isLogged, levelOf, messageOf } from './log-record.ts';
import { formatPrettyLine, type LogLine } from './pretty-line.ts';
import { formatRequestLine } from './request-line.ts';

/** Where lines go. A terminal tells that it is one, and whether it shows colours. */
export interface LogStream {
  readonly isTTY?: boolean | undefined;
  write(line: string): unknown;
  /** Writes what it holds now, where it gathers lines. */
  flush?(): void;
  hasColors?(): boolean;
  /** Of a stream that drops lines when it is full: how many so far, and what to call where lines are taken again. */
  readonly droppedLines?: number;
  onGap?(tell: (lines: number) => void): void;
}

/** The least important level that is written. */
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** A taker of events that writes them down, and whose level can be changed while it does. */
export interface Log extends Emit {
  readLevel(): LogLevel;
  setLevel(level: LogLevel): void;
  /** How many lines the stream has dropped so far. */
  readDroppedLines(): number;
}

/** What is written, how, and where. */
export interface LogOptions {
  readonly level: LogLevel;
  /** `auto` is `pretty` on a terminal and `json` elsewhere. */
  readonly format: 'auto' | 'pretty' | 'json';
  readonly stream: LogStream;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The number of the process among several that write to one stream: it stands in each line of JSON. */
  readonly worker?: number | undefined;
}

/** A log as a taker of events. It hands each line to the stream at once, in this thread. */
export function createLog({ level, format, stream, now, worker }: LogOptions): Log {
  const pretty = format === 'pretty' || (format === 'auto' && stream.isTTY === true);
  const readTime = createTimeText(now);
  const workerField = worker === undefined ? '' : `,"worker":${worker}`;
  const logger = pino(
    {
      level,
      base: worker === undefined ? null : { worker },
      timestamp: () => `,"time":"${readTime()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    pretty ? createPrettyStream(stream) : stream,
  );
  const emit: Emit = (event) => {
    if (!isLogged(event)) return;
    const lineLevel = levelOf(event);
    if (!logger.isLevelEnabled(lineLevel)) return;
    if (event.kind === 'request' && !pretty) {
      stream.write(formatRequestLine(event, `"level":"${lineLevel}","time":"${readTime()}"${workerField}`));
    } else {
      logger[lineLevel](fieldsOf(event), messageOf(event));
      // People wait for these, and there are few of them.
      if (!frequent.has(event.kind)) stream.flush?.();
    }
  };
  stream.onGap?.((droppedLines) => {
    const message = `the log is written again; ${droppedLines} lines were dropped while nothing read it or its disk was full`;
    emit({ kind: 'log', droppedLines, message });
  });
  return Object.assign(emit, {
    readLevel: () => logger.level as LogLevel,
    setLevel(newLevel: LogLevel) {
      logger.level = newLevel;
    },
    readDroppedLines: () => stream.droppedLines ?? 0,
  });
}

/** Events of which there may be one for each request: their lines are written with others. */
const frequent: ReadonlySet<string> = new Set(['request', 'fill', 'exchange', 'revalidation', 'refusal', 'tunnel']);

/** The time of day as text, which is made once for each millisecond. */
function createTimeText(now: () => number): () => string {
  let madeAt = Number.NaN;
  let text = '';
  return () => {
    const at = now();
    if (at !== madeAt) {
      madeAt = at;
      text = new Date(at).toISOString();
    }
    return text;
  };
}

function createPrettyStream(stream: LogStream): { write(line: string): void } {
  const format = prettyFactory({
    colorize: stream.hasColors?.() ?? false,
    customColors: 'message:reset',
    hideObject: true,
    // The line is made from the fields as a whole; what is not ignored here would be put in front of it.
    ignore: 'time,level',
    messageFormat: (line, _messageKey, _levelLabel, { colors }) =>
      formatPrettyLine(line as unknown as LogLine, {
        dim: colors.dim,
        green: colors.green,
        cyan: colors.cyan,
        yellow: colors.yellow,
        red: colors.red,
      }),
  });
  return { write: (line) => void stream.write(format(line)) };
}
