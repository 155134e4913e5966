/**
 * `rangeway warm`: makes a running server fetch URLs before clients ask for them. Each URL is a request to the admin API of its own:
 * so its outcome is known at once, and the pace and the end are decided here.
 */

import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WarmReport } from '../../admin/operations.ts';
import type { FetchTarget, RenditionChoice } from '../../media/targets.ts';
import { askAdmin, chooseAdminServer } from '../admin/admin-server.ts';
import { type AdminFlags, type AdminServer, withScheme } from '../admin/flags.ts';
import { type CliIo, exitCode, fail, openStopRequest } from '../io.ts';
import { openStatusLine, type StatusLine } from '../terminal/status-line.ts';
import { percentText, safeLine, shareBar, timeLeftText } from '../terminal/style.ts';
import { printableJson, sizeText } from '../text-sections.ts';
import { type FetchDocument, fetchThrough } from './fetch-through.ts';
import { readLines } from './lines.ts';
import { Pacer } from './pace.ts';
import { noNotes, openNotes, type WarmNotes } from './resume.ts';
import { type Found, findInManifest, findInSitemap, findInSitemapFile } from './sources.ts';

/** The flags of the command. */
export interface WarmFlags extends AdminFlags {
  /** Fields of the requests. */
  readonly header?: readonly (readonly [name: string, value: string])[] | undefined;
  /** A file of URLs; `-` is standard input. */
  readonly from?: string | undefined;
  /** URLs or files of sitemaps, and URLs of HLS playlists and DASH manifests. */
  readonly sitemap?: readonly string[] | undefined;
  readonly manifest?: readonly string[] | undefined;
  readonly rendition?: RenditionChoice | undefined;
  /** Requests per second. */
  readonly rate?: number | undefined;
  /** Bytes per second. */
  readonly bandwidth?: number | undefined;
  /** How many URLs are fetched at a time. */
  readonly jobs?: number | undefined;
  /** The file of the notes. */
  readonly resume?: string | undefined;
  readonly json?: boolean | undefined;
}

/** How many requests to the API are under way at a time by default, each for one URL. */
const PARALLEL = 4;

/** The results so far. */
interface Tally {
  done: number;
  failed: number;
  bytes: number;
  /** Fetched by an earlier run. */
  skipped: number;
  /** How many targets there are; undefined while they are still read. */
  total: number | undefined;
  /** Set when the server can be asked for no further URL. */
  isOver: boolean;
}

/** Everything that the work on one target needs. */
interface Work {
  readonly server: AdminServer;
  readonly flags: WarmFlags;
  readonly io: CliIo;
  readonly tally: Tally;
  readonly status: StatusLine;
  readonly pacer: Pacer;
  readonly notes: WarmNotes;
  /** Aborts when the command is stopped. */
  readonly signal: AbortSignal;
  readonly startedAt: number;
}

/**
 * Warms the URLs of the arguments (with `-`: of standard input, one a line), of lists, of sitemaps and of playlists. Resolves with
 * the exit code: 1 where a URL failed, the server could not be asked, or a signal stopped it.
 */
export async function warm(
  urls: readonly string[],
  flags: WarmFlags,
  io: CliIo,
  input: AsyncIterable<string | Uint8Array>,
): Promise<number> {
  const list = flags.from ?? (urls.length === 1 && urls[0] === '-' ? '-' : undefined);
  const given = list === '-' && flags.from === undefined ? [] : urls;
  const misuse = findMisuse(given, flags, list);
  if (misuse !== undefined) return fail(io, misuse, exitCode.misused);
  const documents = [...(flags.sitemap ?? []), ...(flags.manifest ?? [])].filter(
    (each) => withScheme(each) !== undefined,
  );
  const server = await chooseAdminServer(flags, io, [...given, ...documents]);
  if (server.kind === 'none') return server.exitCode;
  let notes = noNotes;
  try {
    if (flags.resume !== undefined) notes = openNotes(flags.resume);
  } catch (error) {
    return fail(io, `--resume: ${textOf(error)}`, exitCode.misused);
  }
  using stop = openStopRequest(io);
  const stopping = new AbortController();
  void stop.requested.then(() => stopping.abort());
  using status = openStatusLine(io);
  const tally: Tally = { done: 0, failed: 0, bytes: 0, skipped: 0, total: undefined, isOver: false };
  const { signal } = stopping;
  const pacer = new Pacer({ requestsPerSecond: flags.rate, bytesPerSecond: flags.bandwidth }, paceClock(io));
  const work: Work = { server, flags, io, tally, status, pacer, notes, signal, startedAt: io.now() };
  try {
    await warmAll(targetsOf(given, list, input, work), work);
  } catch (error) {
    tally.failed += 1;
    complain(work, textOf(error));
  }
  const isComplete = tally.failed === 0 && !tally.isOver && !signal.aborted;
  notes.close(isComplete);
  status[Symbol.dispose]();
  printSum(work);
  return isComplete ? exitCode.done : exitCode.failed;
}

