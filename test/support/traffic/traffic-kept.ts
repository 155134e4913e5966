/** What random traffic leaves in a store that outlives its process: the entries of the requested targets, and their bytes. */

import { expect } from 'vitest';
import { fieldValue } from '../../../src/http/fields.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import type { Store, StoredEntry } from '../../../src/store/store.ts';
import { possibleVersions } from './traffic-check.ts';
import { contentOf } from './traffic-content.ts';
import type { Plan } from './traffic-plan.ts';
import { targets } from './traffic-steps.ts';

/** The keys of the requested targets. */
const keys = targets.map((target) => `http://origin.example/ http://files.example${target}`);

/** What has happened to a store. */
export interface KeptState {
  /** The last version of the origin. */
  readonly latestVersion: number;
  /** Whether blocks of complete entries may be absent. */
  readonly isDamaged: boolean;
}

/** Returns the entries of all targets. */
export async function keptEntries(store: Pick<Store, 'find'> | undefined): Promise<StoredEntry[]> {
  const found = await Promise.all(keys.map((key) => store?.find(key)));
  return found.flatMap((entries) => entries ?? []);
}

/** Returns everything of an entry but its bytes. */
export function describeEntry({ key, variant, generation, metadata, sizeBytes, isComplete, pinnedUntil }: StoredEntry) {
  return { key, variant, generation, metadata, sizeBytes, isComplete, pinnedUntil };
}

/** Fails where a stored entry has bytes of another version than its fields name, or lacks a block without damage. */
export async function expectRightEntries(plan: Plan, store: Pick<Store, 'find'>, state: KeptState): Promise<void> {
  for (const entry of await keptEntries(store)) await expectRight(plan, entry, state);
}

async function expectRight(plan: Plan, entry: StoredEntry, { latestVersion, isDamaged }: KeptState): Promise<void> {
  const { blockSizeBytes } = plan;
  const blocks = await blocksOf(entry, blockSizeBytes);
  if (entry.isComplete && !isDamaged) expect(blocks).not.toContain(undefined);
  const version = Number(fieldValue(entry.metadata.fields, 'x-version'));
  const isRight = possibleVersions(plan, version, latestVersion).some((each) => {
    // A fragment begins at an offset of the content.
    const content = contentOf(plan, each).subarray(entry.metadata.fragment?.start ?? 0);
    return blocks.every((block, index) => {
      const start = index * blockSizeBytes;
      return block === undefined || Buffer.compare(block, content.subarray(start, start + blockSizeBytes)) === 0;
    });
  });
  if (!isRight) expect.fail(`a stored entry has other bytes than those of version ${version}`);
}

/** Reads the blocks of an entry; undefined for an absent block. */
async function blocksOf(entry: StoredEntry, blockSizeBytes: number): Promise<(Uint8Array | undefined)[]> {
  const count = Math.ceil(entry.sizeBytes / blockSizeBytes);
  const blocks = Array.from<Uint8Array | undefined>({ length: count });
  const reader = await entry.open().catch(undefinedWhenGone);
  for (let index = 0; index < count; index += 1) {
    blocks[index] = await reader?.readBlock(index).catch(undefinedWhenGone);
  }
  reader?.close();
  return blocks;
}

function undefinedWhenGone(error: unknown): undefined {
  if (!(error instanceof ProxyError && error.code === 'bytes_gone')) throw error;
}
