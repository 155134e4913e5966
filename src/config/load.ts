/**
 * Reads a configuration from a file or a value. The result is a `Config`, or all problems of it; an error in the JSON has its
 * line and column.
 */

import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { describeIssues, type Problem } from './problems.ts';
import { type AdminConfig, type Config, configSchema, type ListenerConfig, type RouteConfig } from './schema.ts';
import type { SecretSource } from './values.ts';

/** Everything that is wrong, at once. */
interface InvalidConfig {
  readonly kind: 'invalid';
  readonly problems: readonly Problem[];
}

/** A configuration to use, or what is wrong with it. */
export type LoadedConfig = { readonly kind: 'ok'; readonly config: Config } | InvalidConfig;

/** The value that a file holds, or why it holds none. */
export type ConfigText = { readonly kind: 'ok'; readonly value: unknown } | InvalidConfig;

/** Reads and checks a file. Never throws; a file that cannot be read is a problem like others. */
export async function loadConfig(file: string): Promise<LoadedConfig> {
  const text = await readConfig(file);
  return text.kind === 'ok' ? checkConfig(text.value, dirname(file)) : text;
}

/** Reads a file as JSON, not checked yet. Never throws. */
export async function readConfig(file: string): Promise<ConfigText> {
  try {
    return parseConfigText(await readFile(file, 'utf8'));
  } catch (error) {
    return invalid(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The value of a JSON text, or its first fault with line and column. A byte order mark at its start is skipped. */
export function parseConfigText(text: string): ConfigText {
  const json = text.replace(/^\uFEFF/, '');
  const fault = findJsonFault(json);
  if (fault !== undefined) return invalid(`line ${fault.line}, column ${fault.column}: ${fault.message}`);
  return { kind: 'ok', value: JSON.parse(json) };
}

/** Checks a value and fills in the defaults. Relative paths in it are taken from `directory`. */
export function checkConfig(value: unknown, directory: string): LoadedConfig {
  // Only what the schema itself says is a message; the words for all else are those of `describeIssues`.
  const result = configSchema.safeParse(value, { reportInput: true, error: () => '' });
  if (!result.success) return { kind: 'invalid', problems: describeIssues(result.error.issues) };
  return { kind: 'ok', config: withAbsolutePaths(result.data, directory) };
}

function invalid(message: string): InvalidConfig {
  return { kind: 'invalid', problems: [{ path: '', message }] };
}

function withAbsolutePaths(config: Config, directory: string): Config {
  const { store, listen, admin, routes } = config;
  return {
    ...config,
    listen: listen.map((listener) => listenerIn(directory, listener)),
    admin: typeof admin === 'object' ? adminIn(directory, admin) : admin,
    store: store.type === 'disk' && store.dir !== undefined ? { ...store, dir: resolve(directory, store.dir) } : store,
    routes: routes.map((route) => routeIn(directory, route)),
  };
}

function listenerIn(directory: string, listener: ListenerConfig): ListenerConfig {
  const { address, tls } = listener;
  return {
    ...listener,
    address: address.kind === 'unix' ? { ...address, path: resolve(directory, address.path) } : address,
    tls:
      tls === undefined
        ? undefined
        : { ...tls, certificates: tls.certificates.map((pair) => withPaths(directory, pair, ['certFile', 'keyFile'])) },
  };
}

function adminIn(directory: string, { listen, token, ...rest }: AdminConfig): AdminConfig {
  return {
    ...rest,
    listen: listen.kind === 'unix' ? { ...listen, path: resolve(directory, listen.path) } : listen,
    token: secretIn(directory, token),
  };
}

function routeIn(directory: string, route: RouteConfig): RouteConfig {
  const { origin, access, fields, errorPages } = route;
  const { setSecret } = fields.toOrigin;
  return {
    ...route,
    origin: withPaths(directory, origin, ['caFile', 'certFile', 'keyFile']),
    access: {
      ...access,
      basic: secretIn(directory, access.basic),
      bearer: secretIn(directory, access.bearer),
      apiKey: secretIn(directory, access.apiKey),
      signedUrls: secretIn(directory, access.signedUrls),
    },
    fields: {
      ...fields,
      toOrigin: { ...fields.toOrigin, setSecret: mapValues(setSecret, (source) => secretIn(directory, source)) },
    },
    errorPages: mapValues(errorPages, (path) => resolve(directory, path)),
  };
}

function secretIn<S extends SecretSource | undefined>(directory: string, source: S): S {
  return source?.kind === 'file' ? { ...source, name: resolve(directory, source.name) } : source;
}

/** A copy in which the paths of these names that are there are absolute. */
function withPaths<T extends object>(directory: string, value: T, names: readonly (keyof T)[]): T {
  const copy = { ...value };
  for (const name of names) {
    const path: unknown = copy[name];
    if (typeof path === 'string') Object.assign(copy, { [name]: resolve(directory, path) });
  }
  return copy;
}

function mapValues<T, R>(record: Readonly<Record<string, T>>, change: (value: T) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}

/** The first fault of a text. */
interface JsonFault {
  /** Counted from 1. */
  readonly line: number;
  /** Counted from 1, in UTF-16 code units. */
  readonly column: number;
  readonly message: string;
}

const maxDepth = 100;
const whiteSpace = /[ \t\r\n]*/y;
// Control characters must be escaped within a text (RFC 8259 §7).
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what the grammar excludes
const textPattern = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const wordPattern = /(?:true|false|null)(?![\w$])/y;

/**
 * The first fault of a text as JSON (RFC 8259), or undefined when there is none. Stricter than `JSON.parse` in one thing:
 * a name that an object has twice, of which `JSON.parse` drops the first without a word, is a fault; and nesting has a limit.
 */
export function findJsonFault(text: string): JsonFault | undefined {
  const scanner = new JsonScanner(text);
  try {
    scanner.scanDocument();
    return undefined;
  } catch (thrown) {
    if (!(thrown instanceof FaultFound)) throw thrown;
    const before = text.slice(0, thrown.at).split('\n');
    return { line: before.length, column: (before.at(-1) ?? '').length + 1, message: thrown.message };
  }
}

class FaultFound extends Error {
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

/** Walks through a text by the grammar; throws `FaultFound` where it is left. */
class JsonScanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  scanDocument(): void {
    this.#scanValue(0);
    this.#skipWhiteSpace();
    if (this.#at < this.#text.length) this.#fail('expected nothing more');
  }

  #scanValue(depth: number): void {
    this.#skipWhiteSpace();
    if (depth > maxDepth) this.#fail('nested too deeply');
    if (this.#take('{')) this.#scanObject(depth);
    else if (this.#take('[')) this.#scanList(depth);
    else if (this.#peek() === '"') this.#scanText();
    else if (this.#match(numberPattern) === undefined && this.#match(wordPattern) === undefined) {
      this.#fail('expected a value');
    }
  }

  #scanObject(depth: number): void {
    const names = new Set<string>();
    for (let more = this.#hasFirst('}'); more; more = this.#hasNext('}')) {
      if (this.#peek() !== '"') this.#fail('expected a name in double quotes');
      const start = this.#at;
      const name = this.#scanText();
      if (names.has(name)) throw new FaultFound(start, `"${name}" is given twice`);
      names.add(name);
      this.#skipWhiteSpace();
      if (!this.#take(':')) this.#fail('expected ":"');
      this.#scanValue(depth + 1);
    }
  }

  #scanList(depth: number): void {
    for (let more = this.#hasFirst(']'); more; more = this.#hasNext(']')) this.#scanValue(depth + 1);
  }

  /** Whether there is a first member before the closing bracket, which is taken if not. */
  #hasFirst(close: string): boolean {
    this.#skipWhiteSpace();
    return !this.#take(close);
  }

  /** Whether there is another member behind a comma; takes the closing bracket if not. */
  #hasNext(close: string): boolean {
    this.#skipWhiteSpace();
    if (this.#take(close)) return false;
    if (!this.#take(',')) this.#fail(`expected "," or "${close}"`);
    this.#skipWhiteSpace();
    if (this.#peek() === close) this.#fail(`no comma may stand before "${close}"`);
    return true;
  }

  #scanText(): string {
    const text = this.#match(textPattern);
    if (text === undefined)
      this.#fail('expected text that ends on this line, with every "\\" and control character escaped');
    return String(JSON.parse(text));
  }

  #skipWhiteSpace(): void {
    this.#match(whiteSpace);
  }

  #peek(): string | undefined {
    return this.#text[this.#at];
  }

  #take(sign: string): boolean {
    const taken = this.#peek() === sign;
    if (taken) this.#at += 1;
    return taken;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [match] = pattern.exec(this.#text) ?? [];
    this.#at += match?.length ?? 0;
    return match;
  }

  #fail(message: string): never {
    const rest = this.#text.slice(this.#at, this.#at + 2);
    if (rest === '') throw new FaultFound(this.#at, 'the text ends too early');
    if (rest === '//' || rest === '/*') throw new FaultFound(this.#at, 'comments are not part of JSON');
    throw new FaultFound(this.#at, message);
  }
}
