/** Generates the requests of a plan as HTTP/1.1 text. */

import { distinctFile } from '../sample-file.ts';
import type { MediaPlan, ObjectsPlan, RequestPlan } from './load.ts';

const userAgents = 500;
const referrers = 1000;
const languages = ['en-GB,en;q=0.9', 'de-DE,de;q=0.9,en;q=0.7', 'ja,en-US;q=0.8,en;q=0.6'];

/** Accept-Encoding of all simulated browsers. */
export const acceptEncoding = 'gzip, deflate, br, zstd';

/** The fields of a browser's request in three pieces: before the user agent's number, the language, and the referrer's number. */
export const browserHead = {
  userAgents,
  referrers,
  languages,
  beforeAgent:
    'Connection: keep-alive\r\nsec-ch-ua: "Chromium";v="140", "Not?A_Brand";v="24"\r\nsec-ch-ua-mobile: ?0\r\n' +
    'sec-ch-ua-platform: "Linux"\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.',
  beforeLanguage:
    '.0 Safari/537.36\r\nAccept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8\r\n' +
    'Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n' +
    `Accept-Encoding: ${acceptEncoding}\r\nAccept-Language: `,
  beforeReferrer: '\r\nReferer: https://www.example.org/gallery/page-',
};

/** Returns a function that creates the next request of a plan with each call. `port` is the proxy's port of loopback. */
export function createRequests(port: number, request: RequestPlan, host = `127.0.0.1:${port}`): () => string {
  const requestText = (path: string, range: string, method = 'GET'): string =>
    `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\n${range}\r\n`;
  switch (request.kind) {
    case 'whole': {
      const text = requestText(request.file.path, '');
      return () => text;
    }
    case 'ranges': {
      const { file, sizeBytes, stepBytes = 1 } = request;
      const lastStep = Math.floor((file.window.end - file.window.start - sizeBytes) / stepBytes);
      return () => {
        const start = Math.floor(Math.random() * (lastStep + 1)) * stepBytes;
        return requestText(file.path, `Range: bytes=${start}-${start + sizeBytes - 1}\r\n`);
      };
    }
    case 'distinct': {
      let index = 0;
      return () => requestText(distinctFile(request.series, index++, request.sizeBytes).path, '');
    }
    case 'objects':
      return () => {
        const path = objectPath(request, Math.random());
        return requestText(path, objectFields(request, path), request.question?.method);
      };
    case 'media':
      return createMediaRequests(request, requestText);
  }
}

/** Returns the path of the file that a random number (0 inclusive, 1 exclusive) selects. */
export function objectPath({ series, count, sizeBytes, popularity }: ObjectsPlan, random: number): string {
  const index = popularity === 'even' ? Math.floor(random * count) : Math.floor(count ** random) - 1;
  return distinctFile(series, index, sizeBytes).path;
}

/** Returns the entity tag that the window origin sends for a file. */
export function etagOf(path: string): string {
  return `"${path.slice(path.lastIndexOf('/') + 1)}"`;
}

function createMediaRequests(
  { series, count, fileBytes, sizeBytes, newShare, newSeries }: MediaPlan,
  requestText: (path: string, fields: string) => string,
): () => string {
  let newFiles = 0;
  return () => {
    const isNew = Math.random() < newShare;
    const index = isNew ? newFiles++ : Math.floor(Math.random() * count);
    const start = Math.floor(Math.random() * (fileBytes - sizeBytes + 1));
    const { path } = distinctFile(isNew ? newSeries : series, index, fileBytes);
    return requestText(path, `Range: bytes=${start}-${start + sizeBytes - 1}\r\n`);
  };
}

function objectFields({ head, question, fields = '' }: ObjectsPlan, path: string): string {
  const asked = question === undefined ? '' : question.fields.replace('{etag}', etagOf(path));
  return `${headFields(head)}${fields}${asked}`;
}

function headFields(head: ObjectsPlan['head']): string {
  if (head === 'plain') return 'Accept: */*\r\n';
  const some = (count: number) => Math.floor(Math.random() * count);
  const { beforeAgent, beforeLanguage, beforeReferrer } = browserHead;
  const language = languages[some(languages.length)];
  return `${beforeAgent}${some(userAgents)}${beforeLanguage}${language}${beforeReferrer}${some(referrers)}\r\n`;
}
