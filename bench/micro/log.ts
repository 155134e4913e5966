/** The cost of a log line, up to the bytes that are passed to the system. The write itself is not included. */

import { LineBuffer } from '../../src/cli/process-log.ts';
import { systemClock } from '../../src/setup/system.ts';
import type { Emit } from '../../src/telemetry/events.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { redact } from '../../src/telemetry/redact.ts';
import { sampleRequest as event } from '../../test/support/proxies/sample-events.ts';
import type { MicroCase } from '../micro-case.ts';

const stream = new LineBuffer({
  pieceBytes: 4096,
  write: (piece) => Buffer.byteLength(piece),
  after: () => () => undefined,
  sleep: () => undefined,
});
const log = createLog({ level: 'info', format: 'json', stream, now: systemClock.now });
const quiet = createLog({ level: 'warn', format: 'json', stream, now: systemClock.now });
const hits = Array.from({ length: 1000 }, (_, at) => ({ ...event, target: `/media/${at}.mp4`, durationMs: at % 4 }));
const searches = hits.map((hit, at) => ({ ...hit, target: `${hit.target}?v=${at}&lang=en` }));
const signed = hits.map((hit) => ({ ...hit, target: `${hit.target}?expires=1&signature=abc` }));

export const cases: readonly MicroCase[] = [
  { name: 'request line', call: (turn) => write(log, hits, turn) },
  { name: 'request line, with a query', call: (turn) => write(log, searches, turn) },
  { name: 'request line, with a secret', call: (turn) => write(log, signed, turn) },
  { name: 'request line, level above info', call: (turn) => write(quiet, hits, turn) },
  { name: 'redact, with a query', call: (turn) => redact((searches[turn % 1000] as typeof event).target) },
];

function write(to: Emit, events: readonly (typeof event)[], turn: number): number {
  to(events[turn % events.length] as typeof event);
  return stream.droppedLines;
}
