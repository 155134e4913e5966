/** Heads that no server may answer as a request. Pure. */

/** One of them. */
export interface HostileHead {
  readonly name: string;
  /** Each character is a byte. */
  readonly bytes: string;
}

const path = '/whole/600/700/100';
const head = (lines: string, body = ''): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n${body}`;

/** All of them, except random bytes. */
export const hostileHeads: readonly HostileHead[] = [
  { name: 'two lengths', bytes: head('Content-Length: 1\r\nContent-Length: 2\r\n', 'ab') },
  { name: 'a length and chunks', bytes: head('Content-Length: 3\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n') },
  { name: 'a coding that is not chunked', bytes: head('Transfer-Encoding: gzip\r\n', 'ab') },
  { name: 'a NUL in a value', bytes: head('X-A: a\0b\r\n') },
  { name: 'a space before the colon', bytes: head('X-A : b\r\n') },
  { name: 'a folded line', bytes: head('X-A: b\r\n c\r\n') },
  { name: 'no Host', bytes: `GET ${path} HTTP/1.1\r\n\r\n` },
  { name: 'two Hosts', bytes: head('Host: other.example\r\n') },
  { name: 'fields without an end', bytes: head(`X-A: ${'a'.repeat(40_000)}\r\n`) },
  { name: 'a long target', bytes: `GET /${'a'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n` },
  { name: 'another protocol', bytes: 'SSH-2.0-OpenSSH_9.6\r\n' },
  { name: 'TLS on the plain port', bytes: '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03' },
  { name: 'half a head', bytes: `GET ${path} HTTP/1.1\r\nHost: local` },
];

/** Chooses one by random numbers from 0 to 1; one in four is random bytes. */
export function hostileHead([which = 0, ...chances]: readonly number[]): HostileHead {
  const known = hostileHeads[Math.floor((which * hostileHeads.length * 4) / 3)];
  if (known !== undefined) return known;
  const codes = Array.from({ length: 64 }, (_, at) => {
    const chance = (chances[at % chances.length] ?? 0) * (at + 1) * 997;
    return Math.floor((chance - Math.floor(chance)) * 256);
  });
  return { name: 'random bytes', bytes: `${String.fromCharCode(...codes)}\r\n\r\n` };
}
