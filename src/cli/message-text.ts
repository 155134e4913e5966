/** The text of what a server answers. */

import type { Readable } from 'node:stream';

/** No answer is longer; in characters. */
const MAX_LENGTH = 64 * 1024 * 1024;

/** Reads it to its end. Throws where it is too long, or breaks off. */
export async function readText(message: Readable): Promise<string> {
  let text = '';
  message.setEncoding('utf8');
  for await (const chunk of message) {
    text += chunk;
    if (text.length > MAX_LENGTH) throw new Error('the answer is too long');
  }
  return text;
}
