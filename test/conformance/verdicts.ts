/** The verdicts of a suite, their score, and their differences from the expectations. */

/** A cache that fails a required test breaks an RFC. A cache that fails an optimal test could do better. */
export type TestKind = 'required' | 'optimal';

/** The result of one test. */
export interface Verdict {
  readonly id: string;
  readonly kind: TestKind;
  readonly passed: boolean;
  /** The failure in the words of the suite; empty for a test that passed. */
  readonly detail: string;
}

/** A test that is expected to fail, and the clause that is the reason. */
export interface Expectation {
  readonly kind: TestKind;
  readonly reason: string;
  /** The values of `cache.setCookie` with which the test fails; `undefined` where it always fails. */
  readonly onlyWith?: readonly string[];
}

/** The tests that are expected to fail, by id. */
export type Expectations = Readonly<Record<string, Expectation>>;

/** By kind: the number of tests that passed, and of all. */
export type Score = Readonly<Record<TestKind, { readonly passed: number; readonly all: number }>>;

/** Counts the verdicts. */
export function scoreOf(verdicts: readonly Pick<Verdict, 'kind' | 'passed'>[]): Score {
  const count = (kind: TestKind) => {
    const ofKind = verdicts.filter((verdict) => verdict.kind === kind);
    return { passed: ofKind.filter(({ passed }) => passed).length, all: ofKind.length };
  };
  return { required: count('required'), optimal: count('optimal') };
}

/** Adds two scores. */
export function addScores(a: Score, b: Score): Score {
  const add = (kind: TestKind) => ({ passed: a[kind].passed + b[kind].passed, all: a[kind].all + b[kind].all });
  return { required: add('required'), optimal: add('optimal') };
}

/** Formats a score, such as `required 160/160, optimal 101/105`. */
export function formatScore({ required, optimal }: Score): string {
  return `required ${required.passed}/${required.all}, optimal ${optimal.passed}/${optimal.all}`;
}

/**
 * Returns the differences, one line for each test: a failed test that is not listed, and a listed test that passed, is of
 * another kind, or does not exist. The list may only shrink.
 */
export function findDifferences(verdicts: readonly Verdict[], expectations: Expectations): string[] {
  const failed = verdicts
    .filter(({ id, passed }) => !passed && !Object.hasOwn(expectations, id))
    .map(({ id, kind, detail }) => `${kind} ${id} failed: ${detail}`);
  const wronglyListed = Object.entries(expectations).flatMap(([id, { kind }]) => {
    const verdict = verdicts.find((candidate) => candidate.id === id);
    if (verdict === undefined) return [`${id} is listed, and there is no such test`];
    if (verdict.kind !== kind) return [`${id} is listed as ${kind}, and is ${verdict.kind}`];
    return verdict.passed ? [`${kind} ${id} is listed, and was passed: take it from the list`] : [];
  });
  return [...failed, ...wronglyListed];
}
