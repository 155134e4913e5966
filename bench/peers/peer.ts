/** What is measured: a caching proxy that can be started in front of an origin. */

/** Where a peer runs. */
export interface PeerPlace {
  readonly originPort: number;
  /** Whether the origin gives parts of files. */
  readonly originHasRanges: boolean;
  /** An empty folder of its own, for its configuration and its cache. */
  readonly dir: string;
  /** The core that it is pinned to. */
  readonly core: number | undefined;
  /** What it may keep in memory of its own, in bytes; enough for every entry where that is not said. */
  readonly memoryBytes: number | undefined;
}

/** A proxy in front of the origin, with an empty cache. */
export interface RunningPeer extends AsyncDisposable {
  readonly port: number;
  /** Its process; with its children it is all of the peer. */
  readonly pid: number;
}

/** A proxy that is installed. */
export interface Peer {
  readonly name: string;
  readonly version: string;
  /** Starts it; resolves once it accepts connections. */
  start(place: PeerPlace): Promise<RunningPeer>;
}

/** A peer, or what has to be installed for it to take part. */
export type FoundPeer =
  | { readonly kind: 'found'; readonly peer: Peer }
  | { readonly kind: 'missing'; readonly name: string; readonly hint: string };

/** The unit in which peers fetch parts of files, in bytes: Rangeway's blocks, nginx's slices. */
export const blockBytes = 256 * 1024;

/** What all peers may keep in their caches at most, so that a long run of misses evicts in all of them, in bytes. */
export const cacheSizeBytes = 4 * 1024 ** 3;
