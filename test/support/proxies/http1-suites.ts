/** The test suites of HTTP/1 on the wire, to run over another carrier than plain TCP. */

const suites = {
  closing: () => import('../../wire/closing.test.ts'),
  expect: () => import('../../wire/expect.test.ts'),
  http10: () => import('../../wire/http10.test.ts'),
  interim: () => import('../../wire/interim.test.ts'),
  pipelining: () => import('../../wire/pipelining.test.ts'),
  refusals: () => import('../../wire/refusals.test.ts'),
  'refusals-midway': () => import('../../wire/refusals-midway.test.ts'),
  'request-bodies': () => import('../../wire/request-bodies.test.ts'),
  requests: () => import('../../wire/requests.test.ts'),
  responses: () => import('../../wire/responses.test.ts'),
  streams: () => import('../../wire/streams.test.ts'),
  trailers: () => import('../../wire/trailers.test.ts'),
  tunnel: () => import('../../wire/tunnel.test.ts'),
  'tunnel-answers': () => import('../../wire/tunnel-answers.test.ts'),
};

type Suite = keyof typeof suites;

/** The suites that a carrier can break by the first bytes of a connection alone: everything after them is as over plain TCP. */
export const suitesOfFirstBytes: readonly Suite[] = ['pipelining', 'request-bodies', 'requests', 'tunnel'];

/** The suites in which connections end early. */
export const suitesOfEnds: readonly Suite[] = ['closing', 'refusals-midway', 'streams', 'tunnel'];

/** Declares the tests of these suites, by default of all. Call `carryBy` first. */
export async function declareHttp1Suites(names = Object.keys(suites) as readonly Suite[]): Promise<void> {
  for (const name of names) await suites[name]();
}
