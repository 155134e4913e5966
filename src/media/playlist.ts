/**
 * Reads HLS playlists (RFC 8216): the URLs that a player would ask for, with their byte ranges. Nothing but lines and attribute
 * lists has to be parsed for that; a parser of a player would bring four packages and keep what is not needed here.
 */

import { type FetchTarget, resolveUrl, type Segment, type TargetLimits, TargetSpans } from './targets.ts';

/** One of the streams of a master playlist. */
export interface Rendition {
  readonly url: string;
  /** Bits per second. */
  readonly bandwidth: number;
  /** In pixels; undefined where it is not stated, as for sound. */
  readonly height: number | undefined;
  /** The groups of sound, subtitles and video that belong to it. */
  readonly groups: readonly string[];
}

/** What a playlist contains. */
export type Playlist =
  | {
      readonly kind: 'master';
      readonly renditions: readonly Rendition[];
      /** Playlists of sound, subtitles and other views, with their groups. */
      readonly media: readonly { readonly url: string; readonly group: string }[];
      /** Playlists of I-frames. */
      readonly frames: readonly string[];
      /** Keys of the whole presentation. */
      readonly targets: readonly FetchTarget[];
      /** The variables that playlists may import. */
      readonly variables: ReadonlyMap<string, string>;
    }
  | {
      readonly kind: 'media';
      readonly targets: readonly FetchTarget[];
      /** In the order of play, with the initialisation sections (EXT-X-MAP) where they are listed, without keys and parts. */
      readonly segments: readonly Segment[];
      /** Live: more will follow. */
      readonly isEndless: boolean;
    }
  | { readonly kind: 'invalid'; readonly reason: string };

/** What is known while the lines are read. */
interface Reading {
  readonly base: string;
  readonly variables: Map<string, string>;
  readonly targets: TargetSpans;
  /** The end of the last span, which the next one of the same URL follows where it states no offset. */
  lastSpan: { readonly url: string; readonly end: number } | undefined;
  readonly renditions: Rendition[];
  readonly media: { url: string; group: string }[];
  readonly frames: string[];
  /** The tag of the next URI line. */
  stream: Attributes | undefined;
  byteRange: string | undefined;
  readonly segments: Segment[];
  isEndless: boolean;
}

/**
 * Parses a playlist. `base` is its URL, which relative ones are resolved by. `imported` are the variables of the master playlist
 * (EXT-X-DEFINE). A playlist that lists more than `limits` is invalid.
 */
export function parsePlaylist(
  text: string,
  base: string,
  imported: ReadonlyMap<string, string> = new Map(),
  limits?: TargetLimits,
): Playlist {
  const lines = text.replace(/^\u{feff}/u, '').split(/\r?\n/);
  if (lines[0]?.trim() !== '#EXTM3U')
    return { kind: 'invalid', reason: 'it is no HLS playlist: its first line is not #EXTM3U' };
  const reading: Reading = {
    base,
    variables: new Map(),
    targets: new TargetSpans(limits),
    lastSpan: undefined,
    renditions: [],
    media: [],
    frames: [],
    stream: undefined,
    byteRange: undefined,
    segments: [],
    isEndless: true,
  };
  for (const [at, line] of lines.entries()) {
    const fault = readLine(line.trim(), reading, imported);
    if (fault !== undefined) return { kind: 'invalid', reason: `line ${at + 1}: ${fault}` };
    const { excess } = reading.targets;
    if (excess !== undefined) return { kind: 'invalid', reason: excess };
  }
  const { renditions, media, frames, variables, segments, isEndless } = reading;
  const targets = reading.targets.list();
  if (renditions.length === 0 && media.length === 0) return { kind: 'media', targets, segments, isEndless };
  if (segments.length > 0) return { kind: 'invalid', reason: 'it has both streams and segments' };
  return { kind: 'master', renditions, media, frames, targets, variables };
}

/** The longest line, in characters: a URL may have 8192, and a line some attributes beside it. */
const MAX_LINE = 16_384;

/** Reads a line; returns what is wrong with it. */
function readLine(line: string, reading: Reading, imported: ReadonlyMap<string, string>): string | undefined {
  if (line === '') return undefined;
  if (line.length > MAX_LINE) return `it has more than ${MAX_LINE} characters`;
  if (!line.startsWith('#')) return readUri(line, reading);
  const [, tag = '', value = ''] = /^#(EXT[A-Z0-9-]*)(?::(.*))?$/.exec(line) ?? [];
  const attributes = (): Attributes => parseAttributes(value, reading.variables);
  switch (tag) {
    case 'EXT-X-DEFINE':
      return define(parseAttributes(value, new Map()), reading, imported);
    case 'EXT-X-STREAM-INF':
      reading.stream = attributes();
      return undefined;
    case 'EXT-X-BYTERANGE':
      reading.byteRange = value.trim();
      return undefined;
    case 'EXT-X-ENDLIST':
      reading.isEndless = false;
      return undefined;
    case 'EXT-X-MAP':
      return addTarget(attributes(), reading, true);
    case 'EXT-X-PART':
      return addTarget(attributes(), reading);
    case 'EXT-X-KEY':
    case 'EXT-X-SESSION-KEY': {
      const key = attributes();
      // Keys of other schemes have URIs that are not fetched by HTTP.
      return /^(?:https?:|[^:]*$|[^:]*\/)/i.test(key['URI'] ?? '') ? addTarget(key, reading) : undefined;
    }
    case 'EXT-X-MEDIA':
    case 'EXT-X-I-FRAME-STREAM-INF':
      return addPlaylist(tag, attributes(), reading);
    default:
      return undefined;
  }
}

