/** The requests of a plan, as text, one after the other. */

import { distinctFile } from '../sample-file.ts';
import type { RequestPlan } from './load.ts';

/** Makes the next request of a plan, at a port of loopback, with each call. */
export function createRequests(port: number, request: RequestPlan): () => string {
  const requestText = (path: string, range: string): string =>
    `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${range}\r\n`;
  switch (request.kind) {
    case 'whole': {
      const text = requestText(request.file.path, '');
      return () => text;
    }
    case 'ranges': {
      const { file, sizeBytes } = request;
      const startCount = file.window.end - file.window.start - sizeBytes + 1;
      return () => {
        const start = Math.floor(Math.random() * startCount);
        return requestText(file.path, `Range: bytes=${start}-${start + sizeBytes - 1}\r\n`);
      };
    }
    case 'distinct': {
      let index = 0;
      return () => requestText(distinctFile(request.series, index++, request.sizeBytes).path, '');
    }
  }
}
