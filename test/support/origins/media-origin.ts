/** An origin without sockets that has files of its own: playlists and segments. It answers at once, also ranges. */

import { fieldValue } from '../../../src/http/fields.ts';
import type { Origin, OriginRequest } from '../../../src/origin/origin.ts';
import { createAnsweringOrigin } from './answering-origin.ts';

/** A file of the origin. */
export interface MediaFile {
  readonly bytes: Uint8Array | string;
  readonly fields?: Readonly<Record<string, string>>;
}

export interface MediaOrigin extends Origin {
  /** By target. A target without a file gets 404. */
  readonly files: Map<string, MediaFile>;
  /** All requests. */
  readonly requests: readonly OriginRequest[];
  /** The targets that were requested since the last call, each with its Range. */
  taken(): string[];
}

const standard = { 'cache-control': 'max-age=60', etag: '"v1"' };

/** Creates the origin. Files are fresh for a minute, unless their fields say otherwise. */
export function createMediaOrigin(files: Readonly<Record<string, MediaFile>>): MediaOrigin {
  const requests: OriginRequest[] = [];
  const kept = new Map(Object.entries(files));
  let seen = 0;
  return {
    files: kept,
    requests,
    fetch(request) {
      const file = kept.get(request.target);
      const origin = createAnsweringOrigin({
        bytes: Buffer.from(file?.bytes ?? 'nothing'),
        fieldsOf: () => file?.fields ?? standard,
        hasRanges: true,
        asked: requests,
      });
      if (file !== undefined) return origin.fetch(request);
      return origin.fetch(request).then((response) => ({ ...response, status: 404 }));
    },
    close: async () => {},
    taken() {
      const taken = requests.slice(seen).map(({ target, fields }) => {
        const range = fieldValue(fields, 'range');
        return range === undefined ? target : `${target} ${range}`;
      });
      seen = requests.length;
      return taken.sort();
    },
  };
}
