/** The files of the soak: what an origin has, and which bytes a response of Rangeway must therefore have. Pure. */

import { gzipSync } from 'node:zlib';
import { type FileVersion, isOfVersion, nameOf, versionNamed } from '../support/origins/versioned-file.ts';

/** What distinguishes the origins. Each kind is a route of Rangeway and an origin of its own. */
export interface KindTraits {
  /** Whether the origin answers ranges. */
  readonly hasRanges: boolean;
  /** What tells its versions apart; `date` is a Last-Modified long before the response. */
  readonly validator: 'tag' | 'date' | 'none';
  /** Whether it states the length; otherwise its bodies are chunked. */
  readonly hasLength: boolean;
  /** Bodies of text, which are computed as a whole; otherwise the offset determines each byte. */
  readonly isText: boolean;
  /** Whether requests with a gzip coding get one. */
  readonly hasGzip: boolean;
  /** Seconds for which its responses may be served while they are validated. */
  readonly whileRevalidateSeconds: number;
  /** Milliseconds between two pieces of a body. */
  readonly pauseMs: number;
  /** The share of bodies that break off in the middle, and of requests that are answered by an error. */
  readonly cutShare: number;
  readonly errorShare: number;
}

const plain: KindTraits = {
  hasRanges: true,
  validator: 'tag',
  hasLength: true,
  isText: false,
  hasGzip: false,
  whileRevalidateSeconds: 0,
  pauseMs: 0,
  cutShare: 0,
  errorShare: 0,
};

/** The origins. */
export const kinds = {
  ranged: plain,
  whole: { ...plain, hasRanges: false, whileRevalidateSeconds: 5 },
  dated: { ...plain, validator: 'date' },
  bare: { ...plain, hasRanges: false, validator: 'none', hasLength: false },
  gzip: { ...plain, hasRanges: false, isText: true, hasGzip: true },
  slow: { ...plain, pauseMs: 100 },
  cutting: { ...plain, cutShare: 0.3 },
  failing: { ...plain, errorShare: 0.3 },
  playlist: { ...plain, hasRanges: false, isText: true },
} as const satisfies Record<string, KindTraits>;

/** The name of an origin. */
export type Kind = keyof typeof kinds;

/** The names of all origins. */
export const kindNames = Object.keys(kinds) as readonly Kind[];

/** A file of an origin, as its path states it. */
export interface SoakFile {
  readonly kind: Kind;
  /** Its max-age in seconds; 0: it states no lifetime at all. */
  readonly freshSeconds: number;
  /** The length of the first version in bytes; each later version is a byte longer; those of a text are equally long. */
  readonly sizeBytes: number;
  readonly file: number;
}

/** The lifetime of files whose responses must be validated once they are stale, whatever fails. */
export const strictFreshSeconds = 4;
/** Seconds for which other responses may be served stale after an error of their origin. */
const staleIfErrorSeconds = 20;
/** Seconds for which Rangeway reuses a response without a lifetime for ranges (`cache.rangeReuseSeconds`). */
const unstatedReuseSeconds = 60;
/** Room for lifetimes that are counted in whole seconds, in milliseconds. */
const roundingMs = 3000;

const sizes = [700, 9000, 40_000, 150_000, 400_001, 1_500_001] as const;
const lifetimes = [1, strictFreshSeconds, 15, 600] as const;
const filesPerKind = 24;
const playlists = 4;
/** The segments that playlists name. */
const segmentsPerPlaylist = 12;
const listedSegments = 3;
/** Files whose paths only playlists name have numbers from here on. */
const firstSegment = 10_000;

/** All files that clients ask for, except segments. */
export const soakFiles: readonly SoakFile[] = kindNames.flatMap((kind, at) =>
  Array.from({ length: kind === 'playlist' ? playlists : filesPerKind }, (_, index) => {
    const file = at * 100 + index;
    if (kind === 'playlist') return { kind, freshSeconds: 1, sizeBytes: 0, file };
    const freshSeconds = kind === 'bare' && index % 3 === 0 ? 0 : (lifetimes[index % lifetimes.length] ?? 0);
    // A slow body takes seconds, not minutes; a text is compressed for each of its responses.
    const largest = kind === 'slow' || kind === 'gzip' ? 5 : sizes.length;
    return { kind, freshSeconds, sizeBytes: sizes[(index * 5) % largest] ?? 0, file };
  }),
);

/** Returns the path of a file. */
export function pathOf({ kind, freshSeconds, sizeBytes, file }: SoakFile): string {
  return `/${kind}/${freshSeconds}/${sizeBytes}/${file}`;
}

