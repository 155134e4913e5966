/**
 * Reads a configuration from a file or a value. The result is a `Config` or all its problems; an error in the JSON has a line
 * and a column. Files are JSON with comments (`JsonScanner`).
 */

import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { describeIssues, type Problem } from './problems.ts';
import {
  type AdminConfig,
  type Config,
  configSchema,
  type ListenerConfig,
  type RouteConfig,
  type StoreConfig,
} from './schema.ts';
import type { SecretSource } from './secret-source.ts';

/** All problems of a configuration. */
interface InvalidConfig {
  readonly kind: 'invalid';
  readonly problems: readonly Problem[];
}

/** A checked configuration, or its problems. */
export type LoadedConfig = { readonly kind: 'ok'; readonly config: Config } | InvalidConfig;

/** The JSON value of a file, or why it cannot be read. */
export type ConfigText = { readonly kind: 'ok'; readonly value: unknown } | InvalidConfig;

/** Reads and checks a file. Never throws; an unreadable file is a problem like others. */
export async function loadConfig(file: string): Promise<LoadedConfig> {
  const text = await readConfig(file);
  return text.kind === 'ok' ? checkConfig(text.value, dirname(file)) : text;
}

/** Reads a file as JSON without checking its options. Never throws. */
export async function readConfig(file: string): Promise<ConfigText> {
  try {
    return parseConfigText(await readFile(file, 'utf8'));
  } catch (error) {
    return invalid(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/**
 * Parses a JSON text, which may have comments (`JsonScanner`). A fault is reported with its line and column. A byte order mark at
 * the start is skipped.
 */
export function parseConfigText(text: string): ConfigText {
  const scanned = scanJson(text.replace(/^\uFEFF/, ''));
  if (scanned.kind === 'ok') return { kind: 'ok', value: JSON.parse(scanned.json) };
  const { line, column, message } = scanned.fault;
  return invalid(`line ${line}, column ${column}: ${message}`);
}

/** Checks a value and fills in the defaults. Relative paths in it are resolved against `directory`. */
export function checkConfig(value: unknown, directory: string): LoadedConfig {
  // Only messages of our schema are kept. `describeIssues` writes the others.
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
    store: storeIn(directory, store),
    routes: routes.map((route) => routeIn(directory, route)),
  };
}

function storeIn(directory: string, store: StoreConfig): StoreConfig {
  if (store.type === 'disk') return withPaths(directory, store, ['dir']);
  if (store.type === 'memory') return store;
  const { password, sentinelPassword, local, ...rest } = store;
  return {
    ...withPaths(directory, { ...rest, password, sentinelPassword }, ['caFile', 'certFile', 'keyFile']),
    local: local && withPaths(directory, local, ['dir']),
    password: secretIn(directory, password),
    sentinelPassword: secretIn(directory, sentinelPassword),
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
    origin: withPaths(directory, { ...origin, signing: signingIn(directory, origin.signing) }, [
      'caFile',
      'certFile',
      'keyFile',
    ]),
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

function signingIn(directory: string, signing: RouteConfig['origin']['signing']): RouteConfig['origin']['signing'] {
  if (signing === undefined) return undefined;
  const { accessKeyId, secretAccessKey, sessionToken } = signing;
  return {
    ...signing,
    accessKeyId: secretIn(directory, accessKeyId),
    secretAccessKey: secretIn(directory, secretAccessKey),
    sessionToken: secretIn(directory, sessionToken),
  };
}

function secretIn<S extends SecretSource | undefined>(directory: string, source: S): S {
  return source?.kind === 'file' ? { ...source, name: resolve(directory, source.name) } : source;
}

/** Returns a copy in which the paths under these names are absolute; absent ones stay absent. */
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
/** White space of JSON, and comments: to the end of the line, and between the marks of C. */
const ignored = /(?:[ \t\r\n]+|\/\/[^\r\n]*|\/\*[\s\S]*?\*\/)*/y;
// Control characters must be escaped within a string (RFC 8259 §7).
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what the grammar excludes
const textPattern = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const wordPattern = /(?:true|false|null)(?![\w$])/y;

/** Returns the first fault of a text; undefined where there is none. See `JsonScanner` for what is accepted. */
export function findJsonFault(text: string): JsonFault | undefined {
  const scanned = scanJson(text);
  return scanned.kind === 'fault' ? scanned.fault : undefined;
}

/** A text without what JSON does not know, or its first fault. */
type ScannedJson =
  | { readonly kind: 'ok'; readonly json: string }
  | { readonly kind: 'fault'; readonly fault: JsonFault };

function scanJson(text: string): ScannedJson {
  const scanner = new JsonScanner(text);
  try {
    return { kind: 'ok', json: scanner.scanDocument() };
  } catch (thrown) {
    if (!(thrown instanceof FaultFound)) throw thrown;
    const before = text.slice(0, thrown.at).split('\n');
    const fault = { line: before.length, column: (before.at(-1) ?? '').length + 1, message: thrown.message };
    return { kind: 'fault', fault };
  }
}

class FaultFound extends Error {
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}

/**
 * Walks through a text by the grammar of JSON (RFC 8259); throws `FaultFound` where the text breaks it. Comments are accepted, and
 * so is a comma before a closing bracket, because lines are commented out and in. It is stricter than `JSON.parse` in two ways: a
 * duplicate name in an object is a fault (`JSON.parse` silently drops the first), and nesting has a limit.
 */
class JsonScanner {
  readonly #text: string;
  #at = 0;
  /** What JSON does not have: comments, and commas before closing brackets. */
  readonly #extras: { readonly start: number; readonly end: number }[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the text as JSON. */
  scanDocument(): string {
    this.#scanValue(0);
    this.#skipIgnored();
    if (this.#at < this.#text.length) this.#fail('expected nothing more');
    return this.#withoutExtras();
  }

  /** Returns the text with a space in place of each extra. */
  #withoutExtras(): string {
    let json = '';
    let keptTo = 0;
    for (const { start, end } of this.#extras.toSorted((one, other) => one.start - other.start)) {
      json += `${this.#text.slice(keptTo, start)} `;
      keptTo = end;
    }
    return json + this.#text.slice(keptTo);
  }

  #scanValue(depth: number): void {
    this.#skipIgnored();
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
      this.#skipIgnored();
      if (!this.#take(':')) this.#fail('expected ":"');
      this.#scanValue(depth + 1);
    }
  }

  #scanList(depth: number): void {
    for (let more = this.#hasFirst(']'); more; more = this.#hasNext(']')) this.#scanValue(depth + 1);
  }

  /** Checks whether there is a first member; consumes the closing bracket if not. */
  #hasFirst(close: string): boolean {
    this.#skipIgnored();
    return !this.#take(close);
  }

  /** Checks whether there is another member behind a comma; consumes the closing bracket if not. */
  #hasNext(close: string): boolean {
    this.#skipIgnored();
    if (this.#take(close)) return false;
    const comma = this.#at;
    if (!this.#take(',')) this.#fail(`expected "," or "${close}"`);
    this.#skipIgnored();
    if (!this.#take(close)) return true;
    this.#extras.push({ start: comma, end: comma + 1 });
    return false;
  }

  #scanText(): string {
    const text = this.#match(textPattern);
    if (text === undefined)
      this.#fail('expected text that ends on this line, with every "\\" and control character escaped');
    return String(JSON.parse(text));
  }

  /** Skips white space and comments. */
  #skipIgnored(): void {
    const start = this.#at;
    if (this.#match(ignored)?.includes('/') === true) this.#extras.push({ start, end: this.#at });
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
    if (rest === '/*') throw new FaultFound(this.#at, 'the comment does not end: expected "*/"');
    throw new FaultFound(this.#at, message);
  }
}
