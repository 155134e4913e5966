/**
 * Writes events as log lines: JSON for programs, one readable line each for people. Levels, messages and fields of each event
 * are here; all text is redacted. The line of a request is written by a template at a tenth of what pino would cost.
 */

import { pino } from 'pino';
import { prettyFactory } from 'pino-pretty';
import type {
  AdminEvent,
  Emit,
  ExchangeEvent,
  FillEvent,
  FleetEvent,
  LifeEvent,
  ListenerEvent,
  LogEvent,
  OriginEvent,
  PrefetchEvent,
  RefusalEvent,
  RequestEvent,
  ServerEvent,
  StoreEvent,
  TunnelEvent,
  UnloggedEvent,
} from './events.ts';
import { hasSecretParameter, redact } from './redact.ts';

/** The destination of lines. */
export interface LogStream {
  readonly isTTY?: boolean | undefined;
  write(line: string): unknown;
  /** Writes the lines that it holds, where the stream gathers lines. */
  flush?(): void;
  hasColors?(): boolean;
  /** The width of a terminal, in columns. */
  readonly columns?: number | undefined;
  /** For a stream that drops lines when it is full: how many in total, and the callback for when it takes lines again. */
  readonly droppedLines?: number;
  onGap?(callback: (lines: number) => void): void;
}

/** Minimum level that is logged. */
type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** An `Emit` that logs events. Its level can be changed at any time. */
export interface Log extends Emit {
  readLevel(): LogLevel;
  setLevel(level: LogLevel): void;
  /** How many lines the stream has dropped so far. */
  readDroppedLines(): number;
}

/** The options of a log. */
export interface LogOptions {
  readonly level: LogLevel;
  /** `auto` is `pretty` on a terminal and `json` elsewhere. */
  readonly format: 'auto' | 'pretty' | 'json';
  readonly stream: LogStream;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The number of this worker, where several processes write to one stream. Each line of JSON has it. */
  readonly worker?: number | undefined;
}

