/** Performs what goes wrong, and what an operator does. */

import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { siteName } from './clients.ts';
import { type Kind, pathOf, type SoakFile, soakFiles, tagsOf } from './content.ts';
import type { Excuses } from './excuses.ts';
import type { Findings } from './findings.ts';
import type { History } from './history.ts';
import type { Load } from './load.ts';
import type { OriginState, SoakOrigins } from './origins.ts';
import { type Disturbance, type DisturbanceKind, describeDisturbance, faultyKinds } from './plan.ts';
import type { SoakServer } from './server.ts';

/** How long faults last, in milliseconds. */
const faultMs = 3000;
const fullDiskMs = 5000;
/** Time between two new versions of a file of any kind, in milliseconds. */
const changeEveryMs = 400;

/** A disturbance that took place, for the plots. */
export interface Mark {
  readonly atMs: number;
  readonly kind: DisturbanceKind;
  readonly text: string;
}

/** The parts that disturbances need. */
export interface DisturbParts {
  readonly server: SoakServer;
  readonly origins: SoakOrigins;
  readonly history: History;
  readonly excuses: Excuses;
  readonly fullDisks: Excuses;
  readonly findings: Findings;
  readonly load: Pick<Load, 'askAround'>;
  /** A directory on the disk of the store, which may be filled; undefined where that disk is not of our own. */
  readonly diskDir: string | undefined;
}

/** Performs a plan. */
export class Disturbances {
  readonly #parts: DisturbParts;
  readonly #startedAt = performance.now();
  readonly marks: Mark[] = [];
  readonly #skipped = new Set<DisturbanceKind>();
  #isOver = false;
  kills = 0;

  constructor(parts: DisturbParts) {
    this.#parts = parts;
  }

  /** The kinds that were planned and could not be performed. */
  get skipped(): readonly DisturbanceKind[] {
    return [...this.#skipped];
  }

  /** Performs everything at its time, one after the other where one takes long; ends early after `stop`. */
  async run(plan: readonly Disturbance[]): Promise<void> {
    const light = plan.filter(({ kind }) => kind.startsWith('purge'));
    const heavy = plan.filter(({ kind }) => !kind.startsWith('purge'));
    const changes = this.#changeFiles();
    await Promise.all([this.#runAll(light), this.#runAll(heavy)]);
    await changes;
  }

  /** Begins no further disturbance. */
  stop(): void {
    this.#isOver = true;
  }

  async #runAll(plan: readonly Disturbance[]): Promise<void> {
    for (const disturbance of plan) {
      const waitMs = disturbance.atSeconds * 1000 - (performance.now() - this.#startedAt);
      await this.#pause(waitMs);
      if (this.#isOver) return;
      if (disturbance.kind === 'full disk' && this.#parts.diskDir === undefined) {
        this.#skipped.add(disturbance.kind);
        continue;
      }
      const atMs = performance.now() - this.#startedAt;
      this.marks.push({ atMs, kind: disturbance.kind, text: describeDisturbance(disturbance) });
      await this.#perform(disturbance);
    }
  }

  /** Waits in small steps, so that an end of the run is noticed. */
  async #pause(ms: number): Promise<void> {
    const until = performance.now() + ms;
    for (let left = ms; !this.#isOver && left > 0; left = until - performance.now()) await delay(Math.min(500, left));
  }

  /** Gives files new versions, one after the other, playlists more often. */
  async #changeFiles(): Promise<void> {
    const { history } = this.#parts;
    const playlists = soakFiles.filter(({ kind }) => kind === 'playlist');
    for (let turn = 0; !this.#isOver; turn += 1) {
      const files = turn % 4 === 0 ? playlists : soakFiles;
      const file = files[(turn * 61) % files.length];
      if (file !== undefined) history.change(pathOf(file), Date.now());
      await this.#pause(changeEveryMs);
    }
  }

  #perform(disturbance: Disturbance): Promise<void> {
    const { kind, file } = disturbance;
    const { server, load } = this.#parts;
    switch (kind) {
      case 'origin cut':
        return this.#cut(file.kind);
      case 'origin reset':
        return this.#failOrigin(file.kind, 'reset');
      case 'origin 5xx':
        return this.#failOrigin(file.kind, '5xx');
      case 'origin hang':
        return this.#failOrigin(file.kind, 'hang');
      case 'reload by signal':
        return this.#reload(async () => void process.kill(server.pid, 'SIGHUP'));
      case 'reload by API':
        return this.#reload(async () => {
          const { status, text } = await server.admin('POST', '/api/v1/reload');
          // 503 while a worker that was killed is replaced.
          if (status !== 204 && status !== 503) this.#parts.findings.add('operations', `reload: ${status} ${text}`);
        });
      case 'full disk':
        return this.#fillDisk();
      case 'kill':
        return this.#kill();
      case 'purge URL':
      case 'purge URL softly': {
        const url = `http://${siteName}${pathOf(file)}`;
        return load.askAround('keep', file, () => this.#purge(disturbance, { url }, (each) => each === file));
      }
      case 'purge prefix': {
        const prefix = `/${file.kind}/${file.freshSeconds}/`;
        const url = `http://${siteName}${prefix}`;
        const isBelow = (each: SoakFile): boolean => pathOf(each).startsWith(prefix);
        return load.askAround('keep', file, () => this.#purge(disturbance, { prefix: url }, isBelow));
      }
      case 'purge tag': {
        const [, tag = ''] = tagsOf(file);
        const isTagged = (each: SoakFile): boolean => tagsOf(each).includes(tag);
        return load.askAround('keep', file, () => this.#purge(disturbance, { tag }, isTagged));
      }
    }
  }

  async #cut(kind: Kind): Promise<void> {
    if (!faultyKinds.includes(kind)) return;
    this.#parts.excuses.begin(kind, Date.now())(Date.now());
    this.#parts.origins.of.get(kind)?.cutAll();
  }

  async #failOrigin(kind: Kind, state: OriginState): Promise<void> {
    const origin = this.#parts.origins.of.get(kind);
    if (origin === undefined || !faultyKinds.includes(kind)) return;
    const end = this.#parts.excuses.begin(kind, Date.now());
    origin.become(state);
    await this.#pause(faultMs);
    origin.become('well');
    end(Date.now());
  }

  async #reload(request: () => Promise<void>): Promise<void> {
    await this.#parts.server.rewriteConfig();
    await request();
  }

