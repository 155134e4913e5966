/** `rangeway init`: asks a few questions, asks the origin what it can do, and writes a commented configuration file. */

import { existsSync } from 'node:fs';
import { mkdir, open, statfs } from 'node:fs/promises';
import { basename, dirname, join, relative, resolve, sep } from 'node:path';
import { parseListenPlace } from '../../config/address.ts';
import { checkConfig, parseConfigText } from '../../config/load.ts';
import { openSocket } from '../../listener/accept/bind.ts';
import { gatherMachine } from '../doctor/gather-machine.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { formatProbed, probePlace, readProbedPlace } from '../probe/probe.ts';
import { isEngineUrl, resolveConfig, type ServeFlags, withStoreDirectory } from '../serve-config.ts';
import { optionSize, replaceTerminalControls, sizeText } from '../text-sections.ts';
import { type ChosenConfig, formatConfigText, quoteForShell } from './config-text.ts';
import { type AnswerInput, Dialogue } from './dialogue.ts';

/** The flags of the command. Those that `serve` has too mean the same, and answer a question. */
export interface InitFlags
  extends Pick<
    ServeFlags,
    | 'listen'
    | 'store'
    | 'dir'
    | 'maxSize'
    | 'memory'
    | 'workers'
    | 'admin'
    | 'adminToken'
    | 'originHost'
    | 'insecureTls'
  > {
  readonly origin?: string | undefined;
  /** The path that the origin is asked for. */
  readonly path?: string | undefined;
  /** False with `--no-probe`. */
  readonly probe?: boolean | undefined;
  readonly yes?: boolean | undefined;
  readonly force?: boolean | undefined;
}

/** Where answers come from, and what else the command needs of the process. */
export interface InitParts {
  readonly input: AnswerInput;
  /** Random bytes. */
  readonly random: (size: number) => Buffer;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** The file that is written where none is named. Editors know comments in files with this ending. */
export const defaultConfigFile = 'rangeway.jsonc';

/** The engine of `--store redis`. */
const defaultEngineUrl = 'redis://127.0.0.1:6379';

const isEngine = (store: string | undefined): store is string =>
  store !== undefined && (store === 'redis' || isEngineUrl(store));

/** The command ends early: its reason was printed. */
class Ended extends Error {
  readonly code: number;

  constructor(code: number) {
    super('ended');
    this.code = code;
  }
}

/** Writes a configuration; resolves with the exit code. Nothing is written before every question is answered. */
export async function init(file: string | undefined, flags: InitFlags, io: CliIo, parts: InitParts): Promise<number> {
  const path = file ?? defaultConfigFile;
  if (existsSync(path) && flags.force !== true) {
    return fail(io, `${path} exists: --force replaces it, or name another file`, exitCode.failed);
  }
  const isTerminal = parts.input.isTTY === true && io.stdout.isTTY === true;
  if (flags.yes !== true && !isTerminal) {
    const reason =
      'there is no terminal, so nothing can be asked: give --yes and --origin URL; other flags answer other questions';
    return fail(io, reason, exitCode.misused);
  }
  if (flags.yes === true && flags.origin === undefined) {
    return fail(io, '--yes takes defaults, and the origin has none: give --origin URL', exitCode.misused);
  }
  using dialogue = new Dialogue(flags.yes === true ? undefined : parts.input, io);
  try {
    return await new Interview(path, flags, io, parts, dialogue).run();
  } catch (error) {
    if (error instanceof Ended) return error.code;
    throw error;
  }
}

/** One run of the command. Each question is settled by its flag, by an answer, or by its default. */
class Interview {
  readonly #path: string;
  readonly #flags: InitFlags;
  readonly #io: CliIo;
  readonly #parts: InitParts;
  readonly #dialogue: Dialogue;
  /** What is settled, as flags of `serve`. */
  #origin = '';
  /** The path that is proposed for a look at the origin. */
  #probedPath = '/';
  #settled: ServeFlags = {};

