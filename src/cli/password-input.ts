/** Reads a password: from a terminal, where nothing of it is shown, or from what is piped in. */

import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';

/** Where a password comes from, such as `process.stdin`. */
export type PasswordInput = NodeJS.ReadableStream & { readonly isTTY?: boolean };

/** A password, or why there is none, in words for people. */
export type PasswordReading =
  | { readonly kind: 'password'; readonly password: string }
  | { readonly kind: 'refused'; readonly reason: string };

/** More than this is no password, but some file. */
const maxPipedBytes = 64 * 1024;

/** Reads a password. A terminal is asked twice, with `say`; of what is piped in the last end of line does not count. */
export async function readPassword(input: PasswordInput, say: (text: string) => void): Promise<PasswordReading> {
  if (input.isTTY !== true) return await readPiped(input);
  const password = await ask(input, 'Password: ', say);
  const again = password === undefined ? undefined : await ask(input, 'Again: ', say);
  if (password === undefined || again === undefined) return refused('no password was given');
  return again === password ? { kind: 'password', password } : refused('the two passwords are not the same');
}

/** Asks for one line; undefined where there comes none (Ctrl-C, Ctrl-D). */
async function ask(input: PasswordInput, prompt: string, say: (text: string) => void): Promise<string | undefined> {
  say(prompt);
  // It puts the terminal into raw mode, and repeats what is typed to its output.
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
