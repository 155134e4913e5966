/** The requests of a plan, as text, one after the other. */

import { distinctFile } from '../sample-file.ts';
import type { RequestPlan } from './load.ts';

/** Makes the next request of a plan with each call. */
export function createRequests(request: RequestPlan): () => string {
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

function requestText(path: string, range: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${range}\r\n`;
}
