import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { findMount, gatherStore } from '../../../src/cli/doctor/gather-store.ts';
import { judgeStore, type StoreFacts } from '../../../src/cli/doctor/store.ts';
import { monotonicClock } from '../../../src/setup/system.ts';
import { lockDirectory } from '../../../src/store/disk/index/directory-lock.ts';
import { examinedConfig, linesOf } from '../../support/values/examined-config.ts';

const dir = '/var/cache/rangeway';

const good: StoreFacts = {
  dir,
  mode: 0o40700,
  triedIn: dir,
  fileSystem: { type: 'ext4', mountPoint: '/' },
  totalBytes: 100e9,
  freeBytes: 50e9,
  files: 6e6,
  freeFiles: 5e6,
  usedBytes: 1e9,
  trial: { kind: 'ok', syncMs: 3 },
  isInUse: false,
};

function judged(change: Partial<StoreFacts>, store: object = {}): string[] {
  return linesOf(judgeStore({ ...good, ...change }, examinedConfig({ store })));
}

/** Returns the findings that ask for something. */
function complaints(change: Partial<StoreFacts>, store: object = {}): string[] {
  return judged(change, store).filter((line) => !line.startsWith('ok '));
}

describe('judgeStore', () => {
  it('a good directory', () => {
    expect(judged({})).toEqual([
      `ok store [${dir}] ext4, mounted on /; writing, renaming, fsync, O_NOFOLLOW and the index work`,
      `ok space [store.maxSizeBytes] 50 GB are free at ${dir}, and 1 GB are stored there; the store may take 10 GB`,
      `ok inodes [${dir}] 5000000 more files can be created there`,
    ]);
  });

  it('one that a server has open, on a system without mounts and inodes', () => {
    expect(judged({ isInUse: true, fileSystem: undefined, files: 0, freeFiles: 0 })).toEqual([
      `ok store [${dir}] writing, renaming, fsync, O_NOFOLLOW and the index work; a running server has it open`,
      expect.stringMatching(/^ok space /),
    ]);
  });

  it('a good directory before an engine, and a bad one', () => {
    const local = { type: 'redis', local: { dir, maxSizeBytes: '20GB' } };
    expect(judged({}, local)).toEqual([
      `ok store [${dir}] ext4, mounted on /; writing, renaming, fsync, O_NOFOLLOW and the index work`,
      `ok space [store.local.maxSizeBytes] 50 GB are free at ${dir}, and 1 GB are stored there; the store may take 20 GB`,
      `ok inodes [${dir}] 5000000 more files can be created there`,
    ]);
    expect(complaints({ freeBytes: 1e9, fileSystem: { type: 'tmpfs', mountPoint: '/tmp' } }, local)).toEqual([
      expect.stringMatching(/another store\.local\.dir, on a local disk; or leave out store\.local$/),
      expect.stringMatching(/^warning space \[store\.local\.maxSizeBytes\].*store\.local\.maxSizeBytes: \S+ or less/),
    ]);
    expect(judgeStore(undefined, examinedConfig({ store: { type: 'redis' } }))).toEqual([]);
  });

  it('no directory', () => {
    expect(linesOf(judgeStore(undefined, examinedConfig({ store: { type: 'memory' } })))).toEqual([
      'ok store in memory, up to 256 MB; it is empty after a restart',
    ]);
    expect(linesOf(judgeStore(undefined, examinedConfig()))).toEqual([
      'ok store in a temporary directory, which is removed when the server stops',
    ]);
  });

  it.each<[type: string, want: string | undefined]>([
    ['ext4', undefined],
    ['xfs', undefined],
    ['btrfs', undefined],
    ['zfs', undefined],
    ['fuseblk', undefined],
    ['nfs', 'nfs, mounted on /srv, is a network file system'],
    ['nfs4', 'is a network file system'],
    ['cifs', 'is a network file system'],
    ['smb3', 'is a network file system'],
    ['9p', 'is a network file system'],
    ['fuse.sshfs', 'is a network file system'],
    ['fuse.s3fs', 'is a network file system'],
    ['tmpfs', 'tmpfs, mounted on /srv, is memory, not a disk'],
    ['overlay', 'overlay, mounted on /srv, is the layer of a container'],
  ])('the file system %s', (type, want) => {
    const lines = complaints({ fileSystem: { type, mountPoint: '/srv' } });
    expect(lines).toHaveLength(want === undefined ? 0 : 1);
    if (want !== undefined) expect(lines[0]).toMatch(/^warning store .* → /);
    if (want !== undefined) expect(lines[0]).toContain(want);
  });

  it('a slow disk', () => {
    expect(complaints({ trial: { kind: 'ok', syncMs: 900.4 } })).toEqual([
      `note store [${dir}] ext4, mounted on /, is slow: forcing a few bytes to the disk took 900 ms → another store.dir (--dir), on a local disk`,
    ]);
  });

  it.each<[mode: number, want: string | undefined]>([
    [0o40700, undefined],
    [0o40755, undefined],
    [
      0o40775,
      `problem store [${dir}] other users can write there (mode 775): they can put in what clients get → chmod 700 ${dir}`,
    ],
    [0o41777, `→ a directory of its own: store.dir (--dir) ${dir}/rangeway`],
    [0o40777, `problem store [${dir}] other users can write there (mode 777)`],
  ])('permissions %o', (mode, want) => {
    const lines = complaints({ mode });
    expect(lines).toHaveLength(want === undefined ? 0 : 1);
    if (want !== undefined) expect(lines[0]).toContain(want);
  });

  it.each<[change: Partial<StoreFacts>, store: object, want: string | undefined]>([
    [{ freeBytes: 9.1e9 }, {}, undefined],
    [
      { freeBytes: 5e9 },
      {},
      'warning space [store.maxSizeBytes] 5 GB are free at /var/cache/rangeway, and 1 GB are stored there, but the store may take 10 GB: it fills the disk, and evicts from then on → store.maxSizeBytes (--max-size): 5369MB or less; or a larger disk',
    ],
    [
      { freeBytes: 5e9, usedBytes: 0 },
      {},
      'warning space [store.maxSizeBytes] 5 GB are free at /var/cache/rangeway, but',
    ],
    [
      { freeBytes: 50e9 },
      { maxSizeBytes: '200GB', minFreeBytes: '10GB' },
      '→ store.maxSizeBytes (--max-size): 36GB or less',
    ],
    [
      { freeBytes: 20e6 },
      {},
      'problem space [store.maxSizeBytes] 20 MB are free at /var/cache/rangeway, less than the 33 MB that stay free: the store does not grow',
    ],
    [{ freeBytes: 20e6, totalBytes: 64e6, usedBytes: 0 }, { maxSizeBytes: '3MB' }, undefined],
    [{ freeBytes: 5e9, usedBytes: undefined }, {}, undefined],
  ])('space %j, %j', (change, store, want) => {
    const lines = complaints(change, store);
    expect(lines).toHaveLength(want === undefined ? 0 : 1);
    if (want !== undefined) expect(lines[0]).toContain(want);
  });

  it.each<[freeFiles: number, want: string]>([
    [10_000, 'ok inodes'],
    [9_999, 'warning inodes'],
    [999, 'problem inodes'],
  ])('%s inodes', (freeFiles, want) => expect(judged({ freeFiles }).at(-1)).toContain(want));

  it.each<[change: Partial<StoreFacts>, step: string, code: string, want: string]>([
    [
      { mode: undefined, triedIn: '/var' },
      'create',
      'EACCES',
      'no directory can be created in /var: why → sudo install -d -m 700 -o "$(id -un)" /var/cache/rangeway',
    ],
    [{}, 'create', 'EACCES', 'no directory can be created: why → sudo chown -R "$(id -un)" /var/cache/rangeway'],
    [{}, 'create', 'EROFS', '→ mount it writable'],
    [{}, 'create', 'ENOTDIR', '→ remove the file that has the name of a directory'],
    [{}, 'write', 'ENOSPC', 'no file can be written: why → make room there'],
    [
      {},
      'sync',
      'EIO',
      'written bytes cannot be forced to the disk (fsync): why → another store.dir (--dir), on a local disk',
    ],
    [{}, 'rename', 'EIO', 'no file can be renamed: why'],
    [{}, 'no-follow', '', 'links are followed although the system was asked not to (O_NOFOLLOW): why'],
    [{}, 'index', '', 'no SQLite file with a write-ahead log works: why'],
  ])('a failed trial %j %s %s', (change, step, code, want) => {
    const trial = { kind: 'failed', step: step as 'create', code, reason: 'why' } as const;
    const [line, ...others] = judged({ ...change, trial });
    expect(others).toEqual([]);
    expect(line).toContain(`problem store [${dir}] `);
    expect(line).toContain(want);
  });
});

