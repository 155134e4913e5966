/** A stored entry as a representation. */

import { ProxyError } from '../http/proxy-error.ts';
import type { EntryReader, StoredEntry } from '../store/store.ts';
import { peekBytes, readBytes } from './block-bytes.ts';
import type { ByteReader, Representation } from './representation.ts';

/** Presents an entry to delivery. */
export function createStoredRepresentation(entry: StoredEntry, blockSizeBytes: number): Representation {
  return {
    response: entry.metadata,
    sizeBytes: entry.sizeBytes,
    peek: (offset, end) => peekBytes(entry, blockSizeBytes, offset, end),
    open: async () => createStoredReader(await entry.open(), blockSizeBytes, entry.sizeBytes),
    whenPresent: async () => {},
  };
}

function createStoredReader(reader: EntryReader, blockSizeBytes: number, sizeBytes: number): ByteReader {
  let isClosed = false;
  return {
    peek: (offset, end) => peekBytes(reader, blockSizeBytes, offset, end),
    read: async (offset, end) => {
      if (isClosed) throw new ProxyError('client_gone');
      return offset < sizeBytes ? await readBytes(reader, blockSizeBytes, offset, end) : undefined;
    },
    passed: () => {},
    close: () => {
      isClosed = true;
      reader.close();
    },
  };
}
