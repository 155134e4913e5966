/** `rangeway ls`: lists what a running server has stored. */

import type { EntryDetails, EntryList, EntryStatus } from '../../admin/operations.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { duration, printable, printableJson, sizeText } from '../text-sections.ts';
import { type AdminReply, askAdmin, chooseAdminServer, failWith } from './admin-server.ts';
import { type AdminFlags, type AdminServer, withScheme } from './flags.ts';

/** The flags of the command. */
export interface LsFlags extends AdminFlags {
  readonly host?: string | undefined;
  readonly tag?: string | undefined;
  readonly json?: boolean | undefined;
  /** The most entries that are printed. */
  readonly limit?: number | undefined;
}

/** Parameters of the API. */
type Search = Readonly<Record<string, string>>;

const DEFAULT_LIMIT = 1000;

/** The most that is asked for at once. */
const PAGE = 500;

const TIMEOUT_MS = 60_000;

/** Lists; resolves with the exit code. `now` tells epoch milliseconds. */
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

/** Page after page, until there are no more, or as many entries as wanted, or no answer. */
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

/** The parameters of the API, or what is wrong. */
function readSearch(prefix: string | undefined, { host, tag }: LsFlags): Search | string {
  const given = [prefix, host, tag].filter((each) => each !== undefined);
  if (given.length > 1) return 'a URL, --host and --tag exclude each other';
  if (host !== undefined) return { host };
  if (tag !== undefined) return { tag };
  if (prefix === undefined) return {};
  const url = withScheme(prefix);
  return url === undefined
    ? `expected the beginning of URLs such as http://127.0.0.1:8080/films/, found ${prefix}`
    : { prefix: url };
}

/** How many bytes of an entry are there; undefined where it has gone meanwhile. */
async function presentOf(entry: EntryStatus, server: AdminServer): Promise<number | undefined> {
  if (entry.isComplete) return entry.sizeBytes;
  const query = new URLSearchParams({ key: entry.key });
  const path = `/api/v1/entries/${encodeURIComponent(entry.generation)}?${query}`;
  const reply = await askAdmin(server, { method: 'GET', path, wants: 'presentBytes', timeoutMs: TIMEOUT_MS });
  return reply.kind === 'answered' ? (reply.value as EntryDetails).presentBytes : undefined;
}

/** Widths of the columns before the URI, which are told before all rows are known. */
const WIDTHS = [8, 8, 7, 12] as const;

/** The names of the columns. */
function formatTableHead(): string {
  return formatRow(['SIZE', 'PRESENT', 'STATUS', 'AGE'], 'URI');
}

/** The line of an entry; `presentBytes` is undefined where that is not known any more. `now` is in epoch milliseconds. */
function formatEntry(entry: EntryStatus, presentBytes: number | undefined, now: number): string {
  const { sizeBytes, status, responseAt, uri, tags, isInvalid, pinnedUntil } = entry;
  const age = duration(Math.max(0, now - responseAt));
  const notes = [
    ...(isInvalid ? ['to be validated'] : []),
    ...(pinnedUntil === undefined ? [] : ['replaced']),
    ...(tags.length === 0 ? [] : [`tags ${tags.join(' ')}`]),
  ];
  const present = presentText(entry, presentBytes);
  const told = notes.length === 0 ? '' : `  (${notes.join(', ')})`;
  return formatRow([sizeText(sizeBytes), present, String(status), age], `${uri}${told}`);
}

/** Never "100%" of what is not whole, nor "0%" of what has begun. */
function presentText({ isComplete, sizeBytes }: EntryStatus, presentBytes: number | undefined): string {
  if (isComplete) return 'all';
  if (presentBytes === undefined || sizeBytes === 0) return '?';
  const percent = Math.floor((100 * presentBytes) / sizeBytes);
  return presentBytes > 0 && percent === 0 ? '<1%' : `${percent}%`;
}

function formatRow(cells: readonly string[], rest: string): string {
  const padded = cells.map((cell, index) => cell.padEnd(WIDTHS[index] ?? 0));
  return `${printable(`${padded.join('  ')}  ${rest}`.replaceAll('\n', ' '))}\n`;
}
