/** What is made of bodies that turn out to be damaged, gone, or closed to us. */

import type { Emit } from '../../telemetry/events.ts';
import { Telling } from '../telling.ts';
import type { BlockFileOptions, LostBlock } from './block-file.ts';
import type { DiskIndex } from './disk-index.ts';

/** Those to whom files tell their troubles. `index` is asked for when there is one. */
export function createBodyReports(options: {
  readonly index: () => DiskIndex;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly emit: Emit;
}): Pick<BlockFileOptions, 'onBlockLost' | 'onBodyLost' | 'onBodyClosed' | 'onNotRemoved'> {
  const { index, now, emit } = options;
  const telling = new Telling();
  return {
    /** An entry that lost a block is not complete any more; the block is fetched again. */
    onBlockLost: ({ generation, detail, isDamaged }: LostBlock) => {
      const wasComplete = index().markIncomplete(generation);
      if (!wasComplete && !isDamaged) return;
      const message = 'A stored block was damaged or gone, and is absent from now on.';
      emit({ kind: 'store', level: 'warn', message, detail, count: { damagedBlocks: 1 } });
    },
    onBodyLost: (generation, detail) => index().removeDamaged(generation, detail),
    /** It takes room that nothing counts. */
    onNotRemoved: (path, error) => {
      const message = 'Something in the directory of the store cannot be removed.';
      const detail = `${path}: ${String(error)}`;
      emit({ kind: 'store', level: telling.levelOf('not removed', now()), message, detail });
    },
    /** Nothing is lost: the body stays for the time when it can be opened again. */
    onBodyClosed: (detail) => {
      const message = 'A stored body cannot be opened now; requests for it are passed on.';
      emit({ kind: 'store', level: telling.levelOf('closed', now()), message, detail });
    },
  };
}
