/** `rangeway sign`: prints a signed URL that gives access until it expires. */

import { parseSecretSource, type SecretSource } from '../config/secret-source.ts';
import { parseNamedSecrets } from '../guard/access/authorization.ts';
import { isExpiry, readSignature, signingKeyRule, signTarget } from '../guard/access/signed-url.ts';
import { normaliseAuthority } from '../routing/target.ts';
import { readSecret, unusable } from '../setup/secrets.ts';
import { type CliIo, exitCode, fail } from './io.ts';
import { printableJson } from './text-sections.ts';

/** The flags of the command. */
export interface SignFlags {
  /** How long the URL is valid, in milliseconds. */
  readonly expiresIn: number;
  /** As in the configuration: `file:PATH` or `env:NAME`. */
  readonly secret: string;
  readonly keyId?: string;
  /** With `json`, the expiry in epoch seconds is printed, too. */
  readonly json?: boolean;
}

/**
 * Prints the URL with its signature; resolves with the exit code. `now` is in epoch milliseconds. The URL is signed in the
 * form that clients send: serialised by the URL Standard, without a fragment.
 */
export async function sign(url: URL, flags: SignFlags, io: CliIo, now: number): Promise<number> {
  const fault = faultOf(url, flags, now);
  if (fault !== undefined) return fail(io, fault, exitCode.misused);
  const source = parseSecretSource(flags.secret);
  if (source === undefined) return fail(io, '--secret: expected "env:NAME" or "file:PATH"', exitCode.misused);
  const scheme = url.protocol === 'https:' ? 'https' : 'http';
  const authority = normaliseAuthority(url.host, scheme) ?? '';
  try {
    const { keyId, secret } = await readKey(source, flags, io);
    const signed = { authority, target: url.pathname + url.search, keyId, expires: expiryOf(flags, now) };
    const signedUrl = `${url.origin}${signTarget(signed, secret)}`;
    const value = { url: signedUrl, keyId, expires: signed.expires };
    io.stdout.write(flags.json === true ? `${printableJson(value)}\n` : `${signedUrl}\n`);
    return exitCode.done;
  } catch (error) {
    return fail(io, error instanceof Error ? error.message : String(error), exitCode.failed);
  }
}

function faultOf(url: URL, flags: SignFlags, now: number): string | undefined {
  if (url.username !== '' || url.password !== '') return 'a URL with a user name or a password cannot be signed';
  const scheme = url.protocol === 'https:' ? 'https' : 'http';
  if (normaliseAuthority(url.host, scheme) === undefined) return `the host ${url.host} cannot be signed`;
  if (readSignature(url.pathname + url.search).kind !== 'none') return 'the URL has parameters of a signature already';
  return isExpiry(expiryOf(flags, now)) ? undefined : '--expires-in: expected a time such as 1h or 7d';
}

/** Returns the expiry in epoch seconds. It is rounded up, so that the URL is valid for at least the time asked for. */
function expiryOf({ expiresIn }: SignFlags, now: number): number {
  return Math.ceil((now + expiresIn) / 1000);
}

/** Reads the key with the id of the flags, or the only key where they name none. Throws where there is no such key. */
async function readKey(
  source: SecretSource,
  flags: SignFlags,
  io: CliIo,
): Promise<{ readonly keyId: string; readonly secret: string }> {
  const reading = parseNamedSecrets(await readSecret(source, io.env), signingKeyRule);
  if (reading.kind === 'refused') throw unusable(source, reading.reason);
  const { secrets } = reading;
  if (flags.keyId === undefined && secrets.length > 1)
    throw unusable(source, 'has several keys; name one with --key-id');
  const found = flags.keyId === undefined ? secrets[0] : secrets.find(({ name }) => name === flags.keyId);
  if (found === undefined) throw unusable(source, `has no key with the id ${flags.keyId}`);
  return { keyId: found.name, secret: found.secret };
}
