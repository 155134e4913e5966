/** How long the fault tests go on, and with which random numbers: as the environment says. */

const { RANGEWAY_FAULT_ROUNDS: askedRounds = 50, RANGEWAY_FAULT_SEED: askedSeed = 20_260_101 } = process.env;

/** How many times the server is killed; other faults are done in proportion. RANGEWAY_FAULT_ROUNDS=1000 is a soak. */
export const faultRounds = Number(askedRounds);

/** What the random numbers begin with: RANGEWAY_FAULT_SEED. */
export const faultSeed = Number(askedSeed);

if (!(faultRounds >= 1) || !Number.isSafeInteger(faultSeed)) {
  throw new Error(`RANGEWAY_FAULT_ROUNDS=${askedRounds} RANGEWAY_FAULT_SEED=${askedSeed}: whole numbers are wanted`);
}
