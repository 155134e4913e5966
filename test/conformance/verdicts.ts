/** What of a suite was passed, and how that differs from what is expected. */

/** A required test is one that a cache breaks the RFCs by failing; an optimal one that it could do better by passing. */
export type TestKind = 'required' | 'optimal';

/** What became of one test. */
export interface Verdict {
  readonly id: string;
  readonly kind: TestKind;
  readonly passed: boolean;
  /** Why not, in the words of the suite. */
  readonly detail: string;
}

/** A test that is not to be passed, and the clause that says so. */
export interface Expectation {
  readonly kind: TestKind;
  readonly reason: string;
  /** The values of `cache.setCookie` with which it is not passed; absent where it never is. */
  readonly onlyWith?: readonly string[];
}

/** The tests that are not to be passed, by their names. */
export type Expectations = Readonly<Record<string, Expectation>>;

/** How many tests of a kind were passed, of how many. */
export type Score = Readonly<Record<TestKind, { readonly passed: number; readonly all: number }>>;

/** Counts the verdicts. */
export function scoreOf(verdicts: readonly Pick<Verdict, 'kind' | 'passed'>[]): Score {
  const count = (kind: TestKind) => {
    const ofKind = verdicts.filter((verdict) => verdict.kind === kind);
    return { passed: ofKind.filter(({ passed }) => passed).length, all: ofKind.length };
  };
  return { required: count('required'), optimal: count('optimal') };
}

/** The sum of two scores. */
export function addScores(a: Score, b: Score): Score {
  const add = (kind: TestKind) => ({ passed: a[kind].passed + b[kind].passed, all: a[kind].all + b[kind].all });
  return { required: add('required'), optimal: add('optimal') };
}

/** Such as `required 160/160, optimal 101/105`. */
export function formatScore({ required, optimal }: Score): string {
  return `required ${required.passed}/${required.all}, optimal ${optimal.passed}/${optimal.all}`;
}

/**
 * All that is not as expected, one line for each test: what failed and is not listed, and what is listed but was passed,
 * is of another kind, or is no test at all. The list may only shrink.
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
