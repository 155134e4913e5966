/** Finds what to warm: from sitemaps with their indexes, and from HLS playlists and DASH manifests with their segments. */

import { parseManifest } from '../../media/mpd.ts';
import { type Playlist, parsePlaylist, type Rendition } from '../../media/playlist.ts';
import type { FetchTarget, RenditionChoice } from '../../media/targets.ts';
import type { FetchDocument, FetchedDocument } from './fetch-through.ts';
import { maxSitemapBytes, parseSitemap } from './sitemap.ts';

/** What was found. Nothing is `undefined`: what could not be read is named in `faults`. */
export interface Found {
  readonly targets: readonly FetchTarget[];
  readonly faults: readonly string[];
  /** Hosts of URLs that were left out, with their number: only the host of the document itself is asked for. */
  readonly otherHosts: ReadonlyMap<string, number>;
}

/** The most targets of one source, and the most documents that are read for it. */
const MAX_TARGETS = 1_000_000;
const MAX_DOCUMENTS = 2_000;
const MAX_PLAYLIST_BYTES = 32 * 1024 * 1024;

/** Gathers targets of one host. */
class Gathering {
  readonly #targets = new Map<string, FetchTarget>();
  readonly #seen = new Set<string>();
  readonly faults: string[] = [];
  readonly otherHosts = new Map<string, number>();
  /** Undefined: any host. */
  readonly #host: string | undefined;

  constructor(host: string | undefined) {
    this.#host = host;
  }

