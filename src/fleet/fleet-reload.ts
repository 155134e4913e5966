/** Changes the configuration of several workers in two steps, so that all of them use the new one, or none. */

import type { ConfigSource, WorkerCalls } from './calls.ts';
import { ChannelGone, type Remote } from './channel.ts';
import type { WorkerSlot } from './worker-slot.ts';

/**
 * Has all of them make it ready; `begin` is called for each before. Rejects where one cannot, when all
 * have answered. Who dies meanwhile is no hindrance: another one comes, and begins with what is in use by then.
 */
export async function prepareAll(
  slots: readonly WorkerSlot[],
  config: ConfigSource,
  begin: (slot: WorkerSlot) => void,
): Promise<void> {
  const outcomes = await Promise.allSettled(
    slots.map(async (slot) => {
      const remote = slot.incumbent?.process.remote;
      if (remote === undefined) return;
      begin(slot);
      await unlessGone(remote.prepareReload(config));
    }),
  );
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** Has all of them give up what they have made ready, if they have. */
export async function abandonAll(slots: readonly WorkerSlot[]): Promise<void> {
  await Promise.all(
    slots.map((slot) => withWorker(slot, 'it could not give up a configuration', (remote) => remote.abandonReload())),
  );
}

/** Has all of them use what they have made ready; gives the addresses that they serve. Who cannot is replaced. */
export async function commitAll(slots: readonly WorkerSlot[]): Promise<readonly string[] | undefined> {
  const addresses = await Promise.all(
    slots.map((slot) =>
      withWorker(slot, 'it could not go on with another configuration', (remote) => remote.commitReload()),
    ),
  );
  return addresses.find((each) => each !== undefined);
}

/** Whoever fails is in a state that nobody knows, and is ended. */
async function withWorker<T>(
  slot: WorkerSlot,
  complaint: string,
  ask: (remote: Remote<WorkerCalls>) => Promise<T>,
): Promise<T | undefined> {
  const { incumbent } = slot;
  if (incumbent === undefined) return undefined;
  try {
    return await ask(incumbent.process.remote);
  } catch (error) {
    if (!(error instanceof ChannelGone)) slot.kill(`${complaint}: ${(error as Error).message}`);
    await incumbent.process.ended;
    return undefined;
  }
}

async function unlessGone(asked: Promise<void>): Promise<void> {
  try {
    await asked;
  } catch (error) {
    if (!(error instanceof ChannelGone)) throw error;
  }
}
