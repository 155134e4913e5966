/**
 * Follows a page of docs/recipes as a reader does: writes its files, starts its servers, runs its commands and compares their output
 * with the page. Only ports and paths are replaced, at one place: `replaced`.
 */

import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve, sep } from 'node:path';
import { expect } from 'vitest';
import { until } from '../clocks/until.ts';
import { type ProgramResult, runProgram } from '../processes/programs.ts';
import { projectDirectory, type RangewayProcess, startLine } from '../processes/rangeway-process.ts';
import { type Block, type FileBlock, isShown, outputLines, readBlocks, type ShownCommand } from './page.ts';

/** The folder of the pages. */
export const recipesDirectory = join(projectDirectory, 'docs/recipes');

/** What a test changes on a page, and what the reader of the page has already. */
export interface RecipeOptions {
  /** The ports of the page. Each becomes a free port, everywhere on the page. */
  readonly ports: readonly number[];
  /** Other texts that cannot be used as they are, such as absolute paths, and what takes their place. `DIR` becomes the work directory. */
  readonly texts?: Readonly<Record<string, string>>;
  /**
   * The commands in `sh` blocks that keep running, by how they begin on the page, and the output by which each shows that it is
   * ready. `rangeway --config` is known.
   */
  readonly servers?: Readonly<Record<string, RegExp>>;
  /** Makes what the reader has before the first step, in the work directory. */
  readonly given?: (dir: string) => Promise<void>;
  /** Changes to the environment of all commands. */
  readonly environment?: Readonly<Record<string, string>>;
}

const knownServers = { 'rangeway --config': /ready on/ };

/** A page that is being followed. Disposing ends its servers and removes its directory. */
export class Recipe implements AsyncDisposable {
  /** The work directory. Relative paths on the page are relative to it. */
  readonly dir: string;
  readonly #blocks: readonly Block[];
  readonly #options: RecipeOptions;
  readonly #replacements: ReadonlyMap<string, string>;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #servers = new Map<string, RangewayProcess>();
  readonly #followed = new Set<Block>();

