/** Sets the seed of all random tests to RANGEWAY_TEST_SEED, so that a run can be repeated. Without it, each run has its own. */

const { RANGEWAY_TEST_SEED: seed } = process.env;
if (seed !== undefined) {
  const { configureGlobal, readConfigureGlobal } = await import('fast-check');
  configureGlobal({ ...readConfigureGlobal(), seed: Number(seed) });
}
