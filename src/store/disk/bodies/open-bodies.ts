/**
 * The body files that readers and writers have open: one per generation, so that all of them share what is known of it. Also the
 * background work that runs until the store is closed.
 */

import type { BlockFile } from './block-file.ts';

interface OpenBody {
  readonly file: Promise<BlockFile>;
  /** The file, once it is open. */
  opened: BlockFile | undefined;
  users: number;
  /** Whether it was acquired, and not only created: the next reader may come soon. */
  wasRead: boolean;
  /** Whether it was used since the last check of the idle files. */
  isRecent: boolean;
  /** Whether it is spared once when an idle file must be closed, because it was used since it became idle. */
  isSpared: boolean;
  /** Whether it is no longer needed, because no reader opens it again. */
  isUnneeded: boolean;
}

/** Options of the open bodies. */
interface OpenBodiesOptions {
  readonly open: (generation: string, sizeBytes: number, blockChecksum?: number) => Promise<BlockFile>;
  readonly background: BackgroundTasks;
  /** How files without users stay open for later readers; without it they are closed at once. */
  readonly idle?: IdleBodies | undefined;
}

/** Which files stay open without users. */
interface IdleBodies {
  /** Maximum number of files; at least one. */
  readonly maxCount: number;
  /** Calls `callback` after a delay, without keeping the process alive; returns a function that cancels it. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
  /**
   * Interval between two checks, in milliseconds. A file that was not used since the last check is closed, so that the room of a
   * file that is deleted by hand is soon free. A player that pauses between two ranges finds its file open: to open it again
   * takes the thread pool, and requests pile up meanwhile.
   */
  readonly idleMs: number;
}

/** Shares open files by reference count. */
export class OpenBodies {
  readonly #options: OpenBodiesOptions;
  readonly #bodies = new Map<string, OpenBody>();
  /** The generations whose files have no users. Among those that are not spared, the first has been unused for longest. */
  readonly #idle = new Set<string>();
  #areAllClosed = false;
  /** Cancels the next check of the idle files. */
  #stopWaiting: (() => void) | undefined;
  /** The files that are being closed. A file is opened again only after the updates of its sidecar. */
  readonly #closing = new Map<string, Promise<void>>();

  constructor(options: OpenBodiesOptions) {
    this.#options = options;
  }

  /**
   * Returns the file of a generation, opened or shared. Each `acquire` that resolves needs one `release`. `blockChecksum` is that
   * of a body of one block without a sidecar.
   */
  async acquire(generation: string, sizeBytes: number, blockChecksum?: number): Promise<BlockFile> {
    const open = () => this.#openClosed(generation, sizeBytes, blockChecksum);
    const body = this.#bodies.get(generation) ?? this.#add(generation, open());
    body.users += 1;
    body.wasRead = true;
    this.#idle.delete(generation);
    try {
      body.opened = await body.file;
      return body.opened;
    } catch (error) {
      if (this.#bodies.get(generation) === body) this.#bodies.delete(generation);
      throw error;
    }
  }

  /** Returns the file of a generation if it is already open, for use in the same tick only. Counts as its use. */
  peek(generation: string): BlockFile | undefined {
    const body = this.#bodies.get(generation);
    if (body === undefined) return undefined;
    body.isRecent = true;
    // The generation keeps its place in `#idle` until a file must be closed, because a Set begins a new table whenever it loses
    // its only member.
    body.isSpared = true;
    return body.opened;
  }

  /** Shares the file of a new generation, which counts as acquired by its creator. */
  share(file: BlockFile): void {
    const body = this.#add(file.generation, Promise.resolve(file));
    body.opened = file;
    body.users = 1;
  }

  /** Releases a file. The last release closes it, or leaves it open for later readers. */
  release(generation: string): void {
    const body = this.#bodies.get(generation);
    if (body === undefined) return;
    body.users -= 1;
    if (body.users > 0) return;
    // A short body that was only written is read as a whole later, if ever. Keeping it open would push out long bodies.
    if (!body.isUnneeded && (body.wasRead || body.opened?.isLong === true)) this.#keepIdle(generation, body);
    else this.#close(generation, body);
  }

  /** Closes the file of a generation, which takes room on the disk, as soon as it has no users: no reader will open it again. */
  forget(generation: string): void {
    const body = this.#bodies.get(generation);
    if (body === undefined) return;
    body.isUnneeded = true;
    if (this.#idle.has(generation)) this.#close(generation, body);
  }

  /** As `forget`, for all generations. */
  forgetAll(): void {
    for (const generation of this.#bodies.keys()) this.forget(generation);
  }

  /** Closes all files, even those in use. Files that are opened from then on are closed as soon as they have no users. */
  closeAll(): void {
    this.#areAllClosed = true;
    this.#stopWaiting?.();
    for (const [generation, body] of this.#bodies) this.#close(generation, body);
  }

  #add(generation: string, file: Promise<BlockFile>): OpenBody {
    const body: OpenBody = {
      file,
      opened: undefined,
      users: 0,
      wasRead: false,
      isRecent: true,
      isSpared: false,
      isUnneeded: false,
    };
    this.#bodies.set(generation, body);
    return body;
  }

  /** Leaves a file open, and closes the longest idle one where there are too many. */
  #keepIdle(generation: string, body: OpenBody): void {
    const { idle } = this.#options;
    if (idle === undefined || this.#areAllClosed) {
      this.#close(generation, body);
      return;
    }
    body.isRecent = true;
    body.isSpared = false;
    this.#idle.add(generation);
    this.#stopWaiting ??= idle.after(idle.idleMs, () => this.#closeUnused(idle));
    if (this.#idle.size > idle.maxCount) this.#closeOldest(generation);
  }

  /** Closes an idle file that was not used for long, and is not the newest of them. */
  #closeOldest(newest: string): void {
    // A spared file moves to the end, and is reached again if all are spared.
    for (const generation of this.#idle) {
      const body = this.#bodies.get(generation);
      if (body === undefined || generation === newest) continue;
      if (!body.isSpared) {
        this.#close(generation, body);
        return;
      }
      body.isSpared = false;
      this.#idle.delete(generation);
      this.#idle.add(generation);
    }
  }

  /** Closes the idle files that were not used since the last check. */
  #closeUnused(idle: IdleBodies): void {
    for (const generation of [...this.#idle]) {
      const body = this.#bodies.get(generation);
      if (body?.isRecent === false) this.#close(generation, body);
      else if (body !== undefined) body.isRecent = false;
    }
    this.#stopWaiting = this.#idle.size === 0 ? undefined : idle.after(idle.idleMs, () => this.#closeUnused(idle));
  }

  async #openClosed(...[generation, ...body]: Parameters<OpenBodiesOptions['open']>): Promise<BlockFile> {
    await this.#closing.get(generation);
    return await this.#options.open(generation, ...body);
  }

  #close(generation: string, body: OpenBody): void {
    this.#bodies.delete(generation);
    this.#idle.delete(generation);
    const closing = body.file
      .then((file) => file.close())
      .finally(() => {
        if (this.#closing.get(generation) === closing) this.#closing.delete(generation);
      });
    this.#closing.set(generation, closing);
    this.#options.background.add(closing);
  }
}

/** Tracks the work in the background. */
export class BackgroundTasks {
  readonly #running = new Set<Promise<void>>();

  /** Adds a running task. Its rejection is ignored: a task reports its failures itself. */
  add(task: Promise<unknown>): void {
    const running: Promise<void> = task
      .then(
        () => {},
        () => {},
      )
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Resolves when no task runs any more, including tasks that were added meanwhile. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