/** Returns what is wrong with the arguments. */
function findMisuse(
  urls: readonly string[],
  { sitemap = [], manifest = [] }: WarmFlags,
  list: string | undefined,
): string | undefined {
  const wrong = urls.find((text) => text === '-' || withScheme(text) === undefined);
  if (wrong !== undefined) return `expected URLs such as http://127.0.0.1:8080/film.mp4, paths, or -, found ${wrong}`;
  const noUrl = manifest.find((text) => withScheme(text) === undefined);
  if (noUrl !== undefined)
    return `--manifest: expected a URL such as http://127.0.0.1:8080/master.m3u8, found ${noUrl}`;
  const isEmpty = urls.length === 0 && list === undefined && sitemap.length === 0 && manifest.length === 0;
  return isEmpty ? 'say what: URLs, - for those of standard input, --from, --sitemap or --manifest' : undefined;
}

function paceClock(io: CliIo) {
  return {
    now: () => io.now(),
    wait: (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal }).catch(() => undefined),
  };
}

/** Yields all targets. Those of documents are found first, so that the total is known. */
async function* targetsOf(
  urls: readonly string[],
  list: string | undefined,
  input: AsyncIterable<string | Uint8Array>,
  work: Work,
): AsyncGenerator<FetchTarget, void> {
  const targets: FetchTarget[] = urls.map((url) => ({ url }));
  await readDocuments(targets, work);
  if (list !== undefined && list !== '-') {
    for await (const url of readLines(createReadStream(list))) targets.push({ url });
  }
  if (list !== '-') work.tally.total = targets.length;
  yield* targets;
  if (list === '-') for await (const url of readLines(input)) yield { url };
}

/** Adds the targets of the sitemaps and playlists. */
async function readDocuments(targets: FetchTarget[], work: Work): Promise<void> {
  const { flags, status, server, signal } = work;
  const fetchDocument = fetchThrough(server, flags.header ?? [], signal);
  for (const text of flags.sitemap ?? []) {
    status.show(`reading ${safeLine(text)}`);
    take(await findInSitemapOrFile(text, fetchDocument), targets, work);
  }
  for (const text of flags.manifest ?? []) {
    status.show(`reading ${safeLine(text)}`);
    take(
      await findInManifest(withScheme(text) ?? text, flags.rendition ?? 'all', fetchDocument, Date.now()),
      targets,
      work,
    );
  }
}

