/** All targets of fuzzing. */

import type { Target } from './target.ts';
import { cachingTargets } from './targets/caching.ts';
import { configTargets } from './targets/config.ts';
import { credentialTargets } from './targets/credentials.ts';
import { diskTargets } from './targets/disk.ts';
import { forwardingTargets } from './targets/forwarding.ts';
import { http1Targets } from './targets/http1.ts';
import { http2Targets } from './targets/http2.ts';
import { rangeTargets } from './targets/ranges.ts';
import { requestTargets } from './targets/requests.ts';

export const targets: readonly Target[] = [
  ...rangeTargets,
  ...cachingTargets,
  ...forwardingTargets,
  ...requestTargets,
  ...http1Targets,
  ...http2Targets,
  ...credentialTargets,
  ...configTargets,
  ...diskTargets,
];