function define(named: Attributes, { variables }: Reading, imported: ReadonlyMap<string, string>): string | undefined {
  const { NAME: name, VALUE: value, IMPORT: other } = named;
  if (name !== undefined && value !== undefined) variables.set(name, value);
  else if (other !== undefined && imported.has(other)) variables.set(other, imported.get(other) ?? '');
  else return `EXT-X-DEFINE defines nothing that is known here`;
  return undefined;
}

function readUri(line: string, reading: Reading): string | undefined {
  const url = resolveUrl(withVariables(line, reading.variables), reading.base);
  if (url === undefined) return 'it is no http or https URL';
  const { stream, byteRange } = reading;
  reading.stream = undefined;
  reading.byteRange = undefined;
  if (stream !== undefined) {
    const height = /^\d+x(\d+)$/i.exec(stream['RESOLUTION'] ?? '')?.[1];
    reading.renditions.push({
      url,
      bandwidth: Number(stream['BANDWIDTH'] ?? 0) || 0,
      height: height === undefined ? undefined : Number(height),
      groups: ['AUDIO', 'VIDEO', 'SUBTITLES'].flatMap((type) =>
        stream[type] === undefined ? [] : [`${type} ${stream[type]}`],
      ),
    });
    return undefined;
  }
  return addSegment(url, byteRange, reading, true);
}

function addTarget(
  { URI: uri, BYTERANGE: byteRange }: Attributes,
  reading: Reading,
  isPlayed = false,
): string | undefined {
  if (uri === undefined) return undefined;
  const url = resolveUrl(uri, reading.base);
  return url === undefined ? 'its URI is no http or https URL' : addSegment(url, byteRange, reading, isPlayed);
}

function addPlaylist(tag: string, attributes: Attributes, reading: Reading): string | undefined {
  const { URI: uri, TYPE: type = '', 'GROUP-ID': group = '' } = attributes;
  if (uri === undefined) return undefined;
  const url = resolveUrl(uri, reading.base);
  if (url === undefined) return 'its URI is no http or https URL';
  if (tag === 'EXT-X-MEDIA') reading.media.push({ url, group: `${type} ${group}` });
  else reading.frames.push(url);
  return undefined;
}

/**
 * Adds a URL, with a span as `length@offset` or `length` (RFC 8216 §4.3.2.2); to the segments too where it `isPlayed`. Returns what
 * is wrong with the span.
 */
function addSegment(
  url: string,
  byteRange: string | undefined,
  reading: Reading,
  isPlayed: boolean,
): string | undefined {
  const { targets, segments, lastSpan } = reading;
  if (byteRange === undefined) {
    targets.addWhole(url);
    if (isPlayed) segments.push({ url });
    reading.lastSpan = undefined;
    return undefined;
  }
  const [, length, offset] = /^(\d{1,15})(?:@(\d{1,15}))?$/.exec(byteRange) ?? [];
  if (length === undefined || Number(length) === 0)
    return `the byte range "${byteRange.slice(0, 60)}" is not length@offset`;
  const after = lastSpan?.url === url ? lastSpan.end : 0;
  const start = offset === undefined ? after : Number(offset);
  const end = start + Number(length);
  reading.lastSpan = { url, end };
  targets.addSpan(url, start, end);
  if (isPlayed) segments.push({ url, span: { start, end } });
  return undefined;
}

type Attributes = Readonly<Record<string, string>>;

const attribute = /[ \t]*([A-Z0-9-]+)=(?:"([^"]*)"|([^",\s]*))(?:,|$)/y;

/**
 * Parses an attribute list (RFC 8216 §4.2) in one pass: what is no attribute is passed over up to the next comma. A name that occurs
 * twice has its first value.
 */
function parseAttributes(text: string, variables: ReadonlyMap<string, string>): Attributes {
  const attributes: Record<string, string> = Object.create(null);
  attribute.lastIndex = 0;
  while (attribute.lastIndex < text.length) {
    const at = attribute.lastIndex;
    const found = attribute.exec(text);
    if (found === null) {
      attribute.lastIndex = text.indexOf(',', at) + 1 || text.length;
      continue;
    }
    const [, name = '', quoted, bare = ''] = found;
    const next = attribute.lastIndex;
    attributes[name] ??= withVariables(quoted ?? bare, variables);
    attribute.lastIndex = next;
  }
  return attributes;
}

/** Puts the values of variables in their places, up to a length that no URL may have. */
function withVariables(text: string, variables: ReadonlyMap<string, string>): string {
  if (!text.includes('{$')) return text;
  let length = text.length;
  return text.replace(/\{\$([\w-]+)\}/g, (whole, name: string) => {
    const value = variables.get(name) ?? whole;
    length += value.length;
    return length > 2 * MAX_LINE ? whole : value;
  });
}
