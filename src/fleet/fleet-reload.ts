/** Changes the configuration of several workers in two steps, so that all of them use the new one, or none. */

import type { ConfigSource, WorkerCalls } from './calls.ts';
import { ChannelGone, type Remote } from './channel.ts';
import type { Incumbent, WorkerSlot } from './worker-slot.ts';

/** One of those that are changed, in its slot: who comes after it there has nothing to do with the change. */
export interface Member {
  readonly slot: WorkerSlot;
  readonly incumbent: Incumbent;
}

/**
 * Has all of them make it ready; `begin` is called for each before. Rejects where one cannot, when all
 * have answered. Who dies meanwhile is no hindrance: another one comes, and begins with what is in use by then.
 */
export async function prepareAll(
  members: readonly Member[],
  config: ConfigSource,
  begin: (slot: WorkerSlot) => void,
): Promise<void> {
  const outcomes = await Promise.allSettled(
    members.map(async ({ slot, incumbent }) => {
      begin(slot);
      await unlessGone(incumbent.process.remote.prepareReload(config));
    }),
  );
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** Has all of them give up what they have made ready, if they have. */
export async function abandonAll(members: readonly Member[]): Promise<void> {
  await Promise.all(
    members.map((member) =>
      withWorker(member, 'it could not give up a configuration', (remote) => remote.abandonReload()),
    ),
  );
}

/** Has all of them use what they have made ready; gives the addresses that they serve. Who cannot is replaced. */
export async function commitAll(members: readonly Member[]): Promise<readonly string[] | undefined> {
  const addresses = await Promise.all(
    members.map((member) =>
      withWorker(member, 'it could not go on with another configuration', (remote) => remote.commitReload()),
    ),
  );
  return addresses.find((each) => each !== undefined);
}

/** Whoever fails is in a state that nobody knows, and is ended. */
async function withWorker<T>(
  { slot, incumbent }: Member,
  complaint: string,
  ask: (remote: Remote<WorkerCalls>) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await ask(incumbent.process.remote);
  } catch (error) {
    const isThere = slot.incumbent === incumbent && !(error instanceof ChannelGone);
    if (isThere) slot.kill(`${complaint}: ${(error as Error).message}`);
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
