/** Brings news to workers, and sees to it that nobody serves on who has not heeded them. */

import type { News } from '../cache/fleet.ts';
import type { Clock } from '../http/clock.ts';
import { ChannelGone } from './channel.ts';
import type { Incumbent, WorkerSlot } from './worker-slot.ts';

/** How long a worker may take to heed news, in milliseconds: it might serve what was purged. */
const HEED_MS = 10_000;

/** Tells these workers. Resolves when each has heeded it or has ended; who takes too long, or cannot, is ended. */
export async function relayNews(news: News, slots: readonly WorkerSlot[], clock: Pick<Clock, 'after'>): Promise<void> {
  await Promise.all(
    slots.map(async (slot) => {
      const { incumbent } = slot;
      if (incumbent !== undefined) await tellOne(news, slot, incumbent, clock);
    }),
  );
}

async function tellOne(
  news: News,
  slot: WorkerSlot,
  { process }: Incumbent,
  clock: Pick<Clock, 'after'>,
): Promise<void> {
  const end = (reason: string): void => {
    if (slot.incumbent?.process === process) slot.kill(reason);
  };
  const cancel = clock.after(HEED_MS, () => end(`it has not heeded for ${HEED_MS / 1000} s what was purged`));
  try {
    await process.remote.heed(news);
  } catch (error) {
    if (!(error instanceof ChannelGone)) end(`it could not heed what was purged: ${(error as Error).message}`);
    await process.ended;
  } finally {
    cancel();
  }
}