  /** Whether the URL is of the host; otherwise it is counted as left out. */
  accepts(url: string): boolean {
    const host = URL.canParse(url) ? new URL(url).host : 'no URL';
    if (host !== 'no URL' && (this.#host === undefined || host === this.#host)) return true;
    this.otherHosts.set(host, (this.otherHosts.get(host) ?? 0) + 1);
    return false;
  }

  /** Whether a document is to be read: each one once, and not too many. */
  mayRead(url: string): boolean {
    if (this.#seen.has(url) || !this.accepts(url)) return false;
    if (this.#seen.size === MAX_DOCUMENTS)
      this.faults.push(`more than ${MAX_DOCUMENTS} documents: the others are left out`);
    this.#seen.add(url);
    return this.#seen.size <= MAX_DOCUMENTS;
  }

  add(target: FetchTarget): void {
    if (!this.accepts(target.url)) return;
    if (this.#targets.size === MAX_TARGETS) {
      if (!this.faults.includes(tooMany)) this.faults.push(tooMany);
      return;
    }
    this.#targets.set(`${target.range ?? ''} ${target.url}`, target);
  }

  found(): Found {
    return { targets: [...this.#targets.values()], faults: this.faults, otherHosts: this.otherHosts };
  }
}

const tooMany = `more than ${MAX_TARGETS} URLs: the others are left out`;

/** How deep indexes may contain indexes. The standard knows one level. */
const MAX_DEPTH = 3;

/** Reads a sitemap by its URL, with the sitemaps of an index. URLs of other hosts are left out. */
export async function findInSitemap(url: string, fetchDocument: FetchDocument): Promise<Found> {
  const first = await fetchDocument(url, maxSitemapBytes);
  if (first.kind === 'failed') return failed(`${url}: ${first.reason}`);
  const gathering = new Gathering(new URL(first.url).host);
  gathering.mayRead(first.url);
  await readSitemap({ url: first.url, bytes: first.bytes, depth: 0 }, gathering, fetchDocument);
  return gathering.found();
}

/** Reads the bytes of a sitemap file. Its URLs may be of any host: the proxy serves only those of its routes. */
export async function findInSitemapFile(name: string, bytes: Uint8Array, fetchDocument: FetchDocument): Promise<Found> {
  const gathering = new Gathering(undefined);
  await readSitemap({ url: name, bytes, depth: 0 }, gathering, fetchDocument);
  return gathering.found();
}

interface SitemapDocument {
  readonly url: string;
  readonly bytes: Uint8Array;
  readonly depth: number;
}

async function readSitemap(
  { url, bytes, depth }: SitemapDocument,
  gathering: Gathering,
  fetchDocument: FetchDocument,
): Promise<void> {
  const sitemap = await parseSitemap(bytes);
  if (sitemap.kind === 'invalid') return void gathering.faults.push(`${url}: ${sitemap.reason}`);
  if (sitemap.kind === 'urls') {
    for (const each of sitemap.urls) gathering.add({ url: each });
    return;
  }
  if (depth >= MAX_DEPTH)
    return void gathering.faults.push(`${url}: indexes in indexes are read ${MAX_DEPTH} deep only`);
  for (const each of sitemap.urls) {
    if (!gathering.mayRead(each)) continue;
    const fetched = await fetchDocument(each, maxSitemapBytes);
    if (fetched.kind === 'failed') gathering.faults.push(`${each}: ${fetched.reason}`);
    else await readSitemap({ url: each, bytes: fetched.bytes, depth: depth + 1 }, gathering, fetchDocument);
  }
}

/**
 * Reads an HLS playlist with the playlists of a master playlist, or a DASH manifest, by its URL. URLs of other hosts are left out.
 * `now` is in epoch milliseconds: a live DASH manifest has the segments that are available then.
 */
export async function findInManifest(
  url: string,
  choice: RenditionChoice,
  fetchDocument: FetchDocument,
  now: number,
): Promise<Found> {
  const fetched = await fetchDocument(url, MAX_PLAYLIST_BYTES);
  if (fetched.kind === 'failed') return failed(`${url}: ${fetched.reason}`);
  const text = new TextDecoder().decode(fetched.bytes);
  const gathering = new Gathering(new URL(fetched.url).host);
  gathering.mayRead(fetched.url);
  gathering.add({ url: fetched.url });
  if (!/^\s*</.test(text))
    return await readPlaylist(url, { base: fetched.url, text }, choice, gathering, fetchDocument);
  const manifest = parseManifest(text, { base: fetched.url, choice, now });
  if (manifest.kind === 'invalid') return failed(`${url}: ${manifest.reason}`);
  for (const target of manifest.targets) gathering.add(target);
  for (const fault of manifest.faults) gathering.faults.push(`${url}: ${fault}`);
  return gathering.found();
}

async function readPlaylist(
  url: string,
  { base, text }: { readonly base: string; readonly text: string },
  choice: RenditionChoice,
  gathering: Gathering,
  fetchDocument: FetchDocument,
): Promise<Found> {
  const playlist = parsePlaylist(text, base);
  if (playlist.kind === 'invalid') return failed(`${url}: ${playlist.reason}`);
  for (const target of playlist.targets) gathering.add(target);
  if (playlist.kind === 'media') return gathering.found();
  const inner = choosePlaylists(playlist, choice);
  if (inner.length === 0) {
    gathering.faults.push(`${url}: it has no such stream; it has ${describeRenditions(playlist.renditions)}`);
  }
  for (const each of inner) {
    if (!gathering.mayRead(each)) continue;
    const parts = parseFetched(await fetchDocument(each, MAX_PLAYLIST_BYTES), playlist.variables);
    if (parts.kind === 'media') {
      gathering.add({ url: each });
      for (const target of parts.targets) gathering.add(target);
    } else {
      gathering.faults.push(`${each}: ${parts.kind === 'invalid' ? parts.reason : 'it is a master playlist, too'}`);
    }
  }
  return gathering.found();
}

function parseFetched(fetched: FetchedDocument, variables: ReadonlyMap<string, string>): Playlist {
  if (fetched.kind === 'failed') return { kind: 'invalid', reason: fetched.reason };
  return parsePlaylist(new TextDecoder().decode(fetched.bytes), fetched.url, variables);
}

/** Returns the URLs of the chosen streams, with the sound and subtitles that belong to them. */
function choosePlaylists(
  { renditions, media, frames }: Extract<Playlist, { kind: 'master' }>,
  choice: RenditionChoice,
): readonly string[] {
  if (choice === 'all') return [...renditions.map(({ url }) => url), ...media.map(({ url }) => url), ...frames];
  const chosen = chooseRenditions(renditions, choice);
  const groups = new Set(chosen.flatMap((rendition) => rendition.groups));
  return [...chosen, ...media.filter(({ group }) => groups.has(group))].map(({ url }) => url);
}

function chooseRenditions(
  renditions: readonly Rendition[],
  choice: Exclude<RenditionChoice, 'all'>,
): readonly Rendition[] {
  if (typeof choice === 'object') return renditions.filter(({ height }) => height === choice.height);
  const ordered = renditions.toSorted((a, b) => a.bandwidth - b.bandwidth);
  return ordered.slice(choice === 'best' ? -1 : 0, choice === 'best' ? undefined : 1);
}

function describeRenditions(renditions: readonly Rendition[]): string {
  const heights = [
    ...new Set(renditions.map(({ height }) => (height === undefined ? 'one without a height' : `${height}p`))),
  ];
  return heights.length === 0 ? 'none' : heights.join(', ');
}

function failed(fault: string): Found {
  return { targets: [], faults: [fault], otherHosts: new Map() };
}
