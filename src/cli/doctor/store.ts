/** Whether the store's directory and its disk do what the store needs of them. */

import type { Config } from '../../config/schema.ts';
import { optionSize, sizeText } from '../text-sections.ts';
import { type Diagnosis, fine, found } from './diagnosis.ts';

/** What the store does in its directory, in the order of the trial. */
export type TrialStep = 'create' | 'write' | 'sync' | 'rename' | 'no-follow' | 'index';

/** Facts of the directory of a disk store. Undefined where the system does not state one. */
export interface StoreFacts {
  readonly dir: string;
  /** Its permissions; undefined where it does not exist yet. */
  readonly mode: number | undefined;
  /** The directory that the trial was made in: it, or its nearest parent that exists. */
  readonly triedIn: string;
  /** Type of the file system, such as `ext4`, and where it is mounted. */
  readonly fileSystem: { readonly type: string; readonly mountPoint: string } | undefined;
  readonly totalBytes: number;
  /** Free for this user. */
  readonly freeBytes: number;
  /** Files that the file system can have; 0 where there is no limit. */
  readonly files: number;
  readonly freeFiles: number;
  /** What is stored there already; undefined where it could not be counted in short time. */
  readonly usedBytes: number | undefined;
  readonly trial:
    | { readonly kind: 'ok'; readonly syncMs: number }
    | { readonly kind: 'failed'; readonly step: TrialStep; readonly code: string; readonly reason: string };
  /** Whether another process has the store open. */
  readonly isInUse: boolean;
}

/**
 * Returns the findings about a store on disk or in memory, and about the local disk before an engine; `judgeEngine` returns those about
 * the engine. `facts` are undefined for a store in memory, and for a temporary directory.
 */
export function judgeStore(facts: StoreFacts | undefined, { store }: Pick<Config, 'store'>): readonly Diagnosis[] {
  if (store.type === 'redis') return judgeLocalDisk(facts, store.local);
  if (store.type === 'memory') {
    return [fine('store', `in memory, up to ${sizeText(store.maxSizeBytes)}; it is empty after a restart`)];
  }
  if (facts === undefined) return [fine('store', 'in a temporary directory, which is removed when the server stops')];
  return judgeDirectory(facts, store);
}

/** The bounds of what is stored in a directory, in bytes. */
interface DirectoryBounds {
  readonly maxSizeBytes: number;
  readonly minFreeBytes?: number | undefined;
}

function judgeDirectory(facts: StoreFacts, bounds: DirectoryBounds): readonly Diagnosis[] {
  if (facts.trial.kind === 'failed') return [judgeFailedTrial(facts, facts.trial)];
  return [
    judgeFileSystem(facts, facts.trial.syncMs),
    ...judgePermissions(facts),
    judgeSpace(facts, bounds),
    ...judgeInodes(facts),
  ];
}

/** The directory before an engine is used as that of a store, and has options of its own, without flags. */
function judgeLocalDisk(facts: StoreFacts | undefined, bounds: DirectoryBounds | undefined): readonly Diagnosis[] {
  if (facts === undefined || bounds === undefined) return [];
  const inLocal = (text: string | undefined) =>
    text
      ?.replace('; or store.type (--store) memory', '; or leave out store.local')
      .replaceAll(/store\.(dir|maxSizeBytes)/g, 'store.local.$1')
      .replaceAll(/ \(--(?:dir|max-size)\)/g, '');
  return judgeDirectory(facts, bounds).map((each) => ({
    ...each,
    where: inLocal(each.where),
    advice: inLocal(each.advice),
  }));
}

const attempts: Readonly<Record<TrialStep, string>> = {
  create: 'no directory can be created',
  write: 'no file can be written',
  sync: 'written bytes cannot be forced to the disk (fsync)',
  rename: 'no file can be renamed',
  'no-follow': 'links are followed although the system was asked not to (O_NOFOLLOW)',
  index: 'no SQLite file with a write-ahead log works',
};

function judgeFailedTrial(
  { dir, triedIn, mode }: StoreFacts,
  { step, code, reason }: Extract<StoreFacts['trial'], { kind: 'failed' }>,
): Diagnosis {
  const place = triedIn === dir ? '' : ` in ${triedIn}`;
  return found('problem', 'store', `${attempts[step]}${place}: ${reason}`, adviceOnFault(dir, mode, code), dir);
}

function adviceOnFault(dir: string, mode: number | undefined, code: string): string {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return mode === undefined
        ? `sudo install -d -m 700 -o "$(id -un)" ${dir}; or another store.dir (--dir)`
        : `sudo chown -R "$(id -un)" ${dir}, as the user of the server; or another store.dir (--dir)`;
    case 'EROFS':
      return 'mount it writable; or another store.dir (--dir)';
    case 'ENOSPC':
    case 'EDQUOT':
      return 'make room there; or another store.dir (--dir)';
    case 'ENOTDIR':
      return 'remove the file that has the name of a directory; or another store.dir (--dir)';
    default:
      return 'another store.dir (--dir), on a local disk';
  }
}

