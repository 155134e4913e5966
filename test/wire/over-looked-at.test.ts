/** Runs HTTP/1 suites on a cleartext listener that looks for the preface of HTTP/2 first. */

import { describe } from 'vitest';
import { declareHttp1Suites, suitesOfFirstBytes } from '../support/proxies/http1-suites.ts';
import { carryBy } from '../support/proxies/open-listener.ts';

carryBy('looked');

describe('where HTTP/2 is looked for', () => declareHttp1Suites(suitesOfFirstBytes));
