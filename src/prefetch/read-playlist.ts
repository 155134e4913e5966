/** Reads the segments of a playlist or manifest from the body of its response. */

import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib';
import { type Fields, fieldValue } from '../http/fields.ts';
import { parseManifest } from '../media/mpd.ts';
import { parsePlaylist } from '../media/playlist.ts';
import type { Segment, TargetLimits } from '../media/targets.ts';

/** The largest playlist that is read, in bytes, also without its content coding. */
export const maxPlaylistBytes = 1024 * 1024;

/** A playlist that lists more is not used. */
const limits: TargetLimits = { targets: 20_000, characters: 4_000_000 };

const types: ReadonlySet<string> = new Set([
  'application/vnd.apple.mpegurl',
  'application/x-mpegurl',
  'audio/mpegurl',
  'audio/x-mpegurl',
  'application/dash+xml',
]);

/** Checks by the name whether a target may be a playlist or a manifest. */
export function hasPlaylistName(target: string): boolean {
  const query = target.indexOf('?');
  return /\.(?:m3u8?|mpd)$/i.test(query === -1 ? target : target.slice(0, query));
}

/** Checks by the name or the media type whether a response may be a playlist or a manifest. */
export function isPlaylist(target: string, fields: Fields): boolean {
  if (hasPlaylistName(target)) return true;
  const [type = ''] = (fieldValue(fields, 'content-type') ?? '').split(';', 1);
  return types.has(type.trim().toLowerCase());
}

const decoders = new Map(
  Object.entries({ gzip: gunzip, 'x-gzip': gunzip, br: brotliDecompress, deflate: inflate, zstd: zstdDecompress }).map(
    ([name, decode]) => [
      name,
      promisify(
        decode as (bytes: Uint8Array, options: object, done: (error: Error | null, out: Buffer) => void) => void,
      ),
    ],
  ),
);

/** The facts about a response that its playlist depends on. */
export interface PlaylistSource {
  /** The URL of the playlist, which relative ones are resolved by. */
  readonly url: string;
  readonly fields: Fields;
  /** In epoch milliseconds: a live DASH manifest has the segments that are available then. */
  readonly now: number;
}

/**
 * Returns the streams of a playlist, each with its segments in the order of play: one of an HLS media playlist, one for each
 * Representation of a DASH manifest, none of anything else. Never rejects.
 */
export async function readStreams(
  bytes: Uint8Array,
  { url, fields, now }: PlaylistSource,
): Promise<readonly (readonly Segment[])[]> {
  const plain = await decode(bytes, fieldValue(fields, 'content-encoding'));
  if (plain === undefined) return [];
  const text = new TextDecoder().decode(plain);
  if (text.trimStart().startsWith('<')) {
    const manifest = parseManifest(text, { base: url, choice: 'all', now, limits });
    return manifest.kind === 'read' ? manifest.streams : [];
  }
  const playlist = parsePlaylist(text, url, undefined, limits);
  return playlist.kind === 'media' && playlist.segments.length > 0 ? [playlist.segments] : [];
}

async function decode(bytes: Uint8Array, coding: string | undefined): Promise<Uint8Array | undefined> {
  const name = coding?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return bytes;
  try {
    return await decoders.get(name)?.(bytes, { maxOutputLength: maxPlaylistBytes });
  } catch {
    return undefined;
  }
}
