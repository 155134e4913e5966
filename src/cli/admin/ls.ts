/** `rangeway ls`: lists what a running server has stored. */

import type { EntryDetails, EntryList, EntryStatus } from '../../admin/operations.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { duration, printableJson, replaceTerminalControls, sizeText } from '../text-sections.ts';
import { type AdminReply, askAdmin, chooseAdminServer, failWith } from './admin-server.ts';
import { type AdminFlags, type AdminServer, withScheme } from './flags.ts';

/** The flags of the command. */
export interface LsFlags extends AdminFlags {
  readonly host?: string | undefined;
  readonly tag?: string | undefined;
  readonly json?: boolean | undefined;
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
  const { limit = DEFAULT_LIMIT, json = false } = flags;
  let left = limit;
  for await (const reply of pages(server, search, limit)) {
    if (reply.kind !== 'answered') return failWith(io, reply);
    const { entries, next } = reply.value as EntryList;
    if (!json && left === limit && entries.length > 0) io.stdout.write(formatTableHead());
    for (const entry of entries) {
      io.stdout.write(json ? `${printableJson(entry)}\n` : formatEntry(entry, await presentOf(entry, server), now()));
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

/** Resolves with the stored bytes of an entry; undefined where it is gone meanwhile, or the request fails. */
async function presentOf(entry: EntryStatus, server: AdminServer): Promise<number | undefined> {
  if (entry.isComplete) return entry.sizeBytes;
  const query = new URLSearchParams({ key: entry.key });
  const path = `/api/v1/entries/${encodeURIComponent(entry.generation)}?${query}`;
  const reply = await askAdmin(server, { method: 'GET', path, wants: 'presentBytes', timeoutMs: TIMEOUT_MS });
  return reply.kind === 'answered' ? (reply.value as EntryDetails).presentBytes : undefined;
}

/** Widths of the columns before the URI. They are fixed, because rows are printed before all of them are known. */
const WIDTHS = [8, 8, 7, 12] as const;

function formatTableHead(): string {
  return formatRow(['SIZE', 'PRESENT', 'STATUS', 'AGE'], 'URI');
}

/** Formats the line of an entry. `presentBytes` is undefined where it is unknown. `now` is in epoch milliseconds. */
function formatEntry(entry: EntryStatus, presentBytes: number | undefined, now: number): string {
  const { sizeBytes, status, responseAt, uri, tags, isInvalid, pinnedUntil } = entry;
  const age = duration(Math.max(0, now - responseAt));
  const notes = [
    ...(isInvalid ? ['to be validated'] : []),
    ...(pinnedUntil === undefined ? [] : ['replaced']),
    ...(tags.length === 0 ? [] : [`tags ${tags.join(' ')}`]),
  ];
  const present = presentText(entry, presentBytes);
  const remarks = notes.length === 0 ? '' : `  (${notes.join(', ')})`;
  return formatRow([sizeText(sizeBytes), present, String(status), age], `${uri}${remarks}`);
}

/** Formats the stored share. An incomplete entry never shows "100%", and one with stored bytes never "0%". */
function presentText({ isComplete, sizeBytes }: EntryStatus, presentBytes: number | undefined): string {
  if (isComplete) return 'all';
  if (presentBytes === undefined || sizeBytes === 0) return '?';
  const percent = Math.floor((100 * presentBytes) / sizeBytes);
  return presentBytes > 0 && percent === 0 ? '<1%' : `${percent}%`;
}

function formatRow(cells: readonly string[], rest: string): string {
  const padded = cells.map((cell, index) => cell.padEnd(WIDTHS[index] ?? 0));
  return `${replaceTerminalControls(`${padded.join('  ')}  ${rest}`.replaceAll('\n', ' '))}\n`;
}
