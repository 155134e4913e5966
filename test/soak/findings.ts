/** What broke a rule during the run, by rule, and what was counted. */

/** The rules that each answer must keep, as sentences of a report. */
export const answerRules = {
  bytes: 'every byte is that of one version of its file',
  version:
    'every response is a version that was current within its allowed staleness, and not removed before the request',
  status: 'every status is one that the request allows',
  whole: 'no response breaks off without a fault that explains it',
  hostile: 'no hostile head is answered as a request',
  operations: 'every reload and purge succeeds',
} as const;

/** The name of a rule. */
export type AnswerRule = keyof typeof answerRules;

/** Examples that a report shows of one rule. */
const mostExamples = 20;

/** The breaches so far. */
export class Findings {
  readonly #counts = new Map<AnswerRule, number>();
  readonly #examples = new Map<AnswerRule, string[]>();

  /** Notes that a rule was broken, with a sentence that says how, and prints it. */
  add(rule: AnswerRule, sentence: string): void {
    this.#counts.set(rule, this.countOf(rule) + 1);
    const examples = this.#examples.get(rule) ?? [];
    const dated = `${new Date().toISOString()} ${sentence}`;
    if (examples.length < mostExamples) {
      examples.push(dated);
      console.log(`${rule}: ${sentence.slice(0, 600)}`);
    }
    this.#examples.set(rule, examples);
  }

  /** The number of all breaches. */
  get total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Returns how often a rule was broken. */
  countOf(rule: AnswerRule): number {
    return this.#counts.get(rule) ?? 0;
  }

  /** Returns the first sentences about a rule. */
  examplesOf(rule: AnswerRule): readonly string[] {
    return this.#examples.get(rule) ?? [];
  }
}
