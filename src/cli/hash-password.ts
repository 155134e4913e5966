/** `rangeway hash-password`: turns a password, typed without echo or piped in, into the line for "access.basic". */

import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { hasControlCharacter, parseNamedSecrets } from '../guard/access/authorization.ts';
import { formatPasswordHash, saltBytes } from '../guard/access/passwords.ts';
import { type CliIo, exitCode, fail } from './io.ts';
import { printableJson } from './text-sections.ts';

/** The input and the randomness of the command. */
interface HashingParts {
  readonly input: PasswordInput;
  /** Random bytes. */
  readonly random: (size: number) => Uint8Array;
  /** Whether the name and the hash are printed as JSON. */
  readonly json?: boolean | undefined;
}

/** In characters; clients could not send a longer one. */
const maxPasswordLength = 1024;

/** Prints `name:hash`, or only the hash where there is no name; resolves with the exit code. */
export async function hashPassword(name: string | undefined, io: CliIo, parts: HashingParts): Promise<number> {
  const fault = name === undefined ? undefined : faultOfName(name);
  if (fault !== undefined) return fail(io, fault, exitCode.misused);
  const reading = await readPassword(parts.input, (text) => io.stderr.write(text));
  if (reading.kind === 'refused') return fail(io, reading.reason, exitCode.failed);
  const { password } = reading;
  if (password === '') return fail(io, 'the password is empty', exitCode.failed);
  if (password.length > maxPasswordLength) return fail(io, 'the password is too long', exitCode.failed);
  if (hasControlCharacter(password)) return fail(io, 'the password has a control character in it', exitCode.failed);
  const hash = await formatPasswordHash(password, parts.random(saltBytes));
  const normalised = name?.normalize('NFC');
  const line = `${normalised === undefined ? '' : `${normalised}:`}${hash}`;
  io.stdout.write(parts.json === true ? `${printableJson({ name: normalised, hash, line })}\n` : `${line}\n`);
  return exitCode.done;
}

/** Returns why the name would change the meaning of the line, for example into a comment or the line of another name. */
function faultOfName(name: string): string | undefined {
  if (name.includes(':')) return 'a name cannot have a colon in it (RFC 7617)';
  const reading = parseNamedSecrets(`${name}:x`, () => undefined);
  const isSame = reading.kind === 'list' && reading.secrets.length === 1;
  return isSame ? undefined : 'expected a name without white space around it, which does not begin with #';
}

/** Where a password comes from, such as `process.stdin`. */
export type PasswordInput = NodeJS.ReadableStream & { readonly isTTY?: boolean };

/** A password, or why there is none, in words for people. */
type PasswordReading =
  | { readonly kind: 'password'; readonly password: string }
  | { readonly kind: 'refused'; readonly reason: string };

/** A longer input is a file, not a password. */
const maxPipedBytes = 64 * 1024;

/** Reads a password. On a terminal, `say` prompts for it twice. From a pipe, a final line end is removed. */
async function readPassword(input: PasswordInput, say: (text: string) => void): Promise<PasswordReading> {
  if (input.isTTY !== true) return await readPiped(input);
  const password = await ask(input, 'Password: ', say);
  const again = password === undefined ? undefined : await ask(input, 'Again: ', say);
  if (password === undefined || again === undefined) return refused('no password was given');
  return again === password ? { kind: 'password', password } : refused('the two passwords are not the same');
}

/** Asks for one line; resolves with undefined after Ctrl-C or Ctrl-D. */
async function ask(input: PasswordInput, prompt: string, say: (text: string) => void): Promise<string | undefined> {
  say(prompt);
  // readline puts the terminal into raw mode and echoes input to `output`, which discards it here.
  const silence = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input, output: silence, terminal: true, historySize: 0 });
  const line = await new Promise<string | undefined>((resolve) => {
    terminal.once('line', resolve);
    terminal.once('close', () => resolve(undefined));
    terminal.once('SIGINT', () => terminal.close());
  });
  terminal.close();
  say('\n');
  return line;
}

async function readPiped(input: PasswordInput): Promise<PasswordReading> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk);
    sizeBytes += bytes.length;
    if (sizeBytes > maxPipedBytes) return refused('the password is too long');
    chunks.push(bytes);
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
    return { kind: 'password', password: text.replace(/\r?\n$/, '') };
  } catch {
    return refused('the password is not UTF-8');
  }
}

function refused(reason: string): PasswordReading {
  return { kind: 'refused', reason };
}
