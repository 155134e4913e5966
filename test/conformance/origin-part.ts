/** The origin of a row: writes the reply that the row states. */

import { fieldValue, hasField } from '../../src/http/fields.ts';
import { formatHttpDate } from '../../src/semantics/http-date.ts';
import type { Exchange, ScriptedRequest } from '../support/origins/scripted-origin.ts';
import { fieldsOf } from '../support/values/fields-of.ts';
import type { Reply } from './rows.ts';

/** A reply with a body. */
export type Part = Reply & { readonly body: string };

/** Answers one request. `now` in epoch milliseconds. */
export async function playOrigin(exchange: Exchange, part: Part, now: number): Promise<void> {
  const { request, send, body, cut, end } = exchange;
  await body();
  if (part.fault === 'silence') return;
  if (part.fault === 'before') return cut();
  for (const [line, ...fields] of part.interim ?? []) await send(headOf(line ?? '', fields));
  const { status, text, more } = selectRange(request, part);
  const isBare = status === 204 || status === 304;
  const fields = [...(part.fields ?? []), ...more];
  const replyFields = fieldsOf(...fields);
  if (part.hasDate !== false && !hasField(replyFields, 'date')) fields.push(`Date: ${formatHttpDate(now)}`);
  if (!isBare && !hasField(replyFields, 'content-length')) fields.push(`Content-Length: ${text.length}`);
  const head = headOf(`${status} Said`, fields);
  const content = isBare || request.method === 'HEAD' ? '' : text;
  if (part.fault !== 'midway') return void (await send(head + content));
  await send(head + content.slice(0, content.length / 2));
  end();
}

function headOf(line: string, fields: readonly string[]): string {
  return `${[`HTTP/1.1 ${line}`, ...fields].join('\r\n')}\r\n\r\n`;
}

/** Picks the part of the body that the request's Range asks for, with its fields (RFC 9110 §14.2, §13.1.5). */
function selectRange({ fields }: ScriptedRequest, { status = 200, body, fields: own = [], hasRanges }: Part) {
  const whole = { status, text: body, more: [] };
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(fieldValue(fields, 'range') ?? '') ?? [];
  const condition = fieldValue(fields, 'if-range');
  const isWhole = condition !== undefined && condition !== fieldValue(fieldsOf(...own), 'etag');
  if (hasRanges !== true || first + last === '' || isWhole) return whole;
  const start = first === '' ? Math.max(0, body.length - Number(last)) : Number(first);
  const end = first === '' || last === '' ? body.length : Math.min(body.length, Number(last) + 1);
  if (start >= body.length) return { status: 416, text: '', more: [`Content-Range: bytes */${body.length}`] };
  return {
    status: 206,
    text: body.slice(start, end),
    more: [`Content-Range: bytes ${start}-${end - 1}/${body.length}`],
  };
}
