/** The grammar of HTTP/1.1 (RFC 9112) as sources of regular expressions, for texts of one character per byte. */

/** RFC 9110 §5.6.2. */
const token = String.raw`[!#$%&'*+.^_\x60|~0-9A-Za-z-]+`;

/** RFC 9110 §5.6.4. */
const quotedString = String.raw`"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*"`;

/**
 * RFC 9112 §3, with its line end: one space on each side of the target, which has nothing but visible characters of ASCII;
 * the name of the protocol in capitals, and one of its versions that have such heads (§2.3).
 */
export const requestLineGrammar = String.raw`${token} [\x21-\x7e]+ HTTP/1\.[01]\r\n`;

/**
 * Field lines and the empty line behind them: no white space before the colon (RFC 9112 §5.1), no line that goes on in the
 * next one (§5.2), no control character in a value but the tab (RFC 9110 §5.5), and no line end but CR LF (RFC 9112 §2.2).
 */
export const fieldSectionGrammar = String.raw`(?:${token}:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n`;

/**
 * The size of a chunk, in at most 16 digits, and its extensions (RFC 9112 §7.1.1), with the line end. White space around
 * their signs is not taken: RFC 9110 §5.6.3 calls it bad.
 */
export const chunkSizeGrammar = String.raw`([0-9A-Fa-f]{1,16})(?:;${token}(?:=(?:${token}|${quotedString}))?)*\r\n`;
