/** Runs HTTP/1 suites after a header of the PROXY protocol. */

import { describe } from 'vitest';
import { declareHttp1Suites, suitesOfFirstBytes } from '../support/proxies/http1-suites.ts';
import { carryBy } from '../support/proxies/open-listener.ts';

carryBy('proxy-protocol');

describe('after the PROXY protocol', () => declareHttp1Suites(suitesOfFirstBytes));