  constructor(path: string, flags: InitFlags, io: CliIo, parts: InitParts, dialogue: Dialogue) {
    this.#path = path;
    this.#flags = flags;
    this.#io = io;
    this.#parts = parts;
    this.#dialogue = dialogue;
  }

  async run(): Promise<number> {
    const { workers, originHost, insecureTls } = this.#flags;
    // These are not asked for, so another answer could not correct them.
    const fault = await this.#faultOf(anyOrigin, { listen: anyPort, workers, originHost }, '');
    if (fault !== undefined) return fail(this.#io, fault, exitCode.misused);
    this.#settled = { workers, originHost, insecureTls };
    this.#dialogue.say('Enter takes the answer in brackets, Ctrl-C ends without writing anything.\n\n');
    await this.#settleOrigin();
    const probed = this.#flags.probe === false ? noProbe : await this.#probe();
    await this.#settle(
      'listen',
      '--listen',
      'Where do clients connect? [host:]port; 0.0.0.0:PORT is for other machines',
      this.#flags.listen ?? (await this.#freePort()),
    );
    await this.#settleStore();
    const { admin, token } = await this.#settleAdmin();
    const chosen = { ...this.#chosen(admin), ...probed };
    return await this.#write(formatConfigText(chosen), token);
  }

  /** Settles one flag. Asks again as long as the answer cannot be used. */
  async #settle(
    name: keyof ServeFlags & keyof InitFlags,
    flag: string,
    question: string,
    fallback: string,
  ): Promise<void> {
    await this.#settleBy(flag, this.#flags[name] as string | undefined, question, fallback, async (answer) => {
      const fault = await this.#faultOf(this.#origin, { ...this.#settled, [name]: answer }, flag);
      if (fault === undefined) this.#settled = { ...this.#settled, [name]: answer };
      return fault;
    });
  }

  /** Takes `given`, or asks, or takes `fallback`; `take` returns what is wrong with it. */
  async #settleBy(
    flag: string,
    given: string | undefined,
    question: string,
    fallback: string | undefined,
    take: (answer: string) => Promise<string | undefined>,
  ): Promise<void> {
    const isAsked = given === undefined && this.#dialogue.canAsk;
    for (;;) {
      const answer = isAsked ? await this.#ask(question, fallback) : (given ?? fallback ?? '');
      const fault = await take(answer);
      if (fault === undefined) return;
      const reason = fault.startsWith('--') ? fault : `${flag}: ${fault}`;
      if (!isAsked) throw new Ended(fail(this.#io, reason, exitCode.misused));
      this.#dialogue.say(`  ${fault}\n`);
    }
  }

  async #ask(question: string, fallback: string | undefined): Promise<string> {
    const answer = await this.#dialogue.ask(question, fallback);
    if (answer !== undefined) return answer;
    throw new Ended(fail(this.#io, 'nothing was written', exitCode.failed));
  }

  /** Returns what is wrong with a configuration; undefined where nothing is. `flag` is left out of the message. */
  async #faultOf(origin: string, flags: ServeFlags, flag: string): Promise<string | undefined> {
    const resolved = await resolveConfig(origin, flags);
    if (resolved.kind === 'ok') return undefined;
    const texts = resolved.lines.map((line) => line.replace(/^rangeway: /, ''));
    return texts.map((text) => (text.startsWith(`${flag}: `) ? text.slice(flag.length + 2) : text)).join('; ');
  }

  async #settleOrigin(): Promise<void> {
    const question = 'Which server is behind Rangeway? A URL such as http://127.0.0.1:3000';
    await this.#settleBy('--origin', this.#flags.origin, question, undefined, async (answer) => {
      // Its port may be that of the default listener, which is settled later.
      const fault = await this.#faultOf(answer, { ...this.#settled, listen: anyPort }, '<origin>');
      if (fault !== undefined) return fault;
      this.#origin = answer;
      const file = this.#flags.origin === undefined ? splitFileUrl(answer) : undefined;
      if (file !== undefined) {
        this.#origin = file.origin;
        this.#probedPath = file.path;
        this.#dialogue.say(`  that is the URL of a file: the server is ${file.origin}\n`);
      }
      return undefined;
    });
  }

  /** Asks the origin what it can do. Where it does not answer, asks whether to go on. */
  async #probe(): Promise<Pick<ChosenConfig, 'probed' | 'lacksLifetime'>> {
    const question = 'Which path there shall be looked at, to see what it can do? Best a large file';
    let path = this.#probedPath;
    await this.#settleBy('--path', this.#flags.path, question, path, async (answer) => {
      path = answer;
      return readProbedPlace(this.#origin, answer) === undefined ? 'expected a path that begins with "/"' : undefined;
    });
    const place = readProbedPlace(this.#origin, path);
    const outcome =
      place && (await probePlace(place, { insecure: this.#settled.insecureTls }, this.#io, this.#parts.now));
    if (place === undefined || outcome === undefined || outcome.kind === 'invalid') return noProbe;
    if (outcome.kind === 'failed') return await this.#decideOnFailure(outcome.reason, outcome.isCertificateRefused);
    const text = replaceTerminalControls(formatProbed(outcome.findings));
    this.#dialogue.say(`\n${text}\n`);
    const day = new Date(this.#parts.now()).toISOString().slice(0, 10);
    const heading = `What GET ${place.target} showed on ${day}, by rangeway probe:`;
    const lines = [
      replaceTerminalControls(heading),
      ...text
        .trimEnd()
        .split('\n')
        .map((line) => `  ${line}`),
    ];
    const lacksLifetime = outcome.findings.some(({ options = [] }) => options.includes('cache.defaultTtlSeconds'));
    return { probed: lines, lacksLifetime };
  }

  async #decideOnFailure(
    reason: string,
    isCertificateRefused: boolean,
  ): Promise<Pick<ChosenConfig, 'probed' | 'lacksLifetime'>> {
    if (!this.#dialogue.canAsk) {
      this.#io.stderr.write(`rangeway: ${reason}; the file is written all the same\n`);
      return noProbe;
    }
    this.#dialogue.say(`  ${reason}\n`);
    const isSure = 'Accept any certificate from it? Then nothing proves that it is the right server. yes or no';
    if (isCertificateRefused && (await this.#confirm(isSure))) {
      this.#settled = { ...this.#settled, insecureTls: true };
      return await this.#probe();
    }
    if (await this.#confirm('Go on all the same? yes or no')) return noProbe;
    throw new Ended(fail(this.#io, 'nothing was written', exitCode.failed));
  }

  async #confirm(question: string): Promise<boolean> {
    for (;;) {
      const answer = (await this.#ask(question, 'no')).toLowerCase();
      if (/^(?:y|yes)$/.test(answer)) return true;
      if (/^(?:n|no)$/.test(answer)) return false;
    }
  }

  /** Returns the first port from 8080 on that is free, and not the origin's. */
  async #freePort(): Promise<string> {
    for (let port = firstPort; port <= lastPort; port += 1) {
      const place = `127.0.0.1:${port}`;
      const isOrigin = (await this.#faultOf(this.#origin, { listen: place }, '')) !== undefined;
      if (!isOrigin && (await isFree(port))) return place;
    }
    return `127.0.0.1:${firstPort}`;
  }

  async #settleStore(): Promise<void> {
    const { store, dir } = this.#flags;
    const fallback = await this.#defaultDir();
    if (store === undefined && dir === undefined) {
      const question = 'Where are responses stored? A directory, "memory", or the URL of Redis or Valkey';
      await this.#settleBy('--dir', undefined, question, fallback, async (answer) => {
        // No shell has replaced it.
        const path = answer.replace(/^~(?=\/|$)/, this.#io.home);
        const isType = answer === 'memory' || isEngineUrl(answer);
        const given = isType ? { store: answer } : answer === fallback ? {} : { dir: path };
        const fault = await this.#faultOf(this.#origin, { ...this.#settled, ...given }, '--dir');
        if (fault === undefined) this.#settled = { ...this.#settled, ...given };
        return fault;
      });
    } else {
      const fault = await this.#faultOf(this.#origin, { ...this.#settled, store, dir }, '');
      if (fault !== undefined) throw new Ended(fail(this.#io, fault, exitCode.misused));
      this.#settled = { ...this.#settled, store, dir };
    }
    if (this.#settled.store === 'memory') {
      await this.#settle('maxSize', '--max-size', 'How much is stored at most?', '256MB');
      return;
    }
    if (!isEngine(this.#settled.store)) await this.#settleDiskSize(this.#settled.dir ?? fallback);
    const { memoryBytes, memoryLimitBytes = memoryBytes } = gatherMachine(this.#io.env, this.#parts.now);
    const tier = optionSize(Math.min(mostTierBytes, Math.min(memoryBytes, memoryLimitBytes) / 8));
    await this.#settle('memory', '--memory', 'How much memory for what is requested all the time?', tier);
  }

  async #settleDiskSize(dir: string): Promise<void> {
    const freeBytes = await freeBytesAt(resolve(dir));
    const free = freeBytes === undefined ? '' : ` ${sizeText(freeBytes)} are free there`;
    // A fifth stays free for other programs.
    const size = Math.min(mostBytes, (freeBytes ?? mostBytes) * 0.8);
    await this.#settle('maxSize', '--max-size', `How much is stored at most?${free}`, optionSize(size));
  }

  /** The directory that the server uses where none is named. */
  async #defaultDir(): Promise<string> {
    const resolved = await resolveConfig(this.#origin, { listen: this.#settled.listen });
    const config = resolved.kind === 'ok' ? withStoreDirectory(resolved.config, this.#io) : undefined;
    const dir = config?.store.type === 'disk' ? config.store.dir : undefined;
    return dir ?? 'a temporary one';
  }

  /** Settles the admin listener. `token` is the file to make. */
  async #settleAdmin(): Promise<{ readonly admin: ChosenConfig['admin']; readonly token: string | undefined }> {
    let place = 'socket';
    const question =
      'Who may use the API (purge, metrics, reload)? "socket": this user only; "off": no program; [host:]port: also those with a token';
    await this.#settleBy('--admin', this.#flags.admin, question, place, async (answer) => {
      place = answer;
      if (answer === 'socket') return undefined;
      const token = answer === 'off' ? undefined : (this.#flags.adminToken ?? 'env:RANGEWAY_ADMIN_TOKEN');
      return await this.#faultOf(this.#origin, { ...this.#settled, admin: answer, adminToken: token }, '--admin');
    });
    if (place === 'socket' || place === 'off') {
      const { adminToken } = this.#flags;
      if (adminToken !== undefined) {
        throw new Ended(fail(this.#io, '--admin-token is for --admin [host:]port', exitCode.misused));
      }
      return { admin: place, token: undefined };
    }
    const listen = parseListenPlace(place)?.kind === 'unix' ? `unix:${resolve(place.slice('unix:'.length))}` : place;
    // Only the owner can connect to a Unix socket.
    if (listen.startsWith('unix:') && this.#flags.adminToken === undefined)
      return { admin: { listen, token: undefined }, token: undefined };
    return await this.#settleToken(listen);
  }

  async #settleToken(listen: string) {
    const fallback = `file:${join(dirname(this.#path), 'admin-token')}`;
    let token = fallback;
    const question = 'Where is its token? file:PATH, which is made for this user only unless it exists, or env:NAME';
    await this.#settleBy('--admin-token', this.#flags.adminToken, question, fallback, async (answer) => {
      token = answer;
      return await this.#faultOf(
        this.#origin,
        { ...this.#settled, admin: listen, adminToken: answer },
        '--admin-token',
      );
    });
    const path = token.startsWith('file:') ? resolve(token.slice('file:'.length)) : undefined;
    const written = path === undefined ? token : `file:${this.#fromFile(path)}`;
    return { admin: { listen, token: written }, token: path === undefined || existsSync(path) ? undefined : path };
  }

  /** Returns a path as the file has it: relative where it is below the directory of the file. */
  #fromFile(path: string): string {
    const below = relative(dirname(resolve(this.#path)), path);
    return below.startsWith('..') || below === '' ? path : `.${sep}${below}`;
  }

  #chosen(admin: ChosenConfig['admin']): Omit<ChosenConfig, 'probed' | 'lacksLifetime'> {
    const {
      listen = '',
      store,
      dir,
      maxSize = '',
      memory = '',
      workers,
      originHost,
      insecureTls = false,
    } = this.#settled;
    const place = parseListenPlace(listen);
    return {
      file: basename(this.#path),
      origin: this.#origin,
      insecureTls,
      originHost,
      listen: place?.kind === 'unix' ? `unix:${this.#fromFile(resolve(place.path))}` : listen,
      store:
        store === 'memory'
          ? { type: 'memory', maxSize }
          : isEngine(store)
            ? { type: 'redis', url: isEngineUrl(store) ? store : defaultEngineUrl, memory }
            : {
                type: 'disk',
                dir: dir === undefined ? undefined : this.#fromFile(resolve(dir)),
                defaultDir: 'rangeway/<host>-<port> in $XDG_CACHE_HOME or ~/.cache',
                maxSize,
                memory,
              },
      workers: workers === undefined || workers === 'auto' ? workers : Number(workers),
      admin,
    };
  }

  async #write(text: string, token: string | undefined): Promise<number> {
    const parsed = parseConfigText(text);
    const checked = parsed.kind === 'ok' ? checkConfig(parsed.value, dirname(this.#path)) : parsed;
    if (checked.kind === 'invalid') throw new Error(`the new file is not valid: ${JSON.stringify(checked.problems)}`);
    try {
      if (token !== undefined) await writeNew(token, `${this.#parts.random(32).toString('base64url')}\n`, 0o600, 'wx');
      await writeNew(this.#path, text, 0o666, this.#flags.force === true ? 'w' : 'wx');
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return fail(this.#io, `cannot write: ${reason}`, exitCode.failed);
    }
    const file = quoteForShell(this.#path);
    const made = token === undefined ? '' : `Wrote ${token}, which only this user can read.\n`;
    const next = [`rangeway doctor -c ${file}`, `rangeway -c ${file}`].map((line) => `  ${line}\n`).join('');
    this.#io.stdout.write(`${made}Wrote ${this.#path}. Next:\n${next}`);
    return exitCode.done;
  }
}

const noProbe = { probed: [], lacksLifetime: false } as const;

/** Stand for what is not settled yet, where other flags are checked. */
const anyOrigin = 'http://origin.invalid';
const anyPort = '127.0.0.1:0';

const firstPort = 8080;
const lastPort = 8099;

/** The defaults of the options, where the disk and the memory are large enough. */
const mostBytes = 10e9;
const mostTierBytes = 128e6;

/**
 * Splits the URL of a file, which people copy from their browser. As the URL of an origin, its path would be put before every path
 * that clients ask for. Returns undefined for other URLs.
 */
function splitFileUrl(text: string): { readonly origin: string; readonly path: string } | undefined {
  const url = /^https?:/i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.username !== '' || url.password !== '') return undefined;
  return /\.[a-z0-9]{2,5}$/i.test(url.pathname) ? { origin: url.origin, path: url.pathname + url.search } : undefined;
}

async function isFree(port: number): Promise<boolean> {
  try {
    await (await openSocket({ kind: 'tcp', host: '127.0.0.1', port }, 'init')).close();
    return true;
  } catch {
    return false;
  }
}

/** Returns the free bytes of the nearest existing directory; undefined where they cannot be read. */
async function freeBytesAt(path: string): Promise<number | undefined> {
  const disk = await statfs(path).catch(() => undefined);
  if (disk !== undefined) return disk.bavail * disk.bsize;
  return dirname(path) === path ? undefined : await freeBytesAt(dirname(path));
}

async function writeNew(path: string, text: string, mode: number, flags: 'w' | 'wx'): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await using file = await open(path, flags, mode);
  await file.writeFile(text);
}
