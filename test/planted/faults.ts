/**
 * Planted faults, and the tests that must find them. They are what the test files that `npm test` leaves out are about, and what
 * only one carrier of requests shows: so a test that is merged, moved or left out is missed here where nothing else does its work.
 */

import type { PlantedFault } from './fault.ts';

/** Faults of what `npm test` leaves out. `npm test` runs the tests that find them. */
const leftOut: readonly PlantedFault[] = [
  {
    name: 'damaged-block-is-sound',
    file: 'src/store/disk/bodies/block-file.ts',
    text: 'if (!isSameSum(sum, read)) return false;',
    replacement: '',
    breaks: 'A damaged block counts as sound (faults/damage).',
    tests: ['store/disk-store-damage.test.ts'],
  },
  {
    name: 'damaged-piece-is-sound',
    file: 'src/store/disk/bodies/block-file.ts',
    text: 'if (!matchesTrace(trace, firstPiece, bytes)) return false;',
    replacement: '',
    breaks: 'A piece that does not match its checksum counts as sound (faults/damage).',
    tests: ['store/quick-reads.test.ts'],
  },
  {
    name: 'damaged-row-is-used',
    file: 'src/store/disk/index/index-rows.ts',
    text: 'if (place.key !== key || rowSum(place, metadata, pinnedUntil) !== row.checksum) return undefined;',
    replacement: '',
    breaks: 'A damaged row of the index is used (faults/index-damage).',
    tests: ['store/disk-index-damage.test.ts'],
  },
  {
    name: 'checksum-before-its-block',
    file: 'src/store/disk/bodies/body-files.ts',
    text: `    await writeFully(this.#body, bytes, index * this.#blockSizeBytes);
    await writeFully(this.#sums, encodeSum(sum), sumsSizeBytes(index));`,
    replacement: `    await writeFully(this.#sums, encodeSum(sum), sumsSizeBytes(index));
    await writeFully(this.#body, bytes, index * this.#blockSizeBytes);`,
    breaks: 'A checksum is written before its block (faults/kill, store/disk-store-kill).',
    tests: ['store/disk-store-parts.test.ts'],
  },
  {
    name: 'full-disk-is-another-fault',
    file: 'src/store/disk/space/disk-space.ts',
    text: "new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])",
    replacement: 'new Set()',
    breaks: 'A full disk counts as another fault (faults/no-room).',
    tests: ['store/lone-bodies.test.ts'],
  },
  {
    name: 'open-file-is-kept',
    file: 'src/store/disk/bodies/open-bodies.ts',
    text: 'body.users -= 1;',
    replacement: '',
    breaks: 'An open file is never given back (process/leaks).',
    tests: ['store/open-bodies.test.ts'],
  },
  {
    name: 'leases-of-the-dead-are-kept',
    file: 'src/fleet/leases.ts',
    text: 'for (const key of keys) this.#takeBack(key, instance);',
    replacement: '',
    breaks: 'The leases of a dead worker are kept (faults/workers, process/workers-fill).',
    tests: ['fleet/lease-table.test.ts'],
  },
  {
    name: 'evicted-entries-are-kept',
    file: 'src/setup/store.ts',
    text: `    tiered?.forget(change);
    return sharing?.announce(change)`,
    replacement: '    return sharing?.announce(change)',
    breaks: 'The memory tier of a worker keeps entries that the disk has evicted (contract/shared-store).',
    tests: ['setup/store.test.ts'],
  },
  {
    name: 'another-range-begins-a-body',
    file: 'src/cache/fill/fetch-decision.ts',
    text: "if (requested.kind !== 'suffix') return span.start !== requested.first;",
    replacement: "if (requested.kind !== 'suffix') return false;",
    breaks: 'A 206 of another range is used (faults/origin-lies).',
    tests: ['scenario/range-lies.test.ts'],
  },
  {
    name: 'resumed-without-if-range',
    file: 'src/cache/fill/part-source.ts',
    text: "        ['if-range', this.#validator],\n",
    replacement: '',
    breaks: 'A transfer resumes without If-Range (faults/origin-cuts).',
    tests: ['scenario/resume.test.ts'],
  },
  {
    name: 'origin-is-silent-for-ever',
    file: 'src/origin/undici-origin.ts',
    text: 'headersTimeout: options.headersTimeoutMs,',
    replacement: 'headersTimeout: 0,',
    breaks: 'An origin may be silent for ever (origin/timeouts).',
    tests: ['origin/framing-faults.test.ts'],
  },
  {
    name: 'content-beyond-the-window',
    file: 'src/listener/http2/exchange.ts',
    text: 'this.windowBytes -= sizeBytes;',
    replacement: '',
    breaks: 'Content of an HTTP/2 stream is not taken from its window (wire/http2-storm).',
    tests: ['wire/http2-responses.test.ts'],
  },
  {
    name: 'range-beyond-the-end',
    file: 'src/semantics/range.ts',
    text: 'end: Math.min(end, sizeBytes) };',
    replacement: 'end };',
    breaks: 'A range goes beyond the end of the representation (scenario/random-ranges).',
    tests: ['semantics/range-selection.test.ts'],
  },
  {
    name: 'client-is-named-to-the-origin',
    file: 'src/guard/fields/forwarding.ts',
    text: "return claim === 'vouched' ? 'vouched' : 'dropped';",
    replacement: "return claim === 'vouched' ? 'vouched' : 'passed';",
    breaks: 'A field in which a client names another client reaches the origin (process/fields).',
    tests: ['guard/forwarding.test.ts'],
  },
  {
    name: 'requests-per-client-without-limit',
    file: 'src/guard/limits/allowances.ts',
    text: 'takePlace(this.#running, this.#rules.requestsPerClient, client, fields);',
    replacement: 'takePlace(this.#running, 0, client, fields);',
    breaks: '`limits.requestsPerClient` has no effect (process/client-limits).',
    tests: ['guard/allowances.test.ts'],
  },
  {
    name: 'reload-keeps-the-handler',
    file: 'src/setup/listeners.ts',
    text: 'this.#service = this.#serviceOf(served);',
    replacement: '',
    breaks: 'A reload keeps the old handler (process/reload).',
    tests: ['setup/reload.test.ts'],
  },
  {
    name: 'secrets-are-logged',
    file: 'src/telemetry/redact.ts',
    text: 'escapeUnsafe(withoutSecretParameters(withoutUserinfo(text)))',
    replacement: 'escapeUnsafe(withoutUserinfo(text))',
    breaks: 'Secrets in URLs are logged (process/secrets, process/log).',
    tests: ['telemetry/redact.test.ts'],
  },
  {
    name: 'sockets-of-another-process',
    file: 'src/listener/accept/bind.ts',
    text: 'LISTEN_PID !== String(pid) || ',
    replacement: '',
    breaks: 'Sockets that systemd has passed to another process are taken (process/systemd).',
    tests: ['listener/passed-sockets.test.ts'],
  },
  {
    name: 'no-color-has-no-effect',
    file: 'src/cli/terminal/abilities.ts',
    text: "refused !== '' || ",
    replacement: '',
    breaks: '`NO_COLOR` has no effect (process/terminal-output).',
    tests: ['cli/terminal/style.test.ts'],
  },
];

