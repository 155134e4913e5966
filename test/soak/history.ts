/** Which versions a file had when, and so which of them a response may have. Pure: times are passed in, in milliseconds. */

/** The versions of one file. */
interface Versions {
  /** The time at which each version began; the first one began before everything. */
  readonly begunAt: number[];
  /** The lowest version that is still allowed, from the last operation that removed earlier ones. Each scheme is a resource. */
  readonly lowest: Record<Scheme, number>;
}

/** The scheme of a URI: `http` and `https` make two resources of one path, with stored responses of their own. */
export type Scheme = 'http' | 'https';

/** A question about one response. */
export interface Served {
  readonly path: string;
  readonly version: number;
  /** When the request was sent, and when the head of its response was there. */
  readonly askedAt: number;
  readonly answeredAt: number;
  /** The lowest version that was allowed when the request was sent, from `lowestOf`. */
  readonly lowest: number;
  readonly allowedStalenessMs: number;
}

/** The versions of all files. */
export class History {
  readonly #files = new Map<string, Versions>();

  /** Returns the number of the current version; 0 is the first one. */
  currentOf(path: string): number {
    return (this.#files.get(path)?.begunAt.length ?? 1) - 1;
  }

  /** Begins a new version, and returns its number. */
  change(path: string, now: number): number {
    const versions = this.#of(path);
    versions.begunAt.push(now);
    return versions.begunAt.length - 1;
  }

  /** Returns the lowest version that a request sent now may get. */
  lowestOf(path: string, scheme: Scheme): number {
    return this.#files.get(path)?.lowest[scheme] ?? 0;
  }

  /** Notes that everything before a version was removed: requests sent from now on get this version or a later one. */
  removeBefore(path: string, version: number, schemes: readonly Scheme[] = ['http', 'https']): void {
    const { lowest } = this.#of(path);
    for (const scheme of schemes) lowest[scheme] = Math.max(lowest[scheme], version);
  }

  /** Returns what is wrong with the version of a response, as a sentence; undefined where it may be served. */
  faultOf({ path, version, askedAt, answeredAt, lowest, allowedStalenessMs }: Served): string | undefined {
    const begunAt = this.#files.get(path)?.begunAt ?? [Number.NEGATIVE_INFINITY];
    const from = begunAt[version];
    if (from === undefined || from > answeredAt) return `version ${version} did not exist yet`;
    if (version < lowest) return `version ${version} was removed before the request; ${lowest} is the lowest allowed`;
    const until = begunAt[version + 1] ?? Number.POSITIVE_INFINITY;
    const staleMs = askedAt - until;
    if (staleMs <= allowedStalenessMs) return undefined;
    return `version ${version} was replaced ${Math.round(staleMs)} ms before the request; ${allowedStalenessMs} ms are allowed`;
  }

  #of(path: string): Versions {
    const known = this.#files.get(path);
    if (known !== undefined) return known;
    const versions: Versions = { begunAt: [Number.NEGATIVE_INFINITY], lowest: { http: 0, https: 0 } };
    this.#files.set(path, versions);
    return versions;
  }
}
