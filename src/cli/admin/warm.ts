/** `rangeway warm`: makes a running server fetch URLs before clients ask for them. */

import type { WarmReport } from '../../admin/operations.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { replaceTerminalControls, sizeText } from '../text-sections.ts';
import { askAdmin, chooseAdminServer } from './admin-server.ts';
import { type AdminFlags, type AdminServer, withScheme } from './flags.ts';

/** The flags of the command. */
export interface WarmFlags extends AdminFlags {
  /** Fields of the requests. */
  readonly header?: readonly (readonly [name: string, value: string])[] | undefined;
}

/** How many requests to the API are under way at a time, each for one URL. */
const PARALLEL = 4;

/** The results so far. */
interface Tally {
  done: number;
  failed: number;
  bytes: number;
  /** Set when the server can be asked for no further URL. */
  isOver: boolean;
}

/**
 * Warms the URLs, or with `-` those of standard input: one a line, without blank lines and lines that begin with `#`. Resolves
 * with the exit code: 1 where a URL failed or the server could not be asked.
 */
export async function warm(
  urls: readonly string[],
  flags: WarmFlags,
  io: CliIo,
  input: AsyncIterable<string | Uint8Array>,
): Promise<number> {
  const isPiped = urls.length === 1 && urls[0] === '-';
  const wrong = isPiped ? undefined : urls.find((text) => text === '-' || withScheme(text) === undefined);
  if (wrong !== undefined) {
    return fail(
      io,
      `expected URLs such as http://127.0.0.1:8080/film.mp4, paths, or -, found ${wrong}`,
      exitCode.misused,
    );
  }
  const server = await chooseAdminServer(flags, io, isPiped ? [] : urls);
  if (server.kind === 'none') return server.exitCode;
  const lines = isPiped ? readLines(input) : listed(urls);
  const tally: Tally = { done: 0, failed: 0, bytes: 0, isOver: false };
  const work = async () => {
    for (;;) {
      const next = tally.isOver ? undefined : await lines.next();
      if (next === undefined || next.done === true) return;
      await warmOne(next.value, { server, fields: flags.header, tally, io });
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  const { done, failed, bytes } = tally;
  const sum = `${done} ${done === 1 ? 'URL' : 'URLs'}, ${sizeText(bytes)}${failed === 0 ? '' : `; ${failed} failed`}`;
  io.stdout.write(`${sum}\n`);
  return failed === 0 && !tally.isOver ? exitCode.done : exitCode.failed;
}

interface Work {
  readonly server: AdminServer;
  readonly fields: WarmFlags['header'];
  readonly tally: Tally;
  readonly io: CliIo;
}

async function warmOne(text: string, { server, fields, tally, io }: Work): Promise<void> {
  const giveUp = (reason: string): void => {
    tally.failed += 1;
    complain(io, reason);
  };
  const url = withScheme(text);
  if (url === undefined) return giveUp(`${text} is no URL`);
  const reply = await askAdmin(server, {
    method: 'POST',
    path: '/api/v1/warm',
    body: { urls: [url], ...(fields === undefined ? {} : { fields }) },
    wants: 'results',
  });
  if (reply.kind === 'answered') {
    const { results } = reply.value as { readonly results: readonly WarmReport[] };
    for (const report of results) tell(report, tally, io);
    return;
  }
  // A failed connection, 401 and 403 concern all URLs. The reason is printed once.
  const concernsAll = reply.kind === 'failed' || reply.status === 401 || reply.status === 403;
  if (!concernsAll) return giveUp(`${url}: ${reply.detail}`);
  if (!tally.isOver) complain(io, reply.detail);
  tally.isOver = true;
}

function tell({ url, status, cacheStatus, bytes, error }: WarmReport, tally: Tally, io: CliIo): void {
  if (error !== undefined || status < 200 || status >= 400) {
    tally.failed += 1;
    complain(io, `${url}: ${error ?? `the answer was ${status}`}`);
    return;
  }
  tally.done += 1;
  tally.bytes += bytes;
  const note = cacheStatus === undefined ? '' : `  ${cacheStatus}`;
  io.stdout.write(`${oneLine(`${status}  ${sizeText(bytes).padEnd(7)}  ${url}${note}`)}\n`);
}

function complain(io: CliIo, reason: string): void {
  io.stderr.write(`rangeway: ${oneLine(reason)}\n`);
}

function oneLine(text: string): string {
  return replaceTerminalControls(text).replaceAll('\n', ' ');
}

async function* listed(urls: readonly string[]): AsyncGenerator<string, void> {
  yield* urls;
}

/** Yields the lines, trimmed. Skips blank lines and lines that begin with `#`. */
export async function* readLines(input: AsyncIterable<string | Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of input) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop() ?? '';
    yield* lines.map((line) => line.trim()).filter(holdsUrl);
  }
  const last = (rest + decoder.decode()).trim();
  if (holdsUrl(last)) yield last;
}

function holdsUrl(line: string): boolean {
  return line !== '' && !line.startsWith('#');
}
