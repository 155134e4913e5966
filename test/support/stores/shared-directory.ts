/** Several disk stores on one directory in this process, as the workers of a fleet have them. */

import type { DiskStoreOptions } from '../../../src/store/disk/disk-store.ts';
import type { Store, StoreChange } from '../../../src/store/store.ts';
import type { TieredStore } from '../../../src/store/tiered/tiered-store.ts';
import { type DiskStoreInTest, openTestStore, temporaryDirectory } from './disk-store.ts';

/** A directory that opens stores. Each store announces its changes to the others. */
export interface SharedDirectory {
  readonly dir: string;
  /** All announced changes, with the instance that announced them. */
  readonly told: readonly { readonly by: string; readonly change: StoreChange }[];
  /** Opens another store. `wrap` may put a store in front of it, which then receives the changes. */
  open(options?: Partial<DiskStoreOptions>, joining?: Joining): Promise<SharingStore>;
  /** Holds up the delivery of changes until the returned function is called. */
  hold(): () => void;
  /** Cuts a store off, as if its process had died: it neither announces nor receives changes. */
  cut(store: SharingStore): void;
}

/** How another store joins. */
export interface Joining {
  readonly isFirst?: boolean;
  readonly fallen?: readonly string[];
  /** Called when the store has read the index and tells the others that it has. */
  readonly onOpened?: () => void;
  readonly wrap?: (store: Store) => Store & Partial<Pick<TieredStore, 'forget'>>;
}

/** A store on the shared directory. */
export interface SharingStore extends DiskStoreInTest {
  readonly instance: string;
  /** The store that `wrap` returned; otherwise the disk store. */
  readonly front: Store;
}

export async function createSharedDirectory(): Promise<SharedDirectory> {
  const dir = await temporaryDirectory();
  const told: { by: string; change: StoreChange }[] = [];
  const members = new Map<string, Pick<Store, 'applyChange'>>();
  const dead = new Set<string>();
  let gate: Promise<void> | undefined;
  let count = 0;

  const tellFrom = (by: string) => async (change: StoreChange) => {
    if (dead.has(by)) return;
    told.push({ by, change });
    // A message is a copy, and is delivered later.
    const copy = structuredClone(change);
    await (gate ?? Promise.resolve());
    for (const [instance, store] of members) if (instance !== by) store.applyChange(copy);
  };

  return {
    dir,
    told,
    open: async (
      options = {},
      {
        isFirst = count === 0,
        fallen = [],
        onOpened,
        wrap = (store: Store): ReturnType<NonNullable<Joining['wrap']>> => store,
      } = {},
    ) => {
      count += 1;
      const instance = `w${count}`;
      let own: ReturnType<typeof wrap> | undefined;
      const tellOthers = tellFrom(instance);
      const announce = (change: StoreChange) => {
        own?.forget?.(change);
        if (change.kind === 'opened') onOpened?.();
        return tellOthers(change);
      };
      const sharing = { instance, isFirst, fallen, announce };
      // A worker keeps the changes that arrive while it opens its store, and applies them before it serves.
      const early: StoreChange[] = [];
      members.set(instance, { applyChange: (change) => void early.push(change) });
      const opened = await openTestStore({ dir, sharing, ...options });
      const front = wrap(opened.store);
      own = front;
      members.set(instance, front);
      for (const change of early) front.applyChange(change);
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
