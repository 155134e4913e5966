/** A stored entry as a representation. */

import { ProxyError } from '../http/proxy-error.ts';
import type { EntryReader, StoredEntry } from '../store/store.ts';
import { peekBytes } from './block-bytes.ts';
import { ReadAhead, type ReadAheadRules } from './read-ahead.ts';
import type { ByteReader, Representation } from './representation.ts';

/** Presents an entry to delivery. */
export function createStoredRepresentation(entry: StoredEntry, rules: ReadAheadRules): Representation {
  const { metadata, sizeBytes } = entry;
  return {
    response: metadata,
    sizeBytes,
    peek: (offset, end) => peekBytes(entry, rules.blockSizeBytes, offset, end),
    open: async ([first]) => {
      const source = await entry.open();
      const reader = createStoredReader(source, sizeBytes, rules);
      try {
        // Damage that is found where reading begins is found while another answer can be given.
        if (first !== undefined) await reader.read(first.start, first.end);
        return reader;
      } catch (error) {
        reader.close();
        throw error;
      }
    },
    whenPresent: async () => true,
    close: () => {},
  };
}

function createStoredReader(source: EntryReader, sizeBytes: number, rules: ReadAheadRules): ByteReader {
  const blocks = new ReadAhead(source, sizeBytes, rules);
  let isClosed = false;
  return {
    peek: (offset, end) => blocks.peek(offset, end),
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
