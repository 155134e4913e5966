/** A peer: a caching proxy that can be started in front of an origin. */

import type { CoreList } from '../cores.ts';

/** Settings of a workload that differ from the usual ones. */
export interface PeerSettings {
  /**
   * Maximum size of the peer's own memory cache, in bytes; undefined: enough for every entry. nginx has only the page cache,
   * and ignores it.
   */
  readonly memoryBytes?: number;
  /** Whether Rangeway runs with its default options, except for its addresses and directory. */
  readonly isDefault?: boolean;
  /** Whether Rangeway and nginx write a line for each request into a file. */
  readonly isLogged?: boolean;
  /** Number of worker processes; undefined: one. */
  readonly workers?: number;
  /** Whether clients connect over TLS, with HTTP/1.1 or HTTP/2. */
  readonly isSecure?: boolean;
  /** Whether Rangeway and nginx require a bearer token, allow CORS for one origin, and limit the rate of each client. */
  readonly isGuarded?: boolean;
  /** Whether Rangeway sends from memory also what it could send by sendfile. */
  readonly isCopying?: boolean;
  /** Where the engine is in which Rangeway stores, as in `store.url`; undefined: it stores on the disk. */
  readonly engineUrl?: string;
  /** Cores of the peer, if not the usual ones of the proxy. */
  readonly cores?: CoreList;
  /** An earlier run of the peer that is to be continued: with its folder, its cache and its port. */
  readonly again?: RunningPeer;
}

/** Where a peer runs. */
export interface PeerPlace {
  /** Port to listen on, on loopback. */
  readonly port: number;
  readonly originPort: number;
  /** Whether the origin supports ranges. */
  readonly originHasRanges: boolean;
  /** The peer's own folder, for its configuration and its cache; empty unless an earlier run is continued. */
  readonly dir: string;
  /** Cores that the peer is pinned to; undefined: not pinned. */
  readonly cores: CoreList | undefined;
  /** Maximum size of the peer's own memory cache, in bytes. */
  readonly memoryBytes: number;
  readonly isDefault: boolean;
  readonly isLogged: boolean;
  readonly isGuarded: boolean;
  readonly isCopying: boolean;
  readonly engineUrl: string | undefined;
  readonly workers: number;
  /** Certificate and key for TLS; undefined: no TLS. */
  readonly certificate: Certificate | undefined;
}

/** Paths of PEM files. */
export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
}

/** A running proxy in front of the origin. */
export interface RunningPeer extends AsyncDisposable {
  readonly port: number;
  readonly dir: string;
  /** Id of the main process. It and its descendants are the whole peer. */
  readonly pid: number;
}

/** An installed proxy. */
export interface Peer {
  readonly name: string;
  readonly version: string;
  /** Starts the peer, and resolves once it accepts connections. Throws `BenchFault` where it does not start or lacks a feature. */
  start(place: PeerPlace): Promise<RunningPeer>;
  /**
   * Copies the one entry in the folder of a stopped peer until there are `entries` of them; absent where the benchmark cannot
   * do that. `pathOf(0)` is the path of the existing entry, `pathOf(n)` that of copy n. All paths have the same length.
   */
  readonly multiply?: (dir: string, entries: number, pathOf: (number: number) => string) => Promise<void>;
}

/** A peer, or the package to install for it. */
export type FoundPeer =
  | { readonly kind: 'found'; readonly peer: Peer }
  | { readonly kind: 'missing'; readonly name: string; readonly hint: string };

/** Unit in which peers fetch parts of files, in bytes: Rangeway's blocks, nginx's slices. */
export const blockBytes = 256 * 1024;

/** Bearer token and Origin that clients send to a guarded peer. */
export const bearerToken = 'bench-token-of-some-length';
export const pageOrigin = 'https://app.example.org';
/** Allowed requests per second and client: more than any load sends. */
export const guardedRate = 1_000_000;

/** Maximum cache size of all peers, in bytes: a long run of misses evicts in all of them. */
export const cacheSizeBytes = 4 * 1024 ** 3;

/** Memory in bytes that is enough for the entries of every workload, and for what a peer keeps besides their bodies. */
export const ampleMemoryBytes = 2 * 1024 ** 3;
