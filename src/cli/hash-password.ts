/** `rangeway hash-password`: from a password to the line that "access.basic" is given. */

import { hasControlCharacter, parseNamedSecrets } from '../guard/named-secrets.ts';
import { formatPasswordHash, saltBytes } from '../guard/password-hash.ts';
import { exitCode } from './exit-code.ts';
import { fail } from './failure.ts';
import type { CliIo } from './io.ts';
import { type PasswordInput, readPassword } from './password-input.ts';

/** What the command has of the world besides. */
export interface HashingParts {
  readonly input: PasswordInput;
  /** Random bytes. */
  readonly random: (size: number) => Uint8Array;
}

/** In characters; what is longer could not be sent. */
const maxPasswordLength = 1024;

/** Prints the line, or the hash alone where there is no name; resolves with the exit code. */
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
  io.stdout.write(`${name === undefined ? '' : `${name.normalize('NFC')}:`}${hash}\n`);
  return exitCode.done;
}

/** What would make the line another one than it is meant to be: a comment, say, or the password of somebody else. */
function faultOfName(name: string): string | undefined {
  if (name.includes(':')) return 'a name cannot have a colon in it (RFC 7617)';
  const reading = parseNamedSecrets(`${name}:x`, () => undefined);
  const isSame = reading.kind === 'list' && reading.secrets.length === 1;
  return isSame ? undefined : 'expected a name without white space around it, which does not begin with #';
}
