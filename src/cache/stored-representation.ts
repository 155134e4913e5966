/** A stored entry as a representation. */

import { ProxyError } from '../http/proxy-error.ts';
import type { BlockSource, EntryReader, StoredEntry } from '../store/store.ts';
import { peekBytes, readBytes } from './block-bytes.ts';
import type { ByteReader, Representation } from './representation.ts';

/** Presents an entry to delivery. */
export function createStoredRepresentation(entry: StoredEntry, blockSizeBytes: number): Representation {
  return {
    response: entry.metadata,
    sizeBytes: entry.sizeBytes,
    peek: (offset, end) => peekBytes(entry, blockSizeBytes, offset, end),
    open: async (offset) => {
      const reader = await entry.open();
      try {
        const source = await readAhead(reader, blockSizeBytes, entry.sizeBytes, offset);
        return createStoredReader(reader, source, blockSizeBytes, entry.sizeBytes);
      } catch (error) {
        reader.close();
        throw error;
      }
    },
    whenPresent: async () => true,
    close: () => {},
  };
}

/** Reads the block where reading begins: damage that is found there is found while another answer can be given. */
async function readAhead(
  reader: EntryReader,
  blockSizeBytes: number,
  sizeBytes: number,
  offset: number,
): Promise<BlockSource> {
  const first = Math.floor(offset / blockSizeBytes);
  if (offset >= sizeBytes || reader.peekBlock(first) !== undefined) return reader;
  let block: Uint8Array | undefined = await reader.readBlock(first);
  return {
    peekBlock: (index) => {
      if (index !== first) block = undefined;
      return block ?? reader.peekBlock(index);
    },
    readBlock: (index) => reader.readBlock(index),
  };
}

function createStoredReader(
  reader: EntryReader,
  source: BlockSource,
  blockSizeBytes: number,
  sizeBytes: number,
): ByteReader {
  let isClosed = false;
  return {
    peek: (offset, end) => peekBytes(source, blockSizeBytes, offset, end),
    read: async (offset, end) => {
      if (isClosed) throw new ProxyError('client_gone');
      return offset < sizeBytes ? await readBytes(source, blockSizeBytes, offset, end) : undefined;
    },
    close: () => {
      isClosed = true;
      reader.close();
    },
  };
}
