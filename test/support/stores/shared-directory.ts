/** Several disk stores on one directory, as the processes of a fleet have them, all in this one process. */

import type { DiskStoreOptions } from '../../../src/store/disk/disk-store.ts';
import type { Store, StoreChange } from '../../../src/store/store.ts';
import type { TieredStore } from '../../../src/store/tiered/tiered-store.ts';
import { type DiskStoreInTest, openTestStore, temporaryDirectory } from './disk-store.ts';

/** One that opens stores, each of which tells the others of its changes. */
export interface SharedDirectory {
  readonly dir: string;
  /** All that was told, and by whom. */
  readonly told: readonly { readonly by: string; readonly change: StoreChange }[];
  /** Opens another one; `wrap` may put something in front of it, which then heeds changes in its place. */
  open(options?: Partial<DiskStoreOptions>, joining?: Joining): Promise<SharingStore>;
  /** From now on what is told is heeded only when this is called, or at once again after that. */
  hold(): () => void;
  /** A store is as if its process had died: nobody hears of it, and it hears of nobody. */
  cut(store: SharingStore): void;
}

/** How one more store comes to the others. */
export interface Joining {
  readonly isFirst?: boolean;
  readonly fallen?: readonly string[];
  readonly wrap?: (store: Store) => Store & Partial<Pick<TieredStore, 'forget'>>;
}

/** One of them. */
export interface SharingStore extends DiskStoreInTest {
  readonly instance: string;
  /** What it is with what was put in front of it. */
  readonly front: Store;
}

export async function createSharedDirectory(): Promise<SharedDirectory> {
  const dir = await temporaryDirectory();
  const told: { by: string; change: StoreChange }[] = [];
  const members = new Map<string, Store>();
  const dead = new Set<string>();
  let gate: Promise<void> | undefined;
  let count = 0;

  const tellFrom = (by: string) => async (change: StoreChange) => {
    if (dead.has(by)) return;
    told.push({ by, change });
    // As a message takes its time, and is not what its sender changes later.
    const copy = structuredClone(change);
    await (gate ?? Promise.resolve());
    for (const [instance, store] of members) if (instance !== by) store.heed(copy);
  };

  return {
    dir,
    told,
    open: async (
      options = {},
      {
        isFirst = count === 0,
        fallen = [],
        wrap = (store: Store): ReturnType<NonNullable<Joining['wrap']>> => store,
      } = {},
    ) => {
      count += 1;
      const instance = `w${count}`;
      let own: ReturnType<typeof wrap> | undefined;
      const tellOthers = tellFrom(instance);
      const tell = (change: StoreChange) => {
        own?.forget?.(change);
        return tellOthers(change);
      };
      const sharing = { instance, isFirst, fallen, tell };
      // One that is being opened is told nothing yet: it reads what there is.
      const opened = await openTestStore({ dir, sharing, ...options });
      const front = wrap(opened.store);
      own = front;
      members.set(instance, front);
      return { ...opened, instance, front };
    },
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return () => {
        gate = undefined;
        resolve();
      };
    },
    cut: ({ instance }) => {
      dead.add(instance);
      members.delete(instance);
    },
  };
}
