/** What the matrix of clients and origins needs to know of an origin. */

/** A started origin, which serves the files of a directory. */
export interface StartedOrigin extends AsyncDisposable {
  /** A port of this machine, or the path of a Unix socket. */
  readonly target: { readonly host: string; readonly port: number } | { readonly path: string };
  /** Returns the target of the request for a path below the directory, which begins with `/`. */
  targetOf(path: string): string;
}

/** An origin of the matrix. */
export interface LegacyOrigin {
  /** The name in the table. */
  readonly name: string;
  /** Programs that it needs. */
  readonly programs: readonly string[];
  readonly habit: {
    readonly hasRanges: boolean;
    /** Whether it sends strong validators, which a date is too if it is old enough. Then Rangeway asks it for ranges, and ends transfers that are not read on. */
    readonly isStrong: boolean;
    /** How often the origin has to send a file at most, for one download of it. */
    readonly transfers: number;
  };
  /** Starts it before a directory. `work` is an empty directory for its own files. */
  start(dir: string, work: string): Promise<StartedOrigin>;
}
