/** The body of a request on its way into an HTTP/2 stream. */

import { once } from 'node:events';
import type { ClientHttp2Stream } from 'node:http2';
import type { BodyStream } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';

/**
 * Writes a body, as fast as the origin takes it (RFC 9113 §5.2), and ends the stream with it. Never rejects: a body that breaks
 * off, or has another length than was promised, is told to `onError`, and the stream is left unended.
 */
export async function sendBody(
  stream: ClientHttp2Stream,
  body: BodyStream,
  sizeBytes: number | undefined,
  onError: (error: unknown) => void,
): Promise<void> {
  let sentBytes = 0;
  const over = once(stream, 'close').catch(() => undefined);
  try {
    for await (const chunk of body) {
      if (stream.destroyed || stream.closed) return;
      sentBytes += chunk.length;
      if (sentBytes > (sizeBytes ?? sentBytes)) break;
      if (!stream.write(chunk)) await Promise.race([once(stream, 'drain').catch(() => undefined), over]);
    }
    if (sentBytes !== (sizeBytes ?? sentBytes)) throw new ProxyError('request_body_incomplete');
    stream.end();
  } catch (thrown) {
    onError(thrown);
  }
}
