/** `rangeway top`: watches a running Rangeway: on a terminal as a screen with keys, elsewhere as lines or as JSON. */

import type { ReadStream, WriteStream } from 'node:tty';
import { type AdminReply, askAdmin, chooseAdminServer, failWith } from '../admin/admin-server.ts';
import { type AdminFlags, type AdminServer, formatAdminPlace } from '../admin/flags.ts';
import { type CliIo, exitCode } from '../io.ts';
import { canRedraw, wantsColors } from '../terminal/abilities.ts';
import { type Key, openScreen } from '../terminal/screen.ts';
import { createPainter } from '../terminal/style.ts';
import { printableJson } from '../text-sections.ts';
import { type Figures, FillSpeeds, figuresBetween, type TopReading } from './figures.ts';
import { firstState, pressKey, rowsOf, type TopOrder, type TopState } from './state.ts';
import { drawTop, formatTopLine, formatTopScope, type TopScene } from './view.ts';

/** The flags of the command. */
export interface TopFlags extends AdminFlags {
  readonly json?: boolean | undefined;
  /** After how many readings it ends; undefined: never. */
  readonly count?: number | undefined;
  /** Milliseconds between readings; 1000 by default. */
  readonly interval?: number | undefined;
}

/** The terminal of the process. */
interface TopTerminal {
  readonly input: ReadStream;
  readonly output: WriteStream;
}

const TIMEOUT_MS = 10_000;

/** Watches a server until a key, a signal or `count` ends it; resolves with the exit code. */
export async function top(flags: TopFlags, io: CliIo, { input, output }: TopTerminal): Promise<number> {
  const server = await chooseAdminServer(flags, io);
  if (server.kind === 'none') return server.exitCode;
  const first = await read(server);
  if (first.kind !== 'answered') return failWith(io, explained(first));
  const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
  const forget = io.onStopSignal(() => stop());
  try {
    const isScreen = flags.json !== true && input.isTTY && canRedraw(io.stdout, io.env);
    const watching = { server, first: first.value as TopReading, flags, io, stopped };
    if (!isScreen) return await printReadings(watching);
    return await showScreen(watching, { input, output }, stop);
  } finally {
    forget();
  }
}

interface Watching {
  readonly server: AdminServer;
  readonly first: TopReading;
  readonly flags: TopFlags;
  readonly io: CliIo;
  /** Resolves when the command must end. */
  readonly stopped: Promise<void>;
}

function read(server: AdminServer): Promise<AdminReply> {
  return askAdmin(server, { method: 'GET', path: '/api/v1/activity', wants: 'requests', timeoutMs: TIMEOUT_MS });
}

function explained(reply: Exclude<AdminReply, { kind: 'answered' }>): typeof reply {
  if (reply.kind !== 'refused' || reply.status !== 404) return reply;
  return { ...reply, detail: 'this server has no live activity (GET /api/v1/activity): it is older than this command' };
}

/** Resolves with whether the command goes on, after the interval or once it is stopped. */
async function pause(ms: number, stopped: Promise<void>): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(true), ms);
  void stopped.then(() => resolve(false));
  return promise.finally(() => clearTimeout(timer));
}

async function printReadings({ server, first, flags, io, stopped }: Watching): Promise<number> {
  const { json = false, count = Number.POSITIVE_INFINITY, interval = 1000 } = flags;
  let before: TopReading | undefined;
  let reading = first;
  // Not among the lines of figures, which programs may read.
  if (!json) io.stderr.write(formatTopScope(first));
  for (let printed = 1; ; printed += 1) {
    io.stdout.write(json ? `${printableJson(reading)}\n` : formatTopLine(reading, figuresBetween(before, reading)));
    if (printed >= count || !(await pause(interval, stopped))) return exitCode.done;
    const reply = await Promise.race([read(server), stopped]);
    if (reply === undefined) return exitCode.done;
    if (reply.kind !== 'answered') return failWith(io, reply);
    before = reading;
    reading = reply.value as TopReading;
  }
}