/** Faults that the scenarios or the HTTP/1 suites found over other carriers, before only some of them ran there. */
const carriers: readonly PlantedFault[] = [
  {
    name: 'http1-memory-is-given-back-early',
    file: 'src/listener/http1/exchange.ts',
    text: 'Number.POSITIVE_INFINITY : this.#writer.unsentBytes;',
    replacement: 'Number.POSITIVE_INFINITY : 0;',
    breaks: 'Lent memory of an HTTP/1 response is used again before its bytes have left.',
    tests: ['listener/http1/given-back.test.ts'],
  },
  {
    name: 'http2-memory-is-given-back-early',
    file: 'src/listener/http2/exchange.ts',
    text: 'Number.POSITIVE_INFINITY : this.#queuedBytes + this.#framedBytes - this.#takenBytes;',
    replacement: 'Number.POSITIVE_INFINITY : 0;',
    breaks: 'Lent memory of an HTTP/2 response is used again before its bytes have left.',
    tests: ['wire/http2-storm.test.ts'],
  },
  {
    name: 'http2-upload-in-small-pieces',
    file: 'src/listener/http2/request-body.ts',
    text: 'this.#slab.set(bytes, this.#slabUsed);',
    replacement: 'this.#slab.set(bytes, 0);',
    breaks: 'Small pieces of a request body, kept until they are read, overwrite each other.',
    tests: ['wire/http2-requests.test.ts'],
  },
  {
    name: 'proxy-loses-the-rest',
    file: 'src/listener/accept/open-listener.ts',
    text: `    if (reading.usedBytes < received.length) socket.unshift(received.subarray(reading.usedBytes));
`,
    replacement: '',
    breaks:
      'Bytes that follow the PROXY header, or the bytes in which HTTP/2 is looked for, are lost (wire/over-proxy-protocol, wire/over-looked-at).',
    tests: ['wire/proxy-protocol.test.ts'],
  },
  {
    name: 'paused-after-the-proxy-header',
    file: 'src/listener/accept/open-listener.ts',
    text: `  // An earlier step leaves the socket paused.
  socket.resume();`,
    replacement: '',
    breaks: 'A connection stays paused after its PROXY header (wire/over-proxy-protocol).',
    tests: ['wire/proxy-protocol.test.ts'],
  },
  {
    name: 'proxy-names-another-client',
    file: 'src/listener/accept/open-listener.ts',
    text: 'arrival.peer = reading.peer ?? proxy;',
    replacement: 'arrival.peer = proxy;',
    breaks: 'A client behind a proxy has the address of the proxy (wire/over-proxy-protocol).',
    tests: ['wire/proxy-protocol.test.ts'],
  },
  {
    name: 'unix-sockets-are-reset',
    file: 'src/listener/accept/open-listener.ts',
    text: `    if (isUnix) socket.resetAndDestroy = () => socket.destroy();
`,
    replacement: '',
    breaks: 'A connection over a Unix socket cannot be cut (wire/over-unix).',
    tests: ['wire/unix-socket.test.ts'],
  },
  {
    name: 'https-has-the-wrong-scheme',
    file: 'src/listener/accept/open-listener.ts',
    text: '{ ...options, scheme: this.#scheme }',
    replacement: "{ ...options, scheme: 'http' as const }",
    breaks: 'A request over TLS has the scheme http (wire/over-tls, the scenarios over TLS).',
    tests: ['wire/tls.test.ts'],
  },
  {
    name: 'plain-bytes-over-tls',
    file: 'src/listener/http1/response-writer.ts',
    text: 'return !(socket instanceof TLSSocket);',
    replacement: 'return true;',
    breaks: 'Bytes of the store are sent over TLS as they are (wire/over-tls, the scenarios over TLS).',
    tests: ['listener/http1/file-bodies.test.ts'],
  },
  {
    name: 'head-states-no-content',
    file: 'src/listener/respond.ts',
    text: "if (body.kind === 'none') return method === 'HEAD' ? undefined : 0;",
    replacement: "if (body.kind === 'none') return 0;",
    breaks: 'A HEAD of unknown length is told a length of 0 (the scenarios over each wire).',
    tests: ['wire/responses.test.ts'],
  },
  {
    name: 'rest-of-a-file-is-cut',
    file: 'src/listener/respond.ts',
    text: "    (stream) => pump(outlet, { kind: 'stream', sizeBytes, stream }, progress, movedBytes > 0),",
    replacement:
      "    (stream) => pump(outlet, { kind: 'stream', sizeBytes: undefined, stream }, progress, movedBytes > 0),",
    breaks: 'A file that ends early counts as whole (the scenarios over HTTP/1).',
    tests: ['listener/http1/file-bodies.test.ts'],
  },
  {
    name: 'moved-head-is-cut',
    file: 'src/listener/http1/response-writer.ts',
    text: `    if (takenBytes < head.length) this.#put(head.subarray(takenBytes));
`,
    replacement: '',
    breaks: 'The rest of a head that sendfile has not taken is lost (the scenarios over HTTP/1).',
    tests: ['listener/http1/response-moves.test.ts'],
  },
  {
    name: 'http2-client-is-not-missed',
    file: 'src/listener/http2/exchange.ts',
    text: "    else this.#abort?.abort(new ProxyError('client_gone'));",
    replacement: '',
    breaks: 'A request goes on after its HTTP/2 client has left (the scenarios over HTTP/2).',
    tests: ['wire/http2-responses.test.ts'],
  },
  {
    name: 'http2-without-trailers',
    file: 'src/listener/http2/exchange.ts',
    text: 'this.#isTrailing = mayTrail && this.#acceptsTrailers;',
    replacement: 'this.#isTrailing = false;',
    breaks: 'Trailer fields are lost over HTTP/2 (the scenarios over HTTP/2).',
    tests: ['wire/http2-responses.test.ts'],
  },
  {
    name: 'library-client-is-not-missed',
    file: 'src/embed/node-exchange.ts',
    text: `    if (!isWhole) this.#abort?.abort(new ProxyError('client_gone'));
`,
    replacement: '',
    breaks: 'A request to the library goes on after its client has left (the scenarios over the library).',
    tests: ['scenario/unread.test.ts'],
    wire: 'node',
  },
  {
    name: 'library-without-chunks',
    file: 'src/embed/node-exchange.ts',
    text: `    if (!isDelimited && !this.#isCloseDelimited) lines.push(['transfer-encoding', 'chunked']);
`,
    replacement: '',
    breaks: 'A response of unknown length has no framing in the library (the scenarios over the library).',
    tests: ['embed/servers.test.ts'],
  },
  {
    name: 'library-without-trailers',
    file: 'src/embed/node-exchange.ts',
    text: `    if (trailers.length > 0 && this.#acceptsTrailers) addTrailers(response, trailers);
`,
    replacement: '',
    breaks: 'Trailer fields are lost in the library (the scenarios over the library).',
    tests: ['embed/servers.test.ts'],
  },
];

export const plantedFaults: readonly PlantedFault[] = [...leftOut, ...carriers];
