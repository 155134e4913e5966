/**
 * One of several processes that hammer one store directory: `sharing-program.ts DIR INSTANCE SEED FIRST FALLEN`. It announces its
 * changes to the others through its parent process, takes random steps, and checks what it reads. At the message `end` it ends
 * once it has taken enough steps, and reports them and everything that was wrong.
 */

import { randomUUID } from 'node:crypto';
import { openDiskStore } from '../../../src/store/disk/disk-store.ts';
import type { Store, StoreChange } from '../../../src/store/store.ts';
import { createMemoryTier } from '../../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../../src/store/tiered/tiered-store.ts';
import { StoreHammer } from '../stores/store-hammer.ts';
import { type FromSharing, sharedBlockBytes, sharedSizeBytes, type ToSharing } from './sharing-messages.ts';

/** A process that is ended early takes so many steps all the same. */
const leastSteps = 30;

await run(process.argv.slice(2));

async function run([dir = '', instance = '', seed = '', isFirst = '', fallen = '']: string[]): Promise<void> {
  // A send fails where the parent has ended; `disconnect` handles that.
  const send = (message: FromSharing) => process.send?.(message, undefined, undefined, () => {});
  const wrong: string[] = [];
  const waiting = new Map<number, () => void>();
  let ids = 0;
  let store: Store | undefined;
  const { promise: end, resolve: endNow } = Promise.withResolvers<void>();
  let isEnding = false;
  process.on('message', (message: ToSharing) => {
    if (message.kind === 'told') waiting.get(message.id)?.();
    if (message.kind === 'end') endNow();
    if (message.kind !== 'apply') return;
    store?.applyChange(message.change);
    send({ kind: 'applied', id: message.id });
  });
  process.on('disconnect', () => process.exit());
  void end.then(() => {
    isEnding = true;
  });

  const announce = (change: StoreChange) =>
    new Promise<void>((resolve) => {
      ids += 1;
      waiting.set(ids, resolve);
      send({ kind: 'tell', id: ids, change });
    });
  const sharing = { instance, isFirst: isFirst === 'true', fallen: fallen === '' ? [] : fallen.split(','), announce };
  const disk = await openDiskStore({
    dir,
    maxSizeBytes: sharedSizeBytes,
    blockSizeBytes: sharedBlockBytes,
    now: Date.now,
    randomId: randomUUID,
    emit: (event) => {
      if (event.kind === 'store' && event.level !== 'debug' && event.level !== 'info')
        wrong.push(JSON.stringify(event));
    },
    sharing,
  });
  store = createTieredStore(createMemoryTier({ maxSizeBytes: 1024 * 1024 }), disk, Date.now);
  send({ kind: 'ready' });
  const hammer = new StoreHammer(store, Number(seed), wrong);
  while (!isEnding || hammer.steps < leastSteps) {
    await hammer.step();
    send({ kind: 'stepped', steps: hammer.steps });
  }
  await store.close();
  send({ kind: 'ended', steps: hammer.steps, faults: hammer.faults, wrong });
}
