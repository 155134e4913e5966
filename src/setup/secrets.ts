/** Reads secrets: from a variable of the environment, or from a file. */

import { open } from 'node:fs/promises';
import type { SecretSource } from '../config/values.ts';

/** A source with more than this is not what was meant: a device, a disk image. */
const maxSecretBytes = 16 * 1024 * 1024;

/**
 * The text of a secret, without a byte order mark before it and one end of line after it. Rejects with an error whose message
 * names the source, and never what is in it: where the variable or the file is missing, or is empty, longer than 16 MiB, or
 * not UTF-8. Who else may read a file is not asked, because container platforms mount secrets so that all in the container may.
 */
export async function readSecret(source: SecretSource, environment = process.env): Promise<string> {
  const text = source.kind === 'env' ? environment[source.name] : decode(await readBytes(source), source);
  if (text === undefined) throw unusable(source, 'is not set');
  const secret = text.replace(/^\uFEFF/, '').replace(/\r?\n$/, '');
  if (secret === '') throw unusable(source, 'is empty');
  return secret;
}

/** The error of a start that fails for what is in a source. `reason` follows the source in a sentence, and holds no secret. */
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
