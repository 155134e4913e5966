/** The test suites of HTTP/1 on the wire, to run over another carrier than plain TCP. */

/** Declares the tests of every suite. Call `carryBy` first. */
export async function declareHttp1Suites(): Promise<void> {
  await import('../../wire/closing.test.ts');
  await import('../../wire/expect.test.ts');
  await import('../../wire/http10.test.ts');
  await import('../../wire/interim.test.ts');
  await import('../../wire/pipelining.test.ts');
  await import('../../wire/refusals.test.ts');
  await import('../../wire/refusals-midway.test.ts');
  await import('../../wire/request-bodies.test.ts');
  await import('../../wire/requests.test.ts');
  await import('../../wire/responses.test.ts');
  await import('../../wire/streams.test.ts');
  await import('../../wire/trailers.test.ts');
  await import('../../wire/tunnel.test.ts');
  await import('../../wire/tunnel-answers.test.ts');
}
