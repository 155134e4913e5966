/** A PDF of many pages, each with text and a large stream that no page shows. */

import { patternBytes } from '../../../support/values/pattern-body.ts';

/** The number of pages. */
export const pageCount = 60;
/** Bytes that each page adds, so that pages are far from each other. */
const ballastBytes = 60_000;

/** Returns the text of a page, which is counted from 1. */
export function pageText(page: number): string {
  return `Page ${page} of the paper`;
}

/** Makes the document (ISO 32000-1). Its cross-reference table is at the end. */
export function makePdf(): Buffer {
  const bodies: Buffer[] = [];
  const add = (...parts: readonly (string | Uint8Array)[]): void => {
    bodies.push(Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part))));
  };
  const pageObject = (page: number): number => 4 + 3 * (page - 1);
  const kids = Array.from({ length: pageCount }, (_, at) => `${pageObject(at + 1)} 0 R`).join(' ');
  add('<< /Type /Catalog /Pages 2 0 R >>');
  add(`<< /Type /Pages /Count ${pageCount} /Kids [${kids}] >>`);
  add('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>');
  for (let page = 1; page <= pageCount; page += 1) {
    const object = pageObject(page);
    const text = `BT /F 24 Tf 72 700 Td (${pageText(page)}) Tj ET`;
    add(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents ${object + 1} 0 R`,
      ' /Resources << /Font << /F 3 0 R >> >> >>',
    );
    add(`<< /Length ${text.length} >>\nstream\n${text}\nendstream`);
    add(`<< /Length ${ballastBytes} >>\nstream\n`, patternBytes(0, ballastBytes, page), '\nendstream');
  }
  const parts = [Buffer.from('%PDF-1.4\n')];
  let at = parts[0]?.length ?? 0;
  const offsets = bodies.map((body, index) => {
    const object = Buffer.concat([Buffer.from(`${index + 1} 0 obj\n`), body, Buffer.from('\nendobj\n')]);
    parts.push(object);
    at += object.length;
    return at - object.length;
  });
  const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('');
  const table = `xref\n0 ${bodies.length + 1}\n0000000000 65535 f \n${rows}`;
  const trailer = `trailer\n<< /Size ${bodies.length + 1} /Root 1 0 R >>\nstartxref\n${at}\n%%EOF\n`;
  return Buffer.concat([...parts, Buffer.from(table + trailer, 'latin1')]);
}
