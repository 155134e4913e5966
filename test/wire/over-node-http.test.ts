/** Runs the HTTP/1 suites on Node's own server: they test HTTP, not habits of our server. */

import { describe } from 'vitest';
import { declareHttp1Suites } from '../support/proxies/http1-suites.ts';
import { carryBy } from '../support/proxies/open-listener.ts';

carryBy('node-http');

describe("on Node's own server", () => declareHttp1Suites());
