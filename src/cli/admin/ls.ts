/** `rangeway ls`: lists what a running server has stored. */

import type { EntryDetails, EntryList, EntryStatus } from '../../admin/operations.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { wantsColors } from '../terminal/abilities.ts';
import { coverageBar, createPainter, type Painter, pad } from '../terminal/style.ts';
import { duration, printableJson, replaceTerminalControls, sizeText } from '../text-sections.ts';
import { type AdminReply, askAdmin, chooseAdminServer, failWith } from './admin-server.ts';
import { type AdminFlags, type AdminServer, withScheme } from './flags.ts';

/** The flags of the command. */
export interface LsFlags extends AdminFlags {
  readonly host?: string | undefined;
  readonly tag?: string | undefined;
  readonly json?: boolean | undefined;
  /** Whether a bar shows which parts are present; by default on a terminal. */
  readonly coverage?: boolean | undefined;
  /** The most entries that are printed; 1000 by default. */
  readonly limit?: number | undefined;
}

/** Query parameters of the API. */
type Search = Readonly<Record<string, string>>;

const DEFAULT_LIMIT = 1000;

/** The most entries of one API request. */
const PAGE = 500;

const TIMEOUT_MS = 60_000;

/** Lists entries; resolves with the exit code. `now` returns epoch milliseconds. */
export async function ls(prefix: string | undefined, flags: LsFlags, io: CliIo, now: () => number): Promise<number> {
  const search = readSearch(prefix, flags);
  if (typeof search === 'string') return fail(io, search, exitCode.misused);
  const server = await chooseAdminServer(flags, io, prefix);
  if (server.kind === 'none') return server.exitCode;
  const { limit = DEFAULT_LIMIT, json = false, coverage = io.stdout.isTTY === true } = flags;
  const table = createTable(coverage, createPainter(wantsColors(io.stdout, io.env)));
  let left = limit;
  for await (const reply of pages(server, search, limit)) {
    if (reply.kind !== 'answered') return failWith(io, reply);
    const { entries, next } = reply.value as EntryList;
    if (!json && left === limit && entries.length > 0) io.stdout.write(table.head);
    for (const entry of entries) {
      if (json) io.stdout.write(`${printableJson(entry)}\n`);
      else io.stdout.write(table.format(entry, await presenceOf(entry, server, coverage), now()));
    }
    left -= entries.length;
    if (left <= 0 && next !== undefined) {
      io.stderr.write(`rangeway: there are more than ${limit}; --limit tells how many are printed\n`);
    }
  }
  if (left === limit && !json) io.stderr.write('rangeway: nothing is stored there\n');
  return exitCode.done;
}

/** Yields replies page by page, until the last page, `limit` entries, or a reply that is not an answer. */
async function* pages(server: AdminServer, search: Search, limit: number): AsyncGenerator<AdminReply, void> {
  let after: string | undefined;
  for (let left = limit; left > 0; ) {
    const query = new URLSearchParams({ ...search, limit: String(Math.min(left, PAGE)) });
    if (after !== undefined) query.set('after', after);
    const path = `/api/v1/entries?${query}`;
    const reply = await askAdmin(server, { method: 'GET', path, wants: 'entries', timeoutMs: TIMEOUT_MS });
    yield reply;
    if (reply.kind !== 'answered') return;
    const { entries, next } = reply.value as EntryList;
    if (next === undefined) return;
    left -= entries.length;
    after = next;
  }
}

/** Returns the query parameters, or what is wrong with the flags. */
function readSearch(prefix: string | undefined, { host, tag }: LsFlags): Search | string {
  const selectors = [prefix, host, tag].filter((each) => each !== undefined);
  if (selectors.length > 1) return 'a URL, --host and --tag exclude each other';
  if (host !== undefined) return { host };
  if (tag !== undefined) return { tag };
  if (prefix === undefined) return {};
  const url = withScheme(prefix);
  return url === undefined
    ? `expected the beginning of URLs such as http://127.0.0.1:8080/films/, found ${prefix}`
    : { prefix: url };
}

