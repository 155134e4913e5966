/** What is measured: a caching proxy that can be started in front of an origin. */

import type { CoreList } from '../cores.ts';

/** How a peer is to run, where a workload wants something else than usual. */
export interface PeerSettings {
  /**
   * What it may keep in memory of its own, in bytes, where it is to read from the disk; enough for every entry where that is
   * not said. nginx has the page cache alone.
   */
  readonly memoryBytes?: number;
  /** Whether it runs with the options that it has where nothing is said, but for its addresses. */
  readonly isDefault?: boolean;
  /** Whether it writes a line for each request into a file. */
  readonly isLogged?: boolean;
  /** Processes, or threads, that serve; one where that is not said. */
  readonly workers?: number;
  /** Whether it speaks TLS, with HTTP/2, to its clients. */
  readonly isSecure?: boolean;
  /** Whether it asks for a bearer token, has CORS for one origin, and limits the rate of each client. */
  readonly isGuarded?: boolean;
  /** The cores that it runs on, where those are not the proxy's usual ones. */
  readonly cores?: CoreList;
  /** One that has run, which it is to be once more: with its folder, and what is kept there, and its port. */
  readonly again?: RunningPeer;
}

/** Where a peer runs. */
export interface PeerPlace {
  /** Where it is to listen, on loopback. */
  readonly port: number;
  readonly originPort: number;
  /** Whether the origin gives parts of files. */
  readonly originHasRanges: boolean;
  /** A folder of its own, for its configuration and its cache; empty unless it is told to go on with what is there. */
  readonly dir: string;
  /** The cores that it is pinned to. */
  readonly cores: CoreList | undefined;
  /** What it may keep in memory of its own, in bytes. */
  readonly memoryBytes: number;
  readonly isDefault: boolean;
  readonly isLogged: boolean;
  readonly isGuarded: boolean;
  readonly workers: number;
  /** Its certificate and key, as PEM files, where it speaks TLS. */
  readonly certificate: Certificate | undefined;
}

/** Paths of PEM files. */
export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
}

/** A proxy in front of the origin. */
export interface RunningPeer extends AsyncDisposable {
  readonly port: number;
  readonly dir: string;
  /** Its process; with its children it is all of the peer. */
  readonly pid: number;
}

/** A proxy that is installed. */
export interface Peer {
  readonly name: string;
  readonly version: string;
  /** Starts it; resolves once it accepts connections. Throws `BenchFault` where it does not, or cannot do what it is to. */
  start(place: PeerPlace): Promise<RunningPeer>;
  /**
   * Makes the one entry that it has kept in its folder, while it does not run, many; absent where nobody knows how.
   * `pathOf` gives the path of each of them, as long as the one that is there.
   */
  readonly multiply?: (dir: string, entries: number, pathOf: (number: number) => string) => Promise<void>;
}

/** A peer, or what has to be installed for it to take part. */
export type FoundPeer =
  | { readonly kind: 'found'; readonly peer: Peer }
  | { readonly kind: 'missing'; readonly name: string; readonly hint: string };

/** The unit in which peers fetch parts of files, in bytes: Rangeway's blocks, nginx's slices. */
export const blockBytes = 256 * 1024;

/** What clients of a guarded peer send. */
export const bearerToken = 'bench-token-of-some-length';
export const pageOrigin = 'https://app.example.org';
/** What each client may send in a second: no load is stopped by it. */
export const guardedRate = 1_000_000;

/** What all peers may keep in their caches at most, so that a long run of misses evicts in all of them, in bytes. */
export const cacheSizeBytes = 4 * 1024 ** 3;

/** Memory that holds the entry of every workload that is to be read from there, in bytes, with what is kept of it besides. */
export const ampleMemoryBytes = 2 * 1024 ** 3;