/** Parses a path; undefined where no origin has it. */
export function fileAt(path: string): SoakFile | undefined {
  const [, kind = '', freshSeconds, sizeBytes, file] = /^\/(\w+)\/(\d+)\/(\d+)\/(\d+)$/.exec(path) ?? [];
  if (!Object.hasOwn(kinds, kind)) return undefined;
  return {
    kind: kind as Kind,
    freshSeconds: Number(freshSeconds),
    sizeBytes: Number(sizeBytes),
    file: Number(file),
  };
}

/** Returns the Cache-Control of a file; undefined for one without a lifetime. */
export function cacheControlOf({ kind, freshSeconds }: SoakFile): string | undefined {
  if (freshSeconds === 0) return undefined;
  if (freshSeconds === strictFreshSeconds) return `max-age=${freshSeconds}, must-revalidate`;
  const { whileRevalidateSeconds: seconds } = kinds[kind];
  const meanwhile = seconds === 0 ? '' : `, stale-while-revalidate=${seconds}`;
  return `max-age=${freshSeconds}, stale-if-error=${staleIfErrorSeconds}${meanwhile}`;
}

/** Returns for how long a response may be served after its version was replaced, in milliseconds. */
export function allowedStalenessMs({ kind, freshSeconds }: SoakFile): number {
  if (freshSeconds === 0) return unstatedReuseSeconds * 1000 + roundingMs;
  if (freshSeconds === strictFreshSeconds) return freshSeconds * 1000 + roundingMs;
  const staleSeconds = Math.max(staleIfErrorSeconds, kinds[kind].whileRevalidateSeconds);
  return (freshSeconds + staleSeconds) * 1000 + roundingMs;
}

/** Returns the tags of a file, by which it can be purged. */
export function tagsOf({ kind, file }: SoakFile): readonly string[] {
  return [`kind-${kind}`, `fifth-${file % 5}`];
}

/** Returns a version of a file, with its length. */
export function versionOf({ kind, sizeBytes, file }: SoakFile, version: number): FileVersion {
  if (!kinds[kind].isText) return { file, version, sizeBytes: sizeBytes + version };
  return { file, version, sizeBytes: Buffer.byteLength(textOf(kind, file, version, sizeBytes)) };
}

/** Returns the body of a text in a coding. */
export function textBody({ kind, sizeBytes, file }: SoakFile, version: number, coding: string): Buffer {
  const text = Buffer.from(textOf(kind, file, version, sizeBytes));
  return coding === 'gzip' ? gzipSync(text) : text;
}

function textOf(kind: Kind, file: number, version: number, sizeBytes: number): string {
  if (kind !== 'playlist') {
    // All versions are equally long, so that a range inside one is inside each.
    const line = `line of file ${file} in version ${String(version).padStart(6, '0')}\n`;
    return line.repeat(Math.ceil(sizeBytes / line.length));
  }
  const segments = Array.from({ length: listedSegments }, (_, at) => {
    const number = firstSegment + file * 100 + ((version + at) % segmentsPerPlaylist);
    return `#EXTINF:2,\n${pathOf({ kind: 'ranged', freshSeconds: 600, sizeBytes: 120_000, file: number })}`;
  });
  return `#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:${version}\n${segments.join('\n')}\n`;
}

/** Returns the paths that a playlist names. */
export function segmentsIn(playlist: string): readonly string[] {
  return playlist.split('\n').filter((line) => line.startsWith('/'));
}

/** A version in one coding, against which bytes are compared. */
export class ExpectedBody {
  readonly version: FileVersion;
  /** The length of the whole, in bytes. */
  readonly sizeBytes: number;
  readonly #text: Buffer | undefined;

  /** @throws Error where `name`, as an origin stated it, is none of a version of this file. */
  constructor(file: SoakFile, name: string, coding: string) {
    const named = versionNamed(name);
    const version = versionOf(file, named.version);
    if (nameOf(version) !== name) throw new Error(`${pathOf(file)} has no version ${name}`);
    this.version = version;
    this.#text = kinds[file.kind].isText ? textBody(file, version.version, coding) : undefined;
    this.sizeBytes = this.#text?.length ?? version.sizeBytes;
  }

  /** Checks that these bytes are those from `offset` on. */
  has(bytes: Uint8Array, offset: number): boolean {
    if (offset + bytes.length > this.sizeBytes) return false;
    if (this.#text === undefined) return isOfVersion(this.version, bytes, offset);
    return this.#text.subarray(offset, offset + bytes.length).equals(bytes);
  }
}
