/** Statements of proxies in front: Forwarded, X-Forwarded-For, Via, CDN-Loop, and the PROXY protocol. */

import { isIP } from 'node:net';
import { createPeerList, isAddress, readForwardedChain } from '../../../src/guard/client.ts';
import type { Fields } from '../../../src/http/fields.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { readProxyHeader } from '../../../src/listener/accept/proxy-protocol.ts';
import {
  type ForwardedElement,
  formatForwarded,
  isCdnLoop,
  isLoop,
  nodeName,
  parseForwarded,
  withCdnLoop,
  withVia,
} from '../../../src/semantics/message-forwarding.ts';
import { linesOf, must, mustEqual, type Target, valuesOf } from '../target.ts';

const isTrusted = createPeerList([{ address: '10.0.0.0', family: 'ipv4', prefixLength: 8 }]);

const forwarded: Target = {
  name: 'forwarded',
  seeds: [
    'for=192.0.2.43, for="[2001:db8::17]:4711"',
    'for=_hidden;by=10.0.0.1;host=example.org;proto=https',
    'FOR="\\"quoted\\"";Host="a:8080"',
    'for=unknown,,for=10.1.1.1',
  ],
  words: ['for=', 'host=', 'proto=', 'by=', '"', '\\"', '[2001:db8::1]', ':80', ';', ', ', 'unknown', '_x', '10.0.0.1'],
  check(input) {
    const elements = parseForwarded(valuesOf(input));
    if (elements === undefined) return;
    for (const element of elements) {
      const known = withNodeName(element);
      // Only an address may have colons.
      if (known.for?.includes(':') === true && !isAddress(known.for)) continue;
      const text = formatForwarded(known);
      const again = parseForwarded([text])?.map(withNodeName);
      if (text !== '') mustEqual(again, [known], 'a formatted element is parsed as the same');
      must(!/[\r\n\0]/.test(text), 'a formatted element has no line break');
    }
    // A line that a trusted proxy adds behind valid lines is the last element.
    const added = parseForwarded([...valuesOf(input), 'for=192.0.2.9']);
    mustEqual(added?.at(-1)?.for, '192.0.2.9', 'an element that is added in a line of its own is the last');
  },
};

function withNodeName({ for: sender, host, proto }: ForwardedElement): ForwardedElement {
  return { for: sender === undefined ? undefined : nodeName(sender), host, proto };
}

const senderChain: Target = {
  name: 'told-way',
  seeds: [
    '192.0.2.1',
    '1.2.3.4, 10.0.0.1\n10.0.0.2',
    '[2001:db8::1]:80, 10.0.0.1',
    'unknown',
    '_hidden, ::ffff:10.0.0.1',
  ],
  words: ['10.0.0.1', '192.0.2.1', '::1', '::ffff:10.0.0.9', '[', ']:80', ', ', '\n', 'unknown', '_', '"', 'for='],
  check(input) {
    for (const [name, trusted] of [
      ['x-forwarded-for', 'x-forwarded'],
      ['forwarded', 'forwarded'],
    ] as const) {
      const claimed = linesOf(name, input);
      checkSenders(claimed, trusted);
      // Whatever a client claims, its address is the one that the first trusted proxy saw.
      const seen = trusted === 'forwarded' ? 'for=192.0.2.77, for=10.9.9.9' : '192.0.2.77, 10.9.9.9';
      const senders = sendersOf([...claimed, [name, seen]], trusted);
      if (senders !== undefined) mustEqual(senders, ['192.0.2.77', '10.9.9.9'], "no claim hides the client's address");
    }
  },
};

function checkSenders(fields: Fields, trusted: 'x-forwarded' | 'forwarded'): void {
  for (const [at, sender] of (sendersOf(fields, trusted) ?? []).entries()) {
    const isName = sender === 'unknown' || /^_[\w.-]+$/.test(sender);
    must(isAddress(sender) || isName, 'a sender is an address, or a name that hides one');
    must(at === 0 || (isAddress(sender) && isTrusted(sender)), 'all senders behind the client are trusted proxies');
  }
}