/** Creates a log. It passes each line to the stream at once, in this thread. */
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
      // These lines are rare, and people wait for them.
      if (!frequent.has(event.kind)) stream.flush?.();
    }
  };
  stream.onGap?.((droppedLines) => {
    const message = `the log is written again; ${droppedLines} lines were dropped: its reader was too slow, or its disk was full`;
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

/** Kinds of events that can occur for each request. Their lines are not flushed, but written together. */
const frequent: ReadonlySet<string> = new Set([
  'request',
  'fill',
  'prefetch',
  'exchange',
  'revalidation',
  'refusal',
  'tunnel',
]);

/** Returns a function for the time in ISO 8601, which formats each millisecond only once. */
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
    // `messageFormat` formats the whole line. pino-pretty would put fields that are not ignored in front of it.
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

/** Events that are logged. */
type LoggedEvent = Exclude<ServerEvent, UnloggedEvent>;

function isLogged(event: ServerEvent): event is LoggedEvent {
  switch (event.kind) {
    case 'begun':
    case 'called_off':
    case 'connection':
    case 'progress':
    case 'removal':
    case 'revalidation':
      return false;
    default:
      return true;
  }
}

/** The levels of lines, the least important first. */
type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** The fields of a line. Undefined ones are left out. */
type LogFields =
  | ReturnType<typeof requestFields>
  | ReturnType<typeof refusalFields>
  | ReturnType<typeof tunnelFields>
  | ReturnType<typeof fillFields>
  | ReturnType<typeof prefetchFields>
  | ReturnType<typeof exchangeFields>
  | ReturnType<typeof storeFields>
  | ReturnType<typeof originFields>
  | ReturnType<typeof listenerFields>
  | ReturnType<typeof fleetFields>
  | ReturnType<typeof adminFields>
  | ReturnType<typeof lifeFields>
  | ReturnType<typeof logFields>;

/** Returns the level of an event. Faults of clients are ordinary; those of origins and of the store need attention. */
export function levelOf(event: LoggedEvent): LineLevel {
  switch (event.kind) {
    case 'store':
    case 'listener':
    case 'fleet':
    case 'admin':
      return event.level;
    case 'origin':
    case 'log':
      return 'warn';
    case 'life':
      return event.stage === 'cut' || event.stage === 'reload_failed' ? 'warn' : 'info';
    case 'fill':
      return event.result === 'failed' ? 'warn' : 'debug';
    case 'prefetch':
    // The outcome is logged with the request or the fill that it was for.
    case 'exchange':
      return 'debug';
    default:
      return levelOfError(event.error);
  }
}

function levelOfError(error: string | undefined): LineLevel {
  if (error === 'internal') return 'error';
  return error?.startsWith('origin_') || error === 'bytes_gone' ? 'warn' : 'info';
}

/** Returns the message of a line: that of the event, or its kind where it has none. */
function messageOf(event: LoggedEvent): string {
  switch (event.kind) {
    case 'life':
    case 'store':
    case 'origin':
    case 'listener':
    case 'fleet':
    case 'admin':
    case 'log':
      return redact(event.message);
    default:
      return event.kind;
  }
}

/** Returns the fields of a line. */
export function fieldsOf(event: LoggedEvent): LogFields {
  switch (event.kind) {
    case 'request':
      return requestFields(event);
    case 'refusal':
      return refusalFields(event);
    case 'tunnel':
      return tunnelFields(event);
    case 'fill':
      return fillFields(event);
    case 'prefetch':
      return prefetchFields(event);
    case 'exchange':
      return exchangeFields(event);
    case 'store':
      return storeFields(event);
    case 'origin':
      return originFields(event);
    case 'listener':
      return listenerFields(event);
    case 'fleet':
      return fleetFields(event);
    case 'admin':
      return adminFields(event);
    case 'life':
      return lifeFields(event);
    case 'log':
      return logFields(event);
  }
}

/** `formatRequestLine` writes the same fields as JSON: change both together. */
function requestFields(event: RequestEvent) {
  return {
    event: event.kind,
    method: redact(event.method),
    scheme: event.scheme,
    authority: redact(event.authority),
    target: redact(event.target),
    version: event.version,
    status: event.status,
    range: redactSome(event.range),
    bytes: event.bytesSent,
    complete: event.complete,
    outcome: event.outcome,
    reason: redactSome(event.reason),
    apartBy: redactSome(event.apartBy?.join(', ')),
    collapsed: event.collapsed,
    originBytes: event.originBytes,
    headMs: roundMs(event.headMs),
    totalMs: roundMs(event.durationMs),
    route: redactSome(event.route),
    peer: event.peer,
    client: event.client,
    user: redactSome(event.user),
    error: event.error,
    errorDetail: redactSome(event.errorDetail),
    traceId: event.traceId,
  };
}

function refusalFields(event: RefusalEvent) {
  return {
    event: event.kind,
    status: event.status,
    peer: event.peer,
    error: event.error,
    errorDetail: redactSome(event.detail),
  };
}

function tunnelFields(event: TunnelEvent) {
  return {
    event: event.kind,
    authority: redact(event.authority),
    target: redact(event.target),
    status: event.status,
    bytesFromOrigin: event.bytesFromOrigin,
    bytesToOrigin: event.bytesToOrigin,
    totalMs: roundMs(event.durationMs),
    peer: event.peer,
    error: event.error,
    errorDetail: redactSome(event.errorDetail),
  };
}

function fillFields(event: FillEvent) {
  return {
    event: event.kind,
    key: redact(event.key),
    generation: event.generation,
    bytes: event.bytes,
    result: event.result,
    resumptions: event.resumptions,
    ...(event.isPart && { part: true }),
    totalMs: roundMs(event.durationMs),
    error: event.error,
    errorDetail: redactSome(event.errorDetail),
  };
}

function prefetchFields(event: PrefetchEvent) {
  return {
    event: event.kind,
    key: redact(event.key),
    route: redact(event.route),
    result: event.result,
    bytes: event.bytes,
    detail: redactSome(event.detail),
  };
}

function exchangeFields(event: ExchangeEvent) {
  return {
    event: event.kind,
    route: redact(event.route),
    origin: redact(event.origin),
    method: redact(event.method),
    status: event.status,
    resent: event.isResent,
    bytes: event.receivedBytes,
    headMs: event.headMs === undefined ? undefined : roundMs(event.headMs),
    totalMs: roundMs(event.durationMs),
    error: event.error,
    errorDetail: redactSome(event.errorDetail),
  };
}

function storeFields(event: StoreEvent) {
  return { event: event.kind, detail: redactSome(event.detail) };
}

function originFields(event: OriginEvent) {
  return { event: event.kind, route: event.route, detail: redactSome(event.detail) };
}

function listenerFields(event: ListenerEvent) {
  return { event: event.kind };
}

function fleetFields(event: FleetEvent) {
  return { event: event.kind, worker: event.worker, stage: event.stage, detail: redactSome(event.detail) };
}

function adminFields(event: AdminEvent) {
  return { event: event.kind, action: event.action, stage: event.stage, peer: event.peer };
}

function lifeFields(event: LifeEvent) {
  return { event: event.kind, stage: event.stage, addresses: event.addresses, admin: event.admin };
}

function logFields(event: LogEvent) {
  return { event: event.kind, dropped: event.droppedLines };
}

function redactSome(text: string | undefined): string | undefined {
  return text === undefined ? undefined : redact(text);
}

/** Rounds to hundredths of a millisecond. */
function roundMs(ms: number): number {
  return Math.round(ms * 100) / 100;
}

/** ASCII that JSON does not escape, and in which `redact` can only find secret parameters: no control character, `"`, `\` or `@`. */
const plain = /^[ !#-?A-[\]-~]*$/;

/** Formats the line of a request, with its line feed. `head` holds its first members: `"level":"info","time":"…","worker":1`. */
function formatRequestLine(event: RequestEvent, head: string): string {
  const { range, reason, apartBy, route, client, user, error, errorDetail, traceId } = event;
  return `{${head},"event":"request","method":${redacted(event.method)},"scheme":${quoted(event.scheme)},"authority":${redacted(event.authority)},"target":${redacted(event.target)},"version":${quoted(event.version)},"status":${event.status}${
    range === undefined ? '' : `,"range":${redacted(range)}`
  },"bytes":${number(event.bytesSent)},"complete":${event.complete},"outcome":"${event.outcome}"${
    reason === undefined ? '' : `,"reason":${redacted(reason)}`
  }${apartBy === undefined ? '' : `,"apartBy":${redacted(apartBy.join(', '))}`},"collapsed":${event.collapsed},"originBytes":${number(
    event.originBytes,
  )},"headMs":${number(roundMs(event.headMs))},"totalMs":${number(roundMs(event.durationMs))}${
    route === undefined ? '' : `,"route":${redacted(route)}`
  },"peer":${quoted(event.peer)}${client === undefined ? '' : `,"client":${quoted(client)}`}${
    user === undefined ? '' : `,"user":${redacted(user)}`
  }${error === undefined ? '' : `,"error":${quoted(error)}`}${
    errorDetail === undefined ? '' : `,"errorDetail":${redacted(errorDetail)}`
  }${traceId === undefined ? '' : `,"traceId":${quoted(traceId)}`},"msg":"request"}\n`;
}

function redacted(text: string): string {
  return plain.test(text) && !hasSecretParameter(text) ? `"${text}"` : JSON.stringify(redact(text));
}

function quoted(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** JSON has no NaN and no infinity. */
function number(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** Colours text, or returns it as it is where colours are off. */
interface Paint {
  dim(text: string): string;
  green(text: string): string;
  cyan(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
}

/** A line of the log as JSON: its fields, level, message and time. */
type LogLine = LogFields & { readonly level: string; readonly time: string; readonly msg: string };

/** Formats a line, without a line feed: `12:00:01 GET  206 hit           100 B      1 ms  /video.mp4 bytes=0-99`. */
function formatPrettyLine(line: LogLine, paint: Paint): string {
  // The columns of requests stay below each other. Their level is behind them.
  if (line.event === 'request') return [paint.dim(formatTime(line.time)), ...formatRequest(line, paint)].join(' ');
  return [paint.dim(formatTime(line.time)), ...formatLevel(line, paint), ...formatEvent(line, paint)].join(' ');
}

/** Formats bytes in the largest decimal unit that leaves a digit before the point, in at most three digits: `100 B`, `1.5 MB`. */
function formatBytes(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
  let amount = bytes;
  let index = 0;
  while (amount >= 999.5 && index < units.length - 1) {
    amount /= 1000;
    index += 1;
  }
  return `${Number(amount.toPrecision(3))} ${units[index]}`;
}

function formatEvent(line: LogLine, paint: Paint): string[] {
  switch (line.event) {
    case 'request':
      return formatRequest(line, paint);
    case 'refusal':
      return [paintStatus(line.status, paint), 'refused', ...some(line.peer), ...formatError(line, paint)];
    case 'tunnel':
      return [
        `tunnel ${line.target}`,
        paintStatus(line.status, paint),
        paint.dim(formatMs(line.totalMs)),
        ...formatError(line, paint),
      ];
    case 'fill':
      return [
        `fill ${line.key} ${line.result}`,
        formatBytes(line.bytes),
        paint.dim(formatMs(line.totalMs)),
        ...formatError(line, paint),
      ];
    case 'exchange':
      return [
        `origin ${line.origin} ${line.method}`,
        ...(line.status === undefined ? [] : [paintStatus(line.status, paint)]),
        formatBytes(line.bytes),
        paint.dim(formatMs(line.totalMs)),
        ...formatError(line, paint),
      ];
    case 'prefetch':
      return [
        `prefetch ${line.key} ${line.result}`,
        formatBytes(line.bytes),
        ...(line.detail === undefined ? [] : [paint.dim(`(${line.detail})`)]),
      ];
    case 'store':
    case 'origin':
    case 'fleet':
      return [line.msg, ...(line.detail === undefined ? [] : [paint.dim(`(${line.detail})`)])];
    case 'listener':
    case 'admin':
    case 'life':
    case 'log':
      return [line.msg];
  }
}

/** The widths of the columns of a request: method, outcome, bytes, time. Longer text moves the rest of its line. */
const widths = { method: 4, outcome: 11, bytes: 7, time: 8 };

function formatRequest(line: Extract<LogLine, { event: 'request' }>, paint: Paint): string[] {
  const outcome = (line.outcome === 'none' ? '-' : line.outcome).padEnd(widths.outcome);
  return [
    line.method.padEnd(widths.method),
    paintStatus(line.status, paint),
    paintOutcome(line.outcome, outcome, paint),
    formatBytes(line.bytes).padStart(widths.bytes),
    `${paint.dim(formatMs(line.totalMs).padStart(widths.time))} `,
    line.target,
    ...(line.range === undefined ? [] : [paint.cyan(line.range)]),
    ...(line.complete ? [] : [paint.yellow('cut')]),
    ...formatReasons(line, paint),
    ...(line.error === undefined ? [] : [...formatLevel(line, paint), ...formatError(line, paint)]),
  ];
}

function paintOutcome(outcome: string, text: string, paint: Paint): string {
  if (outcome === 'hit') return paint.green(text);
  if (outcome === 'stale' || outcome === 'revalidated') return paint.cyan(text);
  return outcome === 'miss' ? paint.yellow(text) : text;
}

/** Says why the cache decided so, and what that cost the origin. */
function formatReasons(line: Extract<LogLine, { event: 'request' }>, paint: Paint): string[] {
  const reasons = [
    ...(line.outcome === 'none' ? [] : some(line.reason)),
    ...(line.apartBy === undefined || line.outcome === 'none' ? [] : [`apart by ${line.apartBy}`]),
    ...(line.collapsed ? ['collapsed'] : []),
    ...(line.originBytes > 0 ? [`origin ${formatBytes(line.originBytes)}`] : []),
  ];
  return reasons.length === 0 ? [] : [paint.dim(`(${reasons.join(', ')})`)];
}

function formatLevel(line: LogLine, paint: Paint): string[] {
  if (line.level === 'warn') return [paint.yellow('warning:')];
  return line.level === 'error' ? [paint.red('error:')] : [];
}

function formatError(line: { error?: string | undefined; errorDetail?: string | undefined }, paint: Paint): string[] {
  if (line.error === undefined) return [];
  return [paint.red(line.errorDetail === undefined ? line.error : `${line.error}: ${line.errorDetail}`)];
}

function paintStatus(status: number, paint: Paint): string {
  const text = String(status);
  if (status >= 500) return paint.red(text);
  if (status >= 400) return paint.yellow(text);
  return status >= 300 ? paint.cyan(text) : paint.green(text);
}

/** Formats the local time of day. */
function formatTime(time: string): string {
  const date = new Date(time);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

function formatMs(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
}

function some(text: string | undefined): string[] {
  return text === undefined ? [] : [text];
}
