/**
 * What clients of several machines may get: of each path the oldest version that a request may be answered with, once a purge or an
 * unsafe request was acknowledged. Keeps a log, so that a failure can be read.
 */

/** A violation, and what happened before it. */
export interface Verdict {
  readonly what: string;
  readonly before: readonly string[];
}

/** Number of lines of the log that a verdict has. */
const SHOWN_LINES = 60;

/** The history of a run. */
export class FleetHistory {
  readonly verdicts: Verdict[] = [];
  /** `cutOff`: responses that ended early while their version was replaced. */
  readonly counts = { reads: 0, purges: 0, refusedPurges: 0, changes: 0, pendingChanges: 0, cutOff: 0, faults: 0 };
  readonly #floors = new Map<string, number>();
  readonly #log: string[] = [];
  readonly #now: () => number;

  /** `now` returns milliseconds since the start. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Adds a line to the log. */
  note(line: string): void {
    this.#log.push(`${(this.#now() / 1000).toFixed(3)} ${line}`);
  }

  /** Returns the oldest version that a request that begins now may get. */
  floorOf(path: string): number {
    return this.#floors.get(path) ?? 0;
  }

  /** From now on no request may get a version before this one. */
  raise(path: string, version: number, by: string): void {
    this.note(`${by}: ${path} is at least version ${version}`);
    this.#floors.set(path, Math.max(version, this.floorOf(path)));
  }

  /** Judges an answer: `floor` is what `floorOf` returned when its request began, `newest` the version of the origin when it ended. */
  judge(node: string, path: string, version: number, floor: number, newest: number): void {
    this.counts.reads += 1;
    if (version < floor) this.fail(`${node} answered ${path} with version ${version}, older than ${floor}`);
    if (version > newest) this.fail(`${node} answered ${path} with version ${version}, which there is not`);
  }

  /** Notes a violation. */
  fail(what: string): void {
    this.note(`VIOLATION: ${what}`);
    this.verdicts.push({ what, before: this.#log.slice(-SHOWN_LINES) });
  }
}
