/** Reads XML with `sax`, as sitemaps and DASH manifests need it. Entities of a document are never expanded, no DTD is fetched. */

import sax from 'sax';

/** Gets the parts of a document in order. Names are as they are written, with their prefix. */
export interface XmlVisitor {
  /** `line` counts from 1. Returns why reading ends here. */
  open(name: string, attributes: Readonly<Record<string, string>>, line: number): string | undefined;
  text(piece: string): void;
  close(): void;
}

/** How much is parsed at a time, in characters: an error in the first piece is found before the rest is read. */
const PIECE = 65_536;

/** Visits a document. Returns undefined at its end, or a sentence about what is wrong and in which line. */
export function visitXml(text: string, visitor: XmlVisitor): string | undefined {
  const parser = sax.parser(true, { position: true });
  let fault: string | undefined;
  let line = 1;
  parser.onopentagstart = () => {
    line = parser.line + 1;
  };
  parser.onopentag = ({ name, attributes }) => {
    // What follows a fault in the same piece is parsed, too.
    if (fault === undefined) fault = visitor.open(name, attributes as Record<string, string>, line);
  };
  parser.ontext = (piece) => visitor.text(piece);
  parser.oncdata = (piece) => visitor.text(piece);
  parser.onclosetag = () => visitor.close();
  parser.ondoctype = (doctype) => {
    if (doctype.includes('[')) fault ??= `line ${parser.line + 1}: its DOCTYPE declares something, which is refused`;
  };
  parser.onerror = (error) => {
    fault ??= `line ${parser.line + 1}: its XML is damaged: ${error.message.split('\n', 1)[0] ?? ''}`;
    parser.resume();
  };
  for (let at = 0; at < text.length && fault === undefined; at += PIECE) parser.write(text.slice(at, at + PIECE));
  if (fault === undefined) parser.close();
  return fault;
}
