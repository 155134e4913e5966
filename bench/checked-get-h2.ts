/** GET over TLS and HTTP/2; compares every byte of the response with the file. */

import { once } from 'node:events';
import { type ClientHttp2Session, connect } from 'node:http2';
import type { Span } from '../src/bytes/span.ts';
import { isPeriodic } from '../test/support/values/periodic-body.ts';
import { testAuthority } from '../test/support/values/tls-certificate.ts';
import { BenchFault } from './fault.ts';
import type { SampleFile } from './sample-file.ts';

/** Flow-control window of the connection and of a stream, in bytes. */
const windowBytes = 16 * 1024 * 1024;

/** Requests a file, or one span of it, on a new connection. Throws `BenchFault` for a wrong status, length or byte. */
export async function checkedGetSecurely(port: number, file: SampleFile, span?: Span): Promise<void> {
  const session = connect(`https://127.0.0.1:${port}`, {
    ca: testAuthority,
    settings: { initialWindowSize: windowBytes },
  });
  try {
    await once(session, 'connect');
    session.setLocalWindowSize(windowBytes);
    await ask(session, file, span);
  } finally {
    session.destroy();
  }
}

async function ask(session: ClientHttp2Session, file: SampleFile, span: Span | undefined): Promise<void> {
  const wanted = span ?? { start: 0, end: file.window.end - file.window.start };
  const range = span === undefined ? {} : { range: `bytes=${span.start}-${span.end - 1}` };
  const stream = session.request({ ':path': file.path, ...range });
  const [head] = (await once(stream, 'response')) as [Record<string, unknown>];
  const status = span === undefined ? 200 : 206;
  if (head[':status'] !== status) throw new BenchFault(`${file.path}: status ${head[':status']}, not ${status}`);
  let offset = file.window.start + wanted.start;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    if (!isPeriodic(chunk, offset)) throw new BenchFault(`${file.path}: wrong bytes after ${offset}`);
    offset += chunk.length;
  }
  const end = offset - file.window.start;
  if (end !== wanted.end) throw new BenchFault(`${file.path}: ended at ${end}, not at ${wanted.end}`);
}
