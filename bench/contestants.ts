/** Prepares the peers that take part in one workload: their ports, folders, cores and certificates. */

import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeTestCertificate } from '../test/support/values/tls-certificate.ts';
import type { CoreList } from './cores.ts';
import type { LoadGenerator } from './load/load.ts';
import type { Origin } from './origin/origin.ts';
import { floorName } from './peers/floor.ts';
import { ampleMemoryBytes, type Peer, type PeerSettings, type RunningPeer } from './peers/peer.ts';
import { freePort } from './peers/server-process.ts';
import { type RunContext, subject } from './rounds.ts';
import type { Contestant, Workload } from './workloads/workload.ts';

/** The parts that all contestants of a workload share. */
interface Ground {
  readonly origin: Origin;
  readonly generator: LoadGenerator;
}

/** Creates the contestants of a workload. `resources` stops the peers that they start, and removes the peers' folders. */
export function createContestants(
  workload: Workload,
  { peers, cores, seconds, scratch, isShort }: RunContext,
  { origin, generator }: Ground,
  resources: AsyncDisposableStack,
): readonly Contestant[] {
  const originHasRanges = workload.origin.kind === 'periodic' && workload.origin.hasRanges;
  const proxyCores = cores === undefined ? undefined : cores.proxy;
  const allCores = cores === undefined ? undefined : [...new Set([...cores.proxy, ...cores.load])];
  const warmUp = async (run: () => Promise<unknown>): Promise<void> => {
    if (!isShort) await run();
  };
  return participantsOf(workload, peers).map(({ name, peer }): Contestant => {
    let count = 0;
    const start = async (settings: PeerSettings = {}): Promise<RunningPeer> => {
      const own = join(scratch, `${workload.name}-${name}-${count++}`);
      const place = { originPort: origin.port, originHasRanges, own, cores: proxyCores };
      return resources.use(await startPeer(peer, settings, place, resources));
    };
    return {
      name,
      cores: proxyCores,
      allCores,
      everyCore: cores?.all,
      originCores: cores?.origin,
      origin,
      generator,
      seconds,
      start,
      hold: (resource) => resources.use(resource),
      async createFolder() {
        const dir = await mkdtemp(join(scratch, `${workload.name}-`));
        resources.defer(() => rm(dir, { recursive: true, force: true }));
        return dir;
      },
      warmUp,
      multiply: peer.multiply,
    };
  });
}

/** Returns the peers of a workload, each with the name of its row. */
function participantsOf(
  { rows, hasFloor }: Workload,
  peers: readonly Peer[],
): readonly { readonly name: string; readonly peer: Peer }[] {
  if (rows === undefined) {
    const participants = peers.filter(({ name }) => name !== floorName || hasFloor === true);
    return participants.map((peer) => ({ name: peer.name, peer }));
  }
  // With `--profile --copying` the first peer is the other Rangeway.
  const own = peers.find(({ name }) => name === subject) ?? peers[0];
  return own === undefined ? [] : rows.names.map((name) => ({ name, peer: own }));
}

async function startPeer(
  peer: Peer,
  settings: PeerSettings,
  place: {
    readonly originPort: number;
    readonly originHasRanges: boolean;
    readonly own: string;
    readonly cores: CoreList | undefined;
  },
  resources: AsyncDisposableStack,
): Promise<RunningPeer> {
  const { own, cores, originPort, originHasRanges } = place;
  const { again, memoryBytes = ampleMemoryBytes, workers = 1, isSecure = false } = settings;
  const { isDefault = false, isLogged = false, isGuarded = false, isCopying = false, engineUrl } = settings;
  const dir = again?.dir ?? own;
  if (again === undefined) {
    await mkdir(dir);
    resources.defer(() => rm(dir, { recursive: true, force: true }));
  }
  const port = again?.port ?? (await freePort());
  const certificate = isSecure ? await writeTestCertificate(dir) : undefined;
  const cored = cores === undefined ? undefined : (settings.cores ?? cores);
  return await peer.start({
    port,
    originPort,
    originHasRanges,
    dir,
    cores: cored,
    memoryBytes,
    isDefault,
    isLogged,
    isGuarded,
    isCopying,
    engineUrl,
    workers,
    certificate,
  });
}
