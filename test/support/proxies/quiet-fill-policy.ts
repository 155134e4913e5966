/** A fill policy under which fills fetch only the bytes that requests ask for. */

import type { FillPolicy } from '../../../src/cache/inquiry.ts';

export const quietFillPolicy: FillPolicy = {
  onAbort: 'finish',
  finishMaxLeftBytes: Number.POSITIVE_INFINITY,
  finishMaxSizeBytes: Number.POSITIVE_INFINITY,
  finishMaxPerClient: Number.POSITIVE_INFINITY,
  complete: 'never',
  openRanges: 'whole',
  headLength: 'origin',
  seekAheadBytes: 2048,
  seekAheadMs: 0,
  returnMs: 0,
  resumeAttempts: 0,
  parallel: undefined,
};
