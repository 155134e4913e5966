/** A program that holds the lock of a store's directory until it is killed: `lock-holder.ts DIR owner|member|store`. */

import { openDiskStore } from '../../../src/store/disk/disk-store.ts';
import { joinDirectory, lockDirectory } from '../../../src/store/disk/index/directory-lock.ts';

const [dir = '', how = ''] = process.argv.slice(2);
if (how === 'owner') await lockDirectory(dir);
else if (how === 'member') joinDirectory(dir);
else {
  await openDiskStore({
    dir,
    maxSizeBytes: 1024 * 1024,
    blockSizeBytes: 16 * 1024,
    now: Date.now,
    randomId: () => 'never',
    emit: () => {},
  });
}
process.stdout.write('ready\n');
setInterval(() => {}, 60_000);
