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
    text: 'return escapeUnsafe(withoutSecretParameters(withoutUserinfo(text)));',
    replacement: 'return escapeUnsafe(withoutUserinfo(text));',
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

export const plantedFaults: readonly PlantedFault[] = leftOut;
