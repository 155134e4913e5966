/** What those who run a server are told of a stored response. What only its clients should know is left out. */

import { hash } from 'node:crypto';
import { spanOfBlock, spanSize } from '../bytes/span.ts';
import type { SpanSet } from '../bytes/span-set.ts';
import { type Field, fieldValue } from '../http/fields.ts';
import { splitKey } from '../routing/cache-key.ts';
import { isSpellingTag, tagOfStored } from '../semantics/cache-tags.ts';
import { effectiveEntityTag } from '../semantics/validator.ts';
import type { StoredEntry } from '../store/store.ts';
import type { EntryDetails, EntryStatus } from './operations.ts';

const mark = '[redacted]';

/** Parts of the names of fields that tell that their values let somebody in. */
const secretName = /auth(?!ority)|cookie|token|secret|passw|session|credential|signature|api-?key/;

/** How many characters of its hash name a variant, whose own name holds what clients have sent. */
const VARIANT_LENGTH = 16;

/** An entry in short. */
export function describeEntry(entry: StoredEntry): EntryStatus {
  const { key, variant, generation, metadata, sizeBytes, isComplete, pinnedUntil } = entry;
  const { status, fields, responseAt, isInvalid, expiredAt, tags = [] } = metadata;
  return {
    key,
    ...splitKey(key),
    variant: variant === '' ? '' : hash('sha256', variant, 'hex').slice(0, VARIANT_LENGTH),
    generation,
    status,
    contentType: fieldValue(fields, 'content-type'),
    sizeBytes,
    isComplete,
    isInvalid: isInvalid === true || expiredAt !== undefined,
    pinnedUntil,
    responseAt,
    etag: effectiveEntityTag(metadata),
    lastModified: fieldValue(fields, 'last-modified'),
    tags: tags.filter((tag) => !isSpellingTag(tag)).map(readableTag),
  };
}

/** An entry, whole; `present` are the indexes of its blocks that are there. */
export function detailEntry(entry: StoredEntry, present: SpanSet, blockSizeBytes: number): EntryDetails {
  const { metadata, sizeBytes } = entry;
  const spans = [...present].map(({ start, end }) => ({
    start: start * blockSizeBytes,
    end: spanOfBlock(end - 1, blockSizeBytes, sizeBytes).end,
  }));
  return {
    ...describeEntry(entry),
    fields: metadata.fields.map(withoutSecret),
    nominated: [...metadata.nominated, ...(metadata.selected ?? [])].map(([name, value]) => [
      name,
      value === null ? null : withoutSecret([name, value])[1],
    ]),
    present: spans,
    presentBytes: spans.reduce((sum, span) => sum + spanSize(span), 0),
  };
}

/** The text of a tag as whoever has chosen it writes it; that of a group tells its origin too. */
function readableTag(stored: string): string {
  const tag = tagOfStored(stored);
  return tag === undefined ? stored : Buffer.from(tag, 'latin1').toString('utf8');
}

/** A field whose value, where it is a secret, is left out; of a cookie that is set, its name and its attributes stay. */
function withoutSecret([name, value]: Field): Field {
  if (name === 'set-cookie') return [name, value.replace(/^([^=;]*=)?[^;]*/, `$1${mark}`)];
  return secretName.test(name) ? [name, mark] : [name, value];
}
