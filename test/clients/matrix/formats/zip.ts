/** A zip archive of members that do not compress, so that their bytes are as many in the archive. */

import { Uint8ArrayReader, Uint8ArrayWriter, ZipWriter } from '@zip.js/zip.js';
import { patternBytes } from '../../../support/values/pattern-body.ts';

/** The members of the large archive. */
export const memberCount = 40;
export const memberBytes = 50_000;

/** Returns the name of a member of the large archive. */
export function memberName(at: number): string {
  return `member-${at}.bin`;
}

/** Returns the content of a member. */
export function memberContent(at: number): Uint8Array {
  return patternBytes(0, memberBytes, at + 1);
}

/** Makes an archive of texts; without them the large one. */
export async function makeArchive(texts?: Readonly<Record<string, string>>): Promise<Buffer> {
  const archive = new ZipWriter(new Uint8ArrayWriter(), { useWebWorkers: false, level: 0 });
  const members: readonly (readonly [string, Uint8Array])[] =
    texts === undefined
      ? Array.from({ length: memberCount }, (_, at) => [memberName(at), memberContent(at)] as const)
      : Object.entries(texts).map(([name, text]) => [name, Buffer.from(text)] as const);
  for (const [name, content] of members) await archive.add(name, new Uint8ArrayReader(content));
  return Buffer.from(await archive.close());
}
