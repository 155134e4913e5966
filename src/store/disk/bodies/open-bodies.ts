/**
 * The body files that readers and writers have open: one for each generation, so that all of them know the same of it. Also the
 * work that runs in the background until the store is closed.
 */

import type { BlockFile } from './block-file.ts';

interface OpenBody {
  readonly file: Promise<BlockFile>;
  /** The file, once it is open. */
  opened: BlockFile | undefined;
  users: number;
  /** Whether it was wanted by a reader, so that the next one may be near. */
  wasRead: boolean;
  /** Whether it was used since the idle ones were looked through. */
  isRecent: boolean;
  /** Whether it is spared once when an idle one has to go: it was used since it took its place among them. */
  isSpared: boolean;
  /** Whether its generation is there no more: nobody opens it anew. */
  isUnneeded: boolean;
}

/** What open files are shared with. */
interface OpenBodiesOptions {
  readonly open: (generation: string, sizeBytes: number, blockChecksum?: number) => Promise<BlockFile>;
  readonly background: BackgroundTasks;
  /** How files stay open for readers to come when nobody uses them any more; they do not without it. */
  readonly idle?: IdleBodies | undefined;
}

/** Which files stay open though nobody uses them. */
interface IdleBodies {
  /** At most so many; at least one. */
  readonly maxCount: number;
  /** Waits without keeping the process alive; gives what ends the wait. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
}

/**
 * Idle files are looked through every so many milliseconds, and those closed that were not used meanwhile: a file that was
 * deleted by hand gives its room back within twice this time. A player that pauses between two ranges finds its file open: to
 * open it anew takes turns of the thread pool, in which requests pile up.
 */
const idleMs = 10_000;

/** Shares open files by reference count. */
export class OpenBodies {
  readonly #options: OpenBodiesOptions;
  readonly #bodies = new Map<string, OpenBody>();
  /** Those that nobody uses now. Of those that are not spared, the first has not been used for longest. */
  readonly #idle = new Set<string>();
  #areAllClosed = false;
  /** Ends the wait for looking through them. */
  #stopWaiting: (() => void) | undefined;
  /** Those that are being closed: what they still tell their sidecars comes before they are opened again. */
  readonly #closing = new Map<string, Promise<void>>();

  constructor(options: OpenBodiesOptions) {
    this.#options = options;
  }

  /**
   * The file of a generation, opened or shared; each `acquire` that resolves wants one `release`. `blockChecksum` is that of
   * a body that is one block without a sidecar.
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

  /** The file of a generation that is open already, to be used in the same tick only; counts as its use. */
  peek(generation: string): BlockFile | undefined {
    const body = this.#bodies.get(generation);
    if (body === undefined) return undefined;
    body.isRecent = true;
    // It keeps its place until one has to go, for a Set begins a new table whenever it loses its only member.
    body.isSpared = true;
    return body.opened;
  }

  /** Shares the file of a new generation, which whoever created it has acquired thereby. */
  share(file: BlockFile): void {
    const body = this.#add(file.generation, Promise.resolve(file));
    body.opened = file;
    body.users = 1;
  }

  /** Gives a file back. The last one closes it, or leaves it open for readers to come. */
  release(generation: string): void {
    const body = this.#bodies.get(generation);
    if (body === undefined) return;
    body.users -= 1;
    if (body.users > 0) return;
    // What was written and is short is read as a whole when it is wanted, if ever; it would push out what is long.
    if (!body.isUnneeded && (body.wasRead || body.opened?.isLong === true)) this.#rest(generation, body);
    else this.#close(generation, body);
  }

  /** No reader will come for a generation: its file, which takes room on the disk, is closed as soon as nobody uses it. */
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

  /** Closes all files, whoever has them. What is opened from then on is closed as soon as nobody uses it. */
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

  /** Leaves a file open, and closes the one that has been left for longest, where there are too many. */
  #rest(generation: string, body: OpenBody): void {
    const { idle } = this.#options;
    if (idle === undefined || this.#areAllClosed) {
      this.#close(generation, body);
      return;
    }
    body.isRecent = true;
    body.isSpared = false;
    this.#idle.add(generation);
    this.#stopWaiting ??= idle.after(idleMs, () => this.#closeUnused(idle));
    if (this.#idle.size > idle.maxCount) this.#closeOldest(generation);
  }

  /** Closes an idle file that has not been used for long, and is not the newest of them. */
  #closeOldest(newest: string): void {
    // One that is spared is put last, and met once more if all are.
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

  /** Closes the idle files that nobody has used since they were looked through. */
  #closeUnused(idle: IdleBodies): void {
    for (const generation of [...this.#idle]) {
      const body = this.#bodies.get(generation);
      if (body?.isRecent === false) this.#close(generation, body);
      else if (body !== undefined) body.isRecent = false;
    }
    this.#stopWaiting = this.#idle.size === 0 ? undefined : idle.after(idleMs, () => this.#closeUnused(idle));
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

/** Knows what is going on in the background. */
export class BackgroundTasks {
  readonly #running = new Set<Promise<void>>();

  /** Lets a task go on. Its failure is nobody's: what must be told of it, it tells itself. */
  add(task: Promise<unknown>): void {
    const running: Promise<void> = task
      .then(
        () => {},
        () => {},
      )
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Resolves when nothing goes on any more, what began meanwhile included. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