  private constructor(
    dir: string,
    blocks: readonly Block[],
    options: RecipeOptions,
    replacements: ReadonlyMap<string, string>,
  ) {
    this.dir = dir;
    this.#blocks = blocks;
    this.#options = options;
    this.#replacements = replacements;
    const path = [join(dir, '.bin'), dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter);
    this.#environment = {
      ...process.env,
      PATH: path,
      LC_ALL: 'C.UTF-8',
      XDG_CACHE_HOME: join(dir, '.cache'),
      XDG_CONFIG_HOME: join(dir, '.config'),
      XDG_DATA_HOME: join(dir, '.data'),
      npm_config_cache: join(dir, '.npm'),
      npm_config_update_notifier: 'false',
      ...options.environment,
    };
  }

  /** Reads a page, such as `video.md`, and prepares its work directory. Throws where it does not have a text to be replaced. */
  static async open(name: string, options: RecipeOptions): Promise<Recipe> {
    const page = await readFile(join(recipesDirectory, name), 'utf8');
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-recipe-'));
    try {
      const replacements = new Map<string, string>();
      for (const port of options.ports) replacements.set(String(port), String(await unusedPort()));
      for (const [text, other] of Object.entries(options.texts ?? {})) {
        replacements.set(text, other.replaceAll('DIR', dir));
      }
      for (const text of replacements.keys()) expect(page, `docs/recipes/${name}`).toContain(text);
      const recipe = new Recipe(dir, readBlocks(page), options, replacements);
      // The command that the pages call: this checkout.
      await mkdir(join(dir, '.bin'));
      const command = `#!/bin/sh\nexec '${process.execPath}' '${join(projectDirectory, 'bin/rangeway.js')}' "$@"\n`;
      await writeFile(join(dir, '.bin/rangeway'), command);
      await chmod(join(dir, '.bin/rangeway'), 0o755);
      await options.given?.(dir);
      return recipe;
    } catch (error) {
      await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }

  /**
   * Follows all blocks of the page in order, or those of one section. Rejects where a command fails, or its output is not the one
   * that the page shows.
   */
  async follow(section?: string): Promise<void> {
    const blocks = this.#blocks.filter((block) => section === undefined || block.section === section);
    expect(blocks, `the blocks of ${section}`).not.toEqual([]);
    for (const block of blocks) {
      this.#followed.add(block);
      if (block.kind === 'file') await this.#write(block);
      else if (block.kind === 'shell') for (const command of block.commands) await this.#runOrStart(command);
      else for (const command of block.commands) await this.#compare(command);
    }
  }

  /** The sections of which a block was not followed yet. */
  get left(): readonly string[] {
    return [...new Set(this.#blocks.filter((block) => !this.#followed.has(block)).map(({ section }) => section))];
  }

  /** Returns the free port that stands for a port of the page. */
  port(number: number): number {
    return Number(this.replaced(String(number)));
  }

  /** Returns a text with the ports and paths of this machine. Everything that a page has goes through this. */
  replaced(text: string): string {
    return [...this.#replacements].reduce((changed, [from, to]) => {
      const isPort = /^\d+$/.test(from);
      return isPort
        ? changed.replaceAll(new RegExp(`(?<![\\d.])${from}(?!\\d)`, 'g'), to)
        : changed.replaceAll(from, to);
    }, text);
  }

  /** Returns the running server whose command begins like this on the page. Throws where there is none. */
  server(command: string): RangewayProcess {
    const [, found] = [...this.#servers].find(([line]) => line.startsWith(command)) ?? [];
    if (found === undefined) throw new Error(`The page has not started: ${command}`);
    return found;
  }

  /** Runs a shell command in the work directory, with the environment of the page. Resolves with any exit code. */
  run(command: string): Promise<ProgramResult> {
    return runProgram('sh', ['-c', this.replaced(command)], this.dir, undefined, this.#environment);
  }

  async #write({ name, text }: FileBlock): Promise<void> {
    const path = resolve(this.dir, this.replaced(name));
    if (!path.startsWith(this.dir + sep))
      throw new Error(`${name} is outside of the work directory: name it in \`texts\``);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, this.replaced(text));
  }

  async #runOrStart(command: string): Promise<void> {
    const servers = { ...knownServers, ...this.#options.servers };
    const [, ready] = Object.entries(servers).find(([start]) => command.startsWith(start)) ?? [];
    if (ready === undefined) {
      const { code, stdout, stderr } = await this.run(command);
      expect(code, `${command}\n${stdout}${stderr}`).toBe(0);
      return;
    }
    // A second start of a server takes the place of the first, as after Ctrl-C.
    await this.#servers.get(command)?.stop('SIGINT');
    const server = startLine(`exec ${this.replaced(command)}`, this.#environment, this.dir);
    this.#servers.set(command, server);
    await server.waitFor(ready);
  }

  /**
   * Runs a command, and compares its output. What Rangeway does after a response takes less time than a reader needs to type the
   * next command, but more than a test needs. So a command is repeated if the page shows a hit, or if it asks Rangeway for its state.
   */
  async #compare({ command, shown }: ShownCommand): Promise<void> {
    const expected = shown.map((line) => this.replaced(line));
    const isRepeatable = command.startsWith('rangeway ') || shown.some((line) => /\bhit\b/.test(line));
    let output = '';
    const isAsShown = async () => {
      const { code, stdout, stderr } = await this.run(`{ ${command}\n} 2>&1`);
      output = stdout.toString() + stderr;
      if (expected.length === 0) expect(code, `${command}\n${output}`).toBe(0);
      return isShown(expected, output);
    };
    if (await isAsShown()) return;
    const what = `the output of ${command}`;
    if (isRepeatable) await until(what, isAsShown).catch(() => {});
    if (!isShown(expected, output)) expect(outputLines(output), what).toEqual(expected);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [...this.#servers.values()].toReversed()) await server[Symbol.asyncDispose]();
    await rm(this.dir, { recursive: true, force: true });
  }
}

const givenPorts = new Set<number>();

/** Returns a free port that no program gets by asking for any port: a server of the page takes it some time later. */
async function unusedPort(): Promise<number> {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 22_000);
    if (givenPorts.has(port)) continue;
    const server = createServer();
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    } catch {
      continue;
    }
    await once(server.close(), 'close');
    givenPorts.add(port);
    return port;
  }
}