/** Returns `undefined` where the field is refused. */
function sendersOf(fields: Fields, trusted: 'x-forwarded' | 'forwarded'): readonly string[] | undefined {
  try {
    return readForwardedChain(fields, trusted, isTrusted).senders;
  } catch (thrown) {
    if (thrown instanceof ProxyError && trusted === 'forwarded') return undefined;
    throw thrown;
  }
}

const loops: Target = {
  name: 'via-and-cdn-loop',
  seeds: ['1.1 other', '1.1 a (comment (nested), with comma), 2 b', '1.0 x "', '(', 'cdn; x="y, z"', 'a,,b'],
  words: ['1.1 ', 'rangeway-a', '(', ')', '\\', '"', ', ', ';', '\n', '1.1 rangeway-b'],
  check(input) {
    const via = linesOf('via', input);
    const cdnLoop = linesOf('cdn-loop', input);
    const own = 'rangeway-zzz';
    must(isLoop(withVia(via, '1.1', own), own.toUpperCase()), 'no earlier member of Via hides a loop');
    must(isLoop([...via, ['via', `1.0 first, 1.1 ${own}, 2 last`]], own), 'no other member of Via hides a loop');
    must(isCdnLoop(withCdnLoop(cdnLoop, own), own.toUpperCase()), 'no earlier member of CDN-Loop hides a loop');
    // Proxies append to an existing line.
    const appended = `${cdnLoop.at(-1)?.[1] ?? ''}, ${own}; a=b, other`;
    must(isCdnLoop([['cdn-loop', appended]], own), 'no open quote in CDN-Loop hides a loop');
    if (!input.toLowerCase().includes(own))
      must(!isLoop([...via, ...cdnLoop], own), 'no loop is found where there is none');
  },
};

const v2 = (rest: string) => `\r\n\r\n\0\r\nQUIT\n${rest}`;

const proxyProtocol: Target = {
  name: 'proxy-protocol',
  seeds: [
    'PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\nGET / HTTP/1.1\r\n',
    'PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n',
    'PROXY UNKNOWN whatever\r\n',
    v2('\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbbGET'),
    v2(`\x21\x21\0\x24${'\x20\x01\x0d\xb8'.repeat(8)}\0\x01\0\x02`),
    v2('\x20\0\0\0'),
    v2(`\x21\x31\0\xd8${'\0'.repeat(216)}`),
    v2('\x21\x11\0\x13\xc0\0\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb\x04\0\x04abcd'),
  ],
  words: ['PROXY ', 'TCP4 ', 'TCP6 ', 'UNKNOWN', '\r\n', '192.0.2.1 ', '::1 ', '65535', '\x21\x11', '\0\x0c', v2('')],
  check(input) {
    const bytes = Buffer.from(input, 'latin1');
    const reading = readProxyHeader(bytes);
    if (reading.kind === 'header') {
      const { peer, sizeBytes } = reading;
      must(sizeBytes > 0 && sizeBytes <= bytes.length, 'the header is within the bytes that were received');
      const isPlace = peer === undefined || isIP(peer.address) !== 0 || (peer.address === '' && peer.port === 0);
      must(isPlace && (peer?.port ?? 0) <= 65_535, 'the peer has a valid address and port');
      must(!/^::ffff:\d/.test(peer?.address ?? ''), 'an IPv4 address is not mapped to IPv6');
      mustEqual(
        readProxyHeader(Buffer.concat([bytes, Buffer.from('more')])),
        reading,
        'bytes behind the header have no effect',
      );
      mustEqual(readProxyHeader(bytes.subarray(0, sizeBytes)), reading, 'the header is complete at its stated end');
      mustEqual(
        readProxyHeader(bytes.subarray(0, sizeBytes - 1)).kind,
        'more',
        'the header is incomplete one byte earlier',
      );
    } else if (reading.kind === 'more') {
      must(bytes.length < 16_384 + 16, 'a header without end is refused');
    } else {
      mustEqual(
        readProxyHeader(Buffer.concat([bytes, Buffer.from('x')])).kind,
        'malformed',
        'a refused header stays refused with more bytes',
      );
    }
  },
};

export const forwardingTargets: readonly Target[] = [forwarded, senderChain, loops, proxyProtocol];
