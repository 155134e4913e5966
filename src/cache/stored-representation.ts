/** A stored entry as a representation. */

import type { Span } from '../bytes/span.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { EntryReader, StoredEntry } from '../store/store.ts';
import { peekBytes } from './block-bytes.ts';
import { ReadAhead, type ReadAheadRules } from './read-ahead.ts';
import type { ByteReader, Representation } from './representation.ts';

/** Opens the rest of the same bytes anew, when a block of them has turned out to be damaged. Rejects with `ProxyError`. */
export type Mend = (rest: readonly Span[]) => Promise<ByteReader>;

/** Presents an entry to delivery. */
export function createStoredRepresentation(entry: StoredEntry, rules: ReadAheadRules, mend: Mend): Representation {
  const { metadata, sizeBytes, generation } = entry;
  return {
    response: metadata,
    generation,
    sizeBytes,
    peek: (offset, end) => peekBytes(entry, rules.blockSizeBytes, offset, end),
    open: async (spans) => {
      const source = await entry.open();
      const reader = createStoredReader(source, sizeBytes, rules);
      try {
        // Damage that is found where reading begins is found while another answer can be given.
        const [first] = spans;
        if (first !== undefined) await reader.read(first.start, first.end);
        return createMendedReader(reader, spans, mend);
      } catch (error) {
        reader.close();
        throw error;
      }
    },
    whenPresent: async () => true,
    close: () => {},
  };
}

/** Reads on from elsewhere when what is stored turns out to be damaged. */
function createMendedReader(stored: ByteReader, spans: readonly Span[], mend: Mend): ByteReader {
  let reader = stored;
  let isClosed = false;
  const rest = (offset: number, end: number) => {
    const at = spans.findIndex((span) => span.start <= offset && end === span.end);
    return [{ start: offset, end }, ...spans.slice(at + 1)];
  };
  return {
    peek: (offset, end) => reader.peek(offset, end),
    move: (...bytes) => reader.move?.(...bytes) ?? 0,
    read: async (offset, end) => {
      try {
        return await reader.read(offset, end);
      } catch (thrown) {
        if (toProxyError(thrown).code !== 'bytes_gone' || reader !== stored) throw thrown;
      }
      const mended = await mend(rest(offset, end));
      stored.close();
      reader = mended;
      if (isClosed) mended.close();
      return await mended.read(offset, end);
    },
    close: () => {
      isClosed = true;
      reader.close();
    },
  };
}

function createStoredReader(source: EntryReader, sizeBytes: number, rules: ReadAheadRules): ByteReader {
  const blocks = new ReadAhead(source, sizeBytes, rules);
  let isClosed = false;
  return {
    peek: (offset, end) => blocks.peek(offset, end),
    move: (...bytes) => (isClosed ? 0 : (source.move?.(...bytes) ?? 0)),
    read: async (offset, end) => {
      if (isClosed) throw new ProxyError('client_gone');
      return offset < sizeBytes ? await blocks.read(offset, end) : undefined;
    },
    close: () => {
      isClosed = true;
      blocks.close();
      source.close();
    },
  };
}
