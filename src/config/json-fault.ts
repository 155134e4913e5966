/** Finds what keeps a text from being JSON, and where: for messages to people. */

/** The first fault of a text. */
export interface JsonFault {
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