/** Which bytes of an entry are stored. */
interface Presence {
  readonly bytes: number;
  /** Undefined where only their number is known. */
  readonly spans: readonly { readonly start: number; readonly end: number }[] | undefined;
}

/** Resolves with the stored bytes of an entry: only their number where spans are not needed, or the entry is gone meanwhile. */
async function presenceOf(entry: EntryStatus, server: AdminServer, needsSpans: boolean): Promise<Presence> {
  if (entry.isComplete) return { bytes: entry.sizeBytes, spans: [{ start: 0, end: entry.sizeBytes }] };
  if (!needsSpans) return { bytes: entry.presentBytes, spans: undefined };
  const query = new URLSearchParams({ key: entry.key });
  const path = `/api/v1/entries/${encodeURIComponent(entry.generation)}?${query}`;
  const reply = await askAdmin(server, { method: 'GET', path, wants: 'presentBytes', timeoutMs: TIMEOUT_MS });
  if (reply.kind !== 'answered') return { bytes: entry.presentBytes, spans: undefined };
  const { presentBytes, present } = reply.value as EntryDetails;
  return { bytes: presentBytes, spans: present };
}

/** Formats the lines of a table. */
interface Table {
  readonly head: string;
  /** `now` is in epoch milliseconds. */
  format(entry: EntryStatus, presence: Presence, now: number): string;
}

/** Cells of a coverage bar. */
const BAR = 16;

/** The columns before the URI have fixed widths, because rows are printed before all of them are known. */
function createTable(hasCoverage: boolean, paint: Painter): Table {
  const widths = [8, hasCoverage ? BAR + 5 : 8, 7, 12];
  const format = (cells: readonly string[], rest: string): string =>
    `${[...cells.map((cell, index) => pad(cell, widths[index] ?? 0)), rest].join('  ')}\n`;
  return {
    head: paint.bold(format(['SIZE', 'PRESENT', 'STATUS', 'AGE'], 'URI').trimEnd()).concat('\n'),
    format(entry, presence, now) {
      const { sizeBytes, status, responseAt, uri } = entry;
      const text = presentText(entry, presence.bytes);
      const bar = hasCoverage ? `${paint.cyan(coverageBar(presence.spans ?? [], sizeBytes, BAR))} ` : '';
      const age = duration(Math.max(0, now - responseAt));
      const remarks = remarksOf(entry);
      const cells = [sizeText(sizeBytes), `${bar}${text}`, statusText(status, paint), age];
      return format(cells, `${safeText(uri)}${remarks === '' ? '' : paint.dim(`  (${safeText(remarks)})`)}`);
    },
  };
}

function statusText(status: number, paint: Painter): string {
  if (status >= 500) return paint.red(String(status));
  return status >= 400 ? paint.yellow(String(status)) : String(status);
}

function remarksOf({ isInvalid, pinnedUntil, tags }: EntryStatus): string {
  const notes = [
    ...(isInvalid ? ['to be validated'] : []),
    ...(pinnedUntil === undefined ? [] : ['replaced']),
    ...(tags.length === 0 ? [] : [`tags ${tags.join(' ')}`]),
  ];
  return notes.join(', ');
}

function safeText(text: string): string {
  return replaceTerminalControls(text.replaceAll('\n', ' '));
}

/** Formats the stored share. An incomplete entry never shows "100%", and one with stored bytes never "0%". */
function presentText({ isComplete, sizeBytes }: EntryStatus, presentBytes: number | undefined): string {
  if (isComplete) return 'all';
  if (presentBytes === undefined || sizeBytes === 0) return '?';
  const percent = Math.floor((100 * presentBytes) / sizeBytes);
  return presentBytes > 0 && percent === 0 ? '<1%' : `${percent}%`;
}