const HISTORY = 120;

/** How long the outcome of an order is shown, in milliseconds. */
const MESSAGE_MS = 5_000;

/** How many readings may fail in a row: a server that is restarted is waited for. */
const MAX_FAILURES = 30;

async function showScreen(
  { server, first, flags, io, stopped }: Watching,
  { input, output }: TopTerminal,
  stop: () => void,
): Promise<number> {
  const { count = Number.POSITIVE_INFINITY, interval = 1000 } = flags;
  const paint = createPainter(wantsColors(io.stdout, io.env));
  const speeds = new FillSpeeds();
  const history: number[] = [];
  let reading = first;
  let figures: Figures = figuresBetween(undefined, first);
  let state: TopState = firstState;
  let message: TopScene['message'];
  let messageUntil = 0;
  speeds.update(first);

  const draw = (): void => {
    const { columns, rows } = screen;
    const list = rowsOf(reading, state, speeds);
    const place = formatAdminPlace(server.place);
    screen.draw(drawTop({ columns, rows, place, reading, figures, history, state, list, message }, paint));
  };
  const say = (text: string, isFault: boolean): void => {
    message = { text, isFault };
    messageUntil = io.now() + MESSAGE_MS;
    draw();
  };
  const onKey = (key: Key): void => {
    const outcome = pressKey(state, key, rowsOf(reading, state, speeds));
    state = outcome.state;
    message = undefined;
    if (outcome.quits === true) stop();
    draw();
    if (outcome.order !== undefined) {
      void carryOut(outcome.order, server).then(({ text, isFault }) => say(text, isFault));
    }
  };
  using screen = openScreen(input, output, { onKey, onChange: () => draw() });
  draw();
  let failures = 0;
  for (let shown = 1; shown < count && (await pause(interval, stopped)); shown += 1) {
    if (io.now() > messageUntil) message = undefined;
    const reply = state.isPaused ? undefined : await Promise.race([read(server), stopped]);
    if (reply === undefined) continue;
    if (reply.kind === 'answered') {
      const next = reply.value as TopReading;
      figures = figuresBetween(reading, next);
      reading = next;
      speeds.update(next);
      history.push(figures.requestsPerSecond);
      if (history.length > HISTORY) history.shift();
      failures = 0;
    } else {
      failures += 1;
      if (isFinal(reply, failures)) {
        screen[Symbol.dispose]();
        return failWith(io, reply);
      }
      say(reply.detail, true);
    }
    draw();
  }
  return exitCode.done;
}

/** Whether there is no use in asking again. */
function isFinal(reply: AdminReply, failures: number): boolean {
  return failures >= MAX_FAILURES || (reply.kind === 'refused' && reply.status < 500);
}

/** Purges, or stops a fill; resolves with a message for people. */
async function carryOut(order: TopOrder, server: AdminServer): Promise<{ text: string; isFault: boolean }> {
  if (order.kind === 'purge') {
    const body = { url: order.uri, mode: 'hard' };
    const reply = await askAdmin(server, {
      method: 'POST',
      path: '/api/v1/purge',
      body,
      wants: 'entries',
      timeoutMs: 120_000,
    });
    if (reply.kind !== 'answered') return { text: reply.detail, isFault: true };
    const { entries } = reply.value as { readonly entries: number };
    return {
      text: `${entries === 0 ? 'nothing was stored for' : `purged (${entries}):`} ${order.uri}`,
      isFault: false,
    };
  }
  const path = `/api/v1/fills/${encodeURIComponent(order.id)}`;
  const reply = await askAdmin(server, { method: 'DELETE', path, timeoutMs: TIMEOUT_MS });
  if (reply.kind === 'answered') return { text: `stopped: ${order.uri}`, isFault: false };
  return { text: reply.detail, isFault: true };
}
