/** Reads sitemaps (sitemaps.org): the URLs of pages, or of further sitemaps. XML, plain text, and both compressed with gzip. */

import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { visitXml } from '../../media/xml.ts';

/** The most that a sitemap may have, as its standard says, in bytes without compression. */
export const maxSitemapBytes = 50 * 1024 * 1024;

/** What a sitemap contains. */
export type Sitemap =
  | { readonly kind: 'urls' | 'index'; readonly urls: readonly string[] }
  | { readonly kind: 'invalid'; readonly reason: string };

const unzip = promisify(gunzip);

/** Parses a sitemap, also a compressed one. Never rejects. */
export async function parseSitemap(bytes: Uint8Array): Promise<Sitemap> {
  try {
    const isCompressed = bytes[0] === 0x1f && bytes[1] === 0x8b;
    const plain = isCompressed ? await unzip(bytes, { maxOutputLength: maxSitemapBytes }) : bytes;
    const text = new TextDecoder().decode(plain);
    return /^\s*</.test(text) ? parseXml(text) : parseLines(text);
  } catch (error) {
    const isLarge = error instanceof RangeError;
    return {
      kind: 'invalid',
      reason: isLarge
        ? `it has more than ${maxSitemapBytes} bytes`
        : error instanceof Error
          ? firstLine(error.message)
          : String(error),
    };
  }
}

function parseLines(text: string): Sitemap {
  const urls = text.split('\n').map((line) => line.trim());
  const wrong = urls.find((line) => line !== '' && !/^https?:\/\//i.test(line));
  if (wrong !== undefined) return { kind: 'invalid', reason: 'it is neither XML nor a list of URLs' };
  return { kind: 'urls', urls: urls.filter((line) => line !== '') };
}

function parseXml(text: string): Sitemap {
  const pages: string[] = [];
  const sitemaps: string[] = [];
  const open: string[] = [];
  let root: string | undefined;
  let location = '';
  const fault = visitXml(text, {
    open(name) {
      const local = name.slice(name.indexOf(':') + 1);
      root ??= local;
      open.push(local);
      location = '';
      return undefined;
    },
    text(piece) {
      if (open.at(-1) === 'loc') location += piece;
    },
    close() {
      const parent = open.at(-2);
      if (open.pop() !== 'loc') return;
      if (parent === 'url') pages.push(location.trim());
      if (parent === 'sitemap') sitemaps.push(location.trim());
    },
  });
  if (fault !== undefined) return { kind: 'invalid', reason: fault };
  if (root === 'urlset') return { kind: 'urls', urls: pages };
  if (root === 'sitemapindex') return { kind: 'index', urls: sitemaps };
  return { kind: 'invalid', reason: `it is no sitemap: its root element is <${root ?? ''}>` };
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}
