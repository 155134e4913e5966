/**
 * The log line of a request as JSON. It has the keys, order and types that pino gives the same fields (`log-record.ts`), and costs
 * a tenth: the keys are fixed text, and only a value with something to escape or to redact is looked at twice.
 */

import type { RequestEvent } from './events.ts';
import { roundMs } from './log-record.ts';
import { hasSecretParameter, redact } from './redact.ts';

/** ASCII in which JSON escapes nothing, and in which `redact` could only find secret parameters: no control character, `"`, `\` or `@`. */
const plain = /^[ !#-?A-[\]-~]*$/;

/** The line, with its end. `level`, `time` and what follows them are given as JSON: `"level":"info","time":"…","worker":1`. */
export function formatRequestLine(event: RequestEvent, head: string): string {
  const { range, reason, apartBy, route, client, user, error, errorDetail, traceId } = event;
  return `{${head},"event":"request","method":${redacted(event.method)},"scheme":${quoted(event.scheme)},"authority":${redacted(event.authority)},"target":${redacted(event.target)},"version":${quoted(event.version)},"status":${event.status}${
    range === undefined ? '' : `,"range":${redacted(range)}`
  },"bytes":${number(event.bytesSent)},"complete":${event.complete},"outcome":"${event.outcome}"${
    reason === undefined ? '' : `,"reason":${redacted(reason)}`
  }${apartBy === undefined ? '' : `,"apartBy":${redacted(apartBy.join(', '))}`},"collapsed":${event.collapsed},"originBytes":${number(
    event.originBytes,
  )},"headMs":${number(roundMs(event.headMs))},"totalMs":${number(roundMs(event.durationMs))}${
    route === undefined ? '' : `,"route":${redacted(route)}`
  },"peer":${quoted(event.peer)}${client === undefined ? '' : `,"client":${quoted(client)}`}${
    user === undefined ? '' : `,"user":${redacted(user)}`
  }${error === undefined ? '' : `,"error":${quoted(error)}`}${
    errorDetail === undefined ? '' : `,"errorDetail":${redacted(errorDetail)}`
  }${traceId === undefined ? '' : `,"traceId":${quoted(traceId)}`},"msg":"request"}\n`;
}

function redacted(text: string): string {
  return plain.test(text) && !hasSecretParameter(text) ? `"${text}"` : JSON.stringify(redact(text));
}

function quoted(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** JSON has no NaN and no infinity. */
function number(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
