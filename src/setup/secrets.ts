/** Reads secrets from environment variables and files. */

import { open } from 'node:fs/promises';
import type { SecretSource } from '../config/secret-source.ts';

/** A larger source is a mistake: a device, a disk image. */
const maxSecretBytes = 16 * 1024 * 1024;

/**
 * Reads a secret, without a byte order mark at its start and one end of line at its end. Rejects where the variable or the file is
 * missing, empty, longer than 16 MiB, or not UTF-8. The message names the source, never its content. Permissions of a file are not
 * checked, because container platforms mount secrets that everything in the container can read.
 */
export async function readSecret(source: SecretSource, environment = process.env): Promise<string> {
  const text = source.kind === 'env' ? environment[source.name] : decode(await readBytes(source), source);
  if (text === undefined) throw unusable(source, 'is not set');
  const secret = text.replace(/^\uFEFF/, '').replace(/\r?\n$/, '');
  if (secret === '') throw unusable(source, 'is empty');
  return secret;
}

/** Returns the error for a source that cannot be used. `reason` follows the source in a sentence, and must not contain a secret. */
export function unusable({ kind, name }: SecretSource, reason: string): Error {
  return new Error(`the secret ${kind}:${name} ${reason}`);
}

async function readBytes(source: SecretSource): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  try {
    await using file = await open(source.name);
    for await (const chunk of file.createReadStream({ end: maxSecretBytes, autoClose: false })) {
      chunks.push(chunk as Buffer);
      sizeBytes += (chunk as Buffer).length;
    }
  } catch (error) {
    throw unusable(source, `cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (sizeBytes > maxSecretBytes) throw unusable(source, 'is too long');
  return Buffer.concat(chunks, sizeBytes);
}

function decode(bytes: Buffer, source: SecretSource): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw unusable(source, 'is not UTF-8');
  }
}
