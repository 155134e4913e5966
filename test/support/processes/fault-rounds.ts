/** The number of rounds of the fault tests and their random seed, from the environment. */

const { RANGEWAY_FAULT_ROUNDS: askedRounds = 50, RANGEWAY_FAULT_SEED: askedSeed = 20_260_101 } = process.env;

/** Number of times that the server is killed; other faults are in proportion. RANGEWAY_FAULT_ROUNDS=1000 is a soak. */
export const faultRounds = Number(askedRounds);

/** The seed of the random numbers: RANGEWAY_FAULT_SEED. */
export const faultSeed = Number(askedSeed);

if (!(faultRounds >= 1) || !Number.isSafeInteger(faultSeed)) {
  throw new Error(`RANGEWAY_FAULT_ROUNDS=${askedRounds} RANGEWAY_FAULT_SEED=${askedSeed}: expected whole numbers`);
}
