/** All origins of the matrix, and the sets of them that tell something for a kind of client. */

import type { LegacyOrigin } from './origin.ts';
import { liveOrigin } from './origins/live-origin.ts';
import { chunkedOrigin, closingOrigin, cuttingOrigin, flakyOrigin, s3Origin } from './origins/node-origins.ts';
import {
  apacheOrigin,
  caddyOrigin,
  icecastOrigin,
  nginxWithoutRanges,
  nginxWithRanges,
  phpOrigin,
  phpServerOrigin,
  pythonOrigin,
  webdavOrigin,
} from './origins/program-origins.ts';

/** In the order of the table. */
export const origins: readonly LegacyOrigin[] = [
  pythonOrigin,
  chunkedOrigin,
  closingOrigin,
  cuttingOrigin,
  flakyOrigin,
  nginxWithRanges,
  nginxWithoutRanges,
  apacheOrigin,
  phpOrigin,
  s3Origin,
  phpServerOrigin,
  caddyOrigin,
  webdavOrigin,
  icecastOrigin,
  liveOrigin,
];

/** All that have files. */
export const fileOrigins: readonly LegacyOrigin[] = origins.filter((origin) => origin !== liveOrigin);

/** Two without ranges, one of them without length and validator, and one with ranges. */
export const typical: readonly LegacyOrigin[] = [pythonOrigin, chunkedOrigin, nginxWithRanges];

/** The same, the two that lose connections, and a script. */
export const difficult: readonly LegacyOrigin[] = [...typical, cuttingOrigin, flakyOrigin, phpOrigin];
