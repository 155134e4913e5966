/** The log: events as lines of JSON for programs, or as one readable line each for people. */

import { pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type { Emit } from './events.ts';
import { fieldsOf, levelOf, messageOf } from './log-record.ts';
import { formatPrettyLine, type LogLine } from './pretty-line.ts';

/** Where lines go. A terminal tells that it is one, and whether it shows colours. */
export interface LogStream {
  readonly isTTY?: boolean | undefined;
  write(line: string): unknown;
  hasColors?(): boolean;
}

/** What is written, how, and where. */
export interface LogOptions {
  /** The least important level that is written. */
  readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';
  /** `auto` is `pretty` on a terminal and `json` elsewhere. */
  readonly format: 'auto' | 'pretty' | 'json';
  readonly stream: LogStream;
}

/** A log as a taker of events. It writes each line at once, in this thread, so that none is lost when the process ends. */
export function createLog({ level, format, stream }: LogOptions): Emit {
  const pretty = format === 'pretty' || (format === 'auto' && stream.isTTY === true);
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    pretty ? createPrettyStream(stream) : stream,
  );
  return (event) => {
    const lineLevel = levelOf(event);
    if (logger.isLevelEnabled(lineLevel)) logger[lineLevel](fieldsOf(event), messageOf(event));
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
