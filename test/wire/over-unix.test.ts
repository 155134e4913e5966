/** Runs HTTP/1 suites over a Unix socket. */

import { describe } from 'vitest';
import { declareHttp1Suites, suitesOfEnds } from '../support/proxies/http1-suites.ts';
import { carryBy } from '../support/proxies/open-listener.ts';

carryBy('unix');

describe('over a Unix socket', () => declareHttp1Suites(suitesOfEnds));