const networkTypes =
  /^(?:nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|lustre|gpfs|glusterfs|fuse\.(?:sshfs|glusterfs|ceph.*|s3fs|goofys|rclone|gcsfuse))$/;
const memoryTypes = /^(?:tmpfs|ramfs|devtmpfs)$/;
const layerTypes = /^(?:overlay|aufs|fuse\.fuse-overlayfs|unionfs)$/;

/** A slower disk makes misses wait. */
const slowSyncMs = 250;

function judgeFileSystem({ dir, fileSystem, isInUse }: StoreFacts, syncMs: number): Diagnosis {
  const elsewhere = 'another store.dir (--dir), on a local disk';
  const type = fileSystem?.type ?? '';
  const mounted = `${type}, mounted on ${fileSystem?.mountPoint}`;
  if (networkTypes.test(type)) {
    const what = `${mounted}, is a network file system: the locks and the shared memory of the index (SQLite) are not safe there, and each read may wait for the network`;
    return found('warning', 'store', what, elsewhere, dir);
  }
  if (memoryTypes.test(type)) {
    const what = `${mounted}, is memory, not a disk: what is stored there counts as memory in use, and is gone after a restart of the machine`;
    return found('warning', 'store', what, `${elsewhere}; or store.type (--store) memory`, dir);
  }
  if (layerTypes.test(type)) {
    const what = `${mounted}, is the layer of a container: what is stored there is gone with the container, and slow to write`;
    return found(
      'warning',
      'store',
      what,
      'mount a volume there, such as docker run -v rangeway:/var/cache/rangeway',
      dir,
    );
  }
  if (syncMs > slowSyncMs) {
    const what = `${fileSystem === undefined ? 'it works' : mounted}, is slow: forcing a few bytes to the disk took ${Math.round(syncMs)} ms`;
    return found('note', 'store', what, elsewhere, dir);
  }
  const works = 'writing, renaming, fsync, O_NOFOLLOW and the index work';
  const use = isInUse ? '; a running server has it open' : '';
  return fine('store', `${fileSystem === undefined ? works : `${mounted}; ${works}`}${use}`, dir);
}

function judgePermissions({ dir, mode }: StoreFacts): Diagnosis[] {
  if (mode === undefined || (mode & 0o022) === 0) return [];
  const what = `other users can write there (mode ${(mode & 0o777).toString(8)}): they can put in what clients get`;
  // A directory that is for all users, such as /tmp, has the sticky bit.
  const advice =
    (mode & 0o1000) === 0 ? `chmod 700 ${dir}` : `a directory of its own: store.dir (--dir) ${dir}/rangeway`;
  return [found('problem', 'store', what, advice, dir)];
}

/** As in the store: so many bytes stay free, or a quarter of a smaller disk. */
const minFreeBytesByDefault = 32 * 1024 * 1024;

function judgeSpace(facts: StoreFacts, bounds: DirectoryBounds): Diagnosis {
  const { freeBytes, totalBytes, usedBytes, dir } = facts;
  const { maxSizeBytes, minFreeBytes = Math.min(minFreeBytesByDefault, totalBytes / 4) } = bounds;
  const where = 'store.maxSizeBytes';
  if (freeBytes < minFreeBytes) {
    const what = `${sizeText(freeBytes)} are free at ${dir}, less than the ${sizeText(minFreeBytes)} that stay free: the store does not grow`;
    return found('problem', 'space', what, 'make room there; or another store.dir (--dir)', where);
  }
  if (usedBytes === undefined) {
    return fine(
      'space',
      `${sizeText(freeBytes)} are free at ${dir}; what is stored there could not be counted in short time`,
      where,
    );
  }
  const room = freeBytes + usedBytes - minFreeBytes;
  const have = `${sizeText(freeBytes)} are free at ${dir}${usedBytes === 0 ? '' : `, and ${sizeText(usedBytes)} are stored there`}`;
  if (room >= maxSizeBytes) return fine('space', `${have}; the store may take ${sizeText(maxSizeBytes)}`, where);
  const what = `${have}, but the store may take ${sizeText(maxSizeBytes)}: it fills the disk, and evicts from then on`;
  // Some room, because other programs write there too.
  const advice = `${where} (--max-size): ${optionSize(room * 0.9)} or less; or a larger disk`;
  return found('warning', 'space', what, advice, where);
}

const fewFiles = 10_000;
const veryFewFiles = 1000;

/** Each stored body that is larger than a few kilobytes is a file. */
function judgeInodes({ files, freeFiles, dir }: StoreFacts): Diagnosis[] {
  if (files === 0) return [];
  if (freeFiles >= fewFiles) return [fine('inodes', `${freeFiles} more files can be created there`, dir)];
  const what = `only ${freeFiles} more files can be created there, and each larger body is one`;
  const level = freeFiles < veryFewFiles ? 'problem' : 'warning';
  return [
    found(
      level,
      'inodes',
      what,
      'remove small files there, or another file system: df -i shows how many it can have',
      dir,
    ),
  ];
}