  async #kill(): Promise<void> {
    const { server, excuses } = this.#parts;
    const workers = await server.workers();
    const victim = workers[this.kills % Math.max(1, workers.length)];
    if (victim === undefined || workers.length < 2) return;
    const end = excuses.begin(undefined, Date.now());
    process.kill(victim, 'SIGKILL');
    this.kills += 1;
    await this.#pause(faultMs);
    end(Date.now());
  }

  /**
   * Writes a file until the disk has no byte left, and removes it after a while. The store may free room in the meantime: so smaller
   * pieces are written only until one larger piece is full.
   */
  async #fillDisk(): Promise<void> {
    const path = join(this.#parts.diskDir ?? '', 'filler');
    const end = this.#parts.fullDisks.begin(undefined, Date.now());
    const file = await open(path, 'w');
    try {
      const piece = Buffer.alloc(1024 * 1024);
      for (const [pieceBytes, most] of [
        [piece.length, 1024],
        [4096, 256],
        [1, 4096],
      ] as const) {
        for (let count = 0; count < most && (await isWritten(file, piece.subarray(0, pieceBytes))); count += 1);
      }
      await this.#pause(fullDiskMs);
    } finally {
      await file.close();
      await rm(path);
      end(Date.now());
    }
  }

  async #purge(disturbance: Disturbance, selector: object, isSelected: (file: SoakFile) => boolean): Promise<void> {
    const { server, history, findings, excuses } = this.#parts;
    const { kind } = disturbance;
    const isSoft = kind === 'purge URL softly';
    // New content, so that a response from before the purge can be told from one after it.
    history.change(pathOf(disturbance.file), Date.now());
    const before = soakFiles.filter(isSelected).map((file) => [file, history.currentOf(pathOf(file))] as const);
    const askedAt = Date.now();
    const { status, text } = await server.admin('POST', '/api/v1/purge', {
      ...selector,
      ...(isSoft ? { mode: 'soft' } : {}),
    });
    if (status === 200) {
      // A response that is only expired may still be used where its origin fails, so nothing certain follows for it.
      if (!isSoft) for (const [file, version] of before) history.removeBefore(pathOf(file), version);
    } else if (status !== 503 || !excuses.explain(undefined, askedAt, Date.now())) {
      findings.add('operations', `${kind} ${JSON.stringify(selector)}: ${status} ${text}`);
    }
  }
}

async function isWritten(file: FileHandle, piece: Buffer): Promise<boolean> {
  try {
    const { bytesWritten } = await file.write(piece);
    return bytesWritten === piece.length;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOSPC') return false;
    throw error;
  }
}