/** Reads a sitemap by its URL, or from a file. A path may be one of the proxy or of a file: a file that exists is meant. */
async function findInSitemapOrFile(text: string, fetchDocument: FetchDocument): Promise<Found> {
  if (/^https?:\/\//i.test(text)) return await findInSitemap(text, fetchDocument);
  const bytes = await readFile(text).catch((error: unknown) => {
    if (text.startsWith('/')) return undefined;
    throw error;
  });
  if (bytes === undefined) return await findInSitemap(text, fetchDocument);
  return await findInSitemapFile(text, bytes, fetchDocument);
}

/** Adds what was found to the targets, and says what could not be read. */
function take(found: Found, targets: FetchTarget[], work: Work): void {
  for (const fault of found.faults) {
    work.tally.failed += 1;
    complain(work, fault);
  }
  const left = [...found.otherHosts].sort(([, a], [, b]) => b - a);
  if (left.length > 0) {
    const count = left.reduce((sum, [, each]) => sum + each, 0);
    const names = left.slice(0, 3).map(([host]) => host);
    const more = left.length > 3 ? ' and others' : '';
    complain(work, `${count} URLs of other hosts are left out: ${names.join(', ')}${more}`);
  }
  for (const target of found.targets) targets.push(target);
}

async function warmAll(targets: AsyncGenerator<FetchTarget, void>, work: Work): Promise<void> {
  const { tally, signal, notes, pacer } = work;
  const run = async (): Promise<void> => {
    for (;;) {
      if (tally.isOver || signal.aborted) return;
      const next = await untilStopped(targets.next(), signal);
      if (next === undefined || next.done === true) return;
      if (notes.isDone(next.value)) {
        tally.skipped += 1;
        continue;
      }
      showProgress(work);
      await pacer.turn(signal);
      if (!tally.isOver && !signal.aborted) await warmOne(next.value, work);
    }
  };
  await Promise.all(Array.from({ length: work.flags.jobs ?? PARALLEL }, run));
}

/** Resolves with undefined where the signal aborts first. Standard input may never end. */
async function untilStopped<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  const { promise: aborted, resolve } = Promise.withResolvers<undefined>();
  const onAbort = (): void => resolve(undefined);
  signal.addEventListener('abort', onAbort);
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function warmOne(target: FetchTarget, work: Work): Promise<void> {
  const { server, flags, tally, signal } = work;
  const giveUp = (reason: string): void => {
    tally.failed += 1;
    report(target, { status: 0, cacheStatus: undefined, bytes: 0, error: reason }, work);
  };
  const url = withScheme(target.url);
  if (url === undefined) return giveUp('it is no URL');
  const fields = [...(flags.header ?? []), ...(target.range === undefined ? [] : [['range', target.range]])];
  const reply = await askAdmin(server, {
    method: 'POST',
    path: '/api/v1/warm',
    body: { urls: [url], ...(fields.length === 0 ? {} : { fields }) },
    wants: 'results',
    signal,
  });
  if (signal.aborted && reply.kind === 'failed') return;
  if (reply.kind === 'answered') {
    const { results } = reply.value as { readonly results: readonly WarmReport[] };
    for (const each of results) settle({ ...target, url: each.url }, each, target, work);
    return;
  }
  // A failed connection, 401 and 403 concern all URLs. The reason is printed once.
  const concernsAll = reply.kind === 'failed' || reply.status === 401 || reply.status === 403;
  if (!concernsAll) return giveUp(reply.detail);
  if (!tally.isOver) complain(work, reply.detail);
  tally.isOver = true;
}

type Outcome = Omit<WarmReport, 'url'>;

function settle(shown: FetchTarget, outcome: Outcome, target: FetchTarget, work: Work): void {
  const { status, bytes, error } = outcome;
  const { tally, notes, pacer } = work;
  pacer.charge(bytes);
  if (error !== undefined || status < 200 || status >= 400) tally.failed += 1;
  else {
    tally.done += 1;
    tally.bytes += bytes;
    notes.note(target);
  }
  report(shown, outcome, work);
}

/** Prints the outcome of a target. */
function report({ url, range }: FetchTarget, { status, cacheStatus, bytes, error }: Outcome, work: Work): void {
  const hasFailed = error !== undefined || status < 200 || status >= 400;
  if (work.flags.json === true) {
    work.status.print('stdout', `${printableJson({ url, range, status, cacheStatus, bytes, error })}\n`);
  } else if (hasFailed) {
    complain(work, `${url}: ${error ?? `the answer was ${status}`}`);
  } else {
    const notes = [range, cacheStatus].flatMap((note) => (note === undefined ? [] : [`  ${note}`]));
    work.status.print('stdout', `${safeLine(`${status}  ${sizeText(bytes).padEnd(7)}  ${url}${notes.join('')}`)}\n`);
  }
  showProgress(work);
}

function complain({ status }: Work, reason: string): void {
  status.print('stderr', `rangeway: ${safeLine(reason)}\n`);
}

function showProgress({ tally, status, io, startedAt }: Work): void {
  if (status.isShown) status.show(formatProgress(tally, (io.now() - startedAt) / 1000));
}

/** Formats the progress after so many seconds: its bar, the number of URLs, bytes, speed and time left. */
export function formatProgress(
  { done, failed, skipped, bytes, total }: Omit<Tally, 'isOver'>,
  seconds: number,
): string {
  const settled = done + failed;
  const speed = seconds > 0 ? bytes / seconds : 0;
  const counted = settled + skipped;
  const share = total === undefined || total === 0 ? undefined : Math.min(1, counted / total);
  const left = total === undefined || settled === 0 ? '' : timeLeftText(((total - counted) * seconds) / settled);
  return [
    ...(share === undefined
      ? [`${counted} URLs`]
      : [`${shareBar(share, 20)} ${percentText(share)}`, `${counted} of ${total}`]),
    sizeText(bytes),
    `${sizeText(speed)}/s`,
    ...(left === '' || share === 1 ? [] : [`${left} left`]),
    ...(failed === 0 ? [] : [`${failed} failed`]),
  ].join('  ');
}

function printSum({ tally, flags, io, signal }: Work): void {
  const { done, failed, bytes, skipped, total } = tally;
  const isStopped = signal.aborted;
  if (flags.json === true) {
    io.stdout.write(`${printableJson({ sum: { done, failed, skipped, bytes, total, stopped: isStopped } })}\n`);
  } else {
    const notes = [
      ...(skipped === 0 ? [] : [`${skipped} fetched before`]),
      ...(failed === 0 ? [] : [`${failed} failed`]),
    ];
    const sum = [`${done} ${done === 1 ? 'URL' : 'URLs'}, ${sizeText(bytes)}`, ...notes].join('; ');
    io.stdout.write(`${sum}\n`);
  }
  if (!isStopped && failed === 0 && !tally.isOver) return;
  const isPartly = total === undefined || done + skipped < total;
  if (flags.resume !== undefined && isPartly) {
    io.stderr.write(
      `rangeway: ${isStopped ? 'stopped; ' : ''}the same command goes on: ${safeLine(flags.resume)} has what is done\n`,
    );
  } else if (isStopped) {
    io.stderr.write('rangeway: stopped; with --resume FILE the next run would go on after what is done\n');
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