describe('gatherStore', () => {
  const root = mkdtempSync(join(tmpdir(), 'rangeway-doctor-store-'));
  afterAll(() => rmSync(root, { recursive: true }));
  const elapsed = monotonicClock.now;

  it('tries an existing directory, counts what is there, and leaves nothing behind', async () => {
    const store = join(root, 'store');
    await mkdir(join(store, 'blocks'), { recursive: true });
    await writeFile(join(store, 'blocks', 'a'), Buffer.alloc(100_000));
    await symlink('/', join(store, 'link'));
    const facts = await gatherStore(store, elapsed);
    expect(facts).toMatchObject({ dir: store, triedIn: store, isInUse: false, trial: { kind: 'ok' } });
    expect(facts.usedBytes).toBeGreaterThanOrEqual(100_000);
    expect(facts.usedBytes).toBeLessThan(1_000_000);
    expect(facts.totalBytes).toBeGreaterThan(facts.freeBytes);
    if (process.platform === 'linux') expect(facts.fileSystem?.type).toMatch(/^\w/);
    expect(await readdir(store)).toEqual(['blocks', 'link']);
  });

  it('tries the nearest parent of a directory that does not exist', async () => {
    const facts = await gatherStore(join(root, 'a', 'b', 'c'), elapsed);
    expect(facts).toMatchObject({ triedIn: root, mode: undefined, usedBytes: 0, trial: { kind: 'ok' } });
    expect(await readdir(root)).not.toContain('a');
  });

  it('says that a path is a file', async () => {
    const file = join(root, 'file');
    await writeFile(file, '');
    const { trial } = await gatherStore(join(file), elapsed);
    expect(trial).toMatchObject({ kind: 'failed', step: 'create', code: 'ENOTDIR' });
  });

  it('sees the lock of a running server', async () => {
    const store = join(root, 'open');
    const lock = await lockDirectory(store);
    expect(await gatherStore(store, elapsed)).toMatchObject({ isInUse: true, trial: { kind: 'ok' } });
    lock.release();
    expect(await gatherStore(store, elapsed)).toMatchObject({ isInUse: false });
  });

  it('says that nothing can be created', async () => {
    const facts = await gatherStore('/proc/rangeway', elapsed);
    expect(facts).toMatchObject({ triedIn: '/proc', trial: { kind: 'failed', step: 'create' } });
  });

  it('gives up counting after two seconds', async () => {
    let now = 0;
    const store = join(root, 'store');
    expect((await gatherStore(store, () => (now += 1500))).usedBytes).toBeUndefined();
  });
});

describe('findMount', () => {
  const table = [
    '22 27 0:21 / /proc rw,relatime - proc proc rw',
    '27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw',
    '30 27 0:40 / /srv/my\\040files rw - nfs4 server:/files rw',
    '31 27 0:41 / /srv rw - xfs /dev/vdb rw',
    '32 27 0:42 / /srv rw master:2 - tmpfs tmpfs rw',
    '',
  ].join('\n');

  it.each<[path: string, type: string, mountPoint: string]>([
    ['/var/cache', 'ext4', '/'],
    ['/', 'ext4', '/'],
    ['/srv', 'tmpfs', '/srv'],
    ['/srv/x', 'tmpfs', '/srv'],
    ['/srvx', 'ext4', '/'],
    ['/srv/my files/x', 'nfs4', '/srv/my files'],
  ])('%s', (path, type, mountPoint) => expect(findMount(table, path)).toEqual({ type, mountPoint }));

  it('of an empty table', () => expect(findMount('', '/')).toBeUndefined());
});
