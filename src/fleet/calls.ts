/** What a supervisor and its workers ask of each other. Arguments and results survive structured cloning. */

import type { LogLevel, StoreOperations, WorkerOperations } from '../admin/operations.ts';
import type { News } from '../cache/fleet.ts';
import type { PassedSocket } from '../listener/passed-sockets.ts';
import type { Handle } from './channel.ts';

/** A configuration as it was written, and where: each process checks it by itself. */
export interface ConfigSource {
  readonly value: unknown;
  /** Relative paths in it are taken from here. */
  readonly directory: string;
}

/** What a worker begins with. */
export interface WorkerStart {
  /** Its number from 1 on; who takes the place of a dead one has the same. */
  readonly id: number;
  /** Names this process among all that there were; of letters and digits. */
  readonly instance: string;
  /** How many workers there are, itself included. */
  readonly workers: number;
  readonly config: ConfigSource;
  /** The directory of the sockets by which workers reach each other; only the user that runs them can enter it. */
  readonly peersDir: string;
  /** Whether no other process has the store open yet. */
  readonly isFirst: boolean;
  /** Processes that died with the store open, whose traces in it are to be removed. */
  readonly fallen: readonly string[];
  /** Our name in Via, the same in all workers. */
  readonly pseudonym: string;
  /** What the service manager has passed to the supervisor: the names of what `takeSocket` brings. */
  readonly passed: readonly PassedSocket[];
  /** What its log keeps, whatever the configuration says: somebody may have changed it since. */
  readonly logLevel: LogLevel;
}

/** What a supervisor asks of a worker. */
export interface WorkerCalls extends StoreOperations, WorkerOperations {
  /** Opens everything; resolves with the addresses that it serves. */
  start(options: WorkerStart): Promise<{ readonly addresses: readonly string[] }>;
  /**
   * Takes a socket; comes before the `start` or `prepareReload` that needs it. `name` is the place's among all of a
   * configuration. A place may have several sockets, one for each worker: those of others are taken while they are away.
   */
  takeSocket(name: string, slot: number, socket?: Handle): void;
  /** Takes no more connections of a socket that its own worker takes again. */
  leaveSocket(name: string, slot: number): void;
  /** Answers at once, as long as the event loop turns. */
  beat(): void;
  /** Makes everything ready for another configuration, which is not used yet. Rejects where it cannot be used. */
  prepareReload(config: ConfigSource): Promise<void>;
  /** Goes on with what was prepared. */
  commitReload(): Promise<readonly string[]>;
  /** Gives up what was prepared. */
  abandonReload(): Promise<void>;
  /** Learns what another process has changed. */
  heed(news: News): Promise<void>;
  /** Ends after what is under way, or `graceMs` later; resolves when nothing is left. */
  stop(graceMs: number): Promise<void>;
}

/** Who has a lease: the one who asked, or another one and where it is reached. */
export type LeaseReply =
  | { readonly kind: 'ours' }
  | { readonly kind: 'theirs'; readonly instance: string; readonly socket: string };

/** What a worker asks of its supervisor. */
export interface SupervisorCalls {
  /** Asks for a lease. `lost` names a process that had it and could not be reached: it is waited for whether it has died. */
  acquireLease(key: string, lost?: string): Promise<LeaseReply>;
  releaseLease(key: string): void;
  /** While all stop: has no client any more. Resolves when no other worker has, for they may be reading from this one. */
  drained(): Promise<void>;
  /** Tells all other workers; resolves when each that lives has heeded it. */
  tell(news: News): Promise<void>;
}
