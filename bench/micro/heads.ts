/** HTTP/1.1 heads: reading those of requests, writing those of responses. */

import { HeadParser } from '../../src/listener/http1/head-parser.ts';
import { DateLine, formatFieldLines } from '../../src/listener/http1/response-writer.ts';
import { formatHttpDate } from '../../src/semantics/http-date.ts';
import type { MicroCase } from '../micro-case.ts';
import { now, request, requestFields, stored } from '../micro-sample.ts';

const head = Buffer.from(
  `GET ${request.target} HTTP/1.1\r\n${requestFields.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
);
const limits = { targetBytes: 8192, fieldsBytes: 16_384, maxFieldCount: 100 };
const parser = new HeadParser(limits);
const fields = [...stored.fields, ['age', '60'] as const, ['cache-status', 'rangeway; hit; ttl=86340'] as const];
const dateLine = new DateLine();

export const cases: readonly MicroCase[] = [
  {
    name: 'HeadParser.read, a head in one piece',
    call() {
      parser.reset();
      return parser.read(head);
    },
  },
  { name: 'formatFieldLines', call: () => formatFieldLines(fields) },
  { name: 'DateLine.at', call: (turn) => dateLine.at(now + turn) },
  { name: 'formatHttpDate', call: (turn) => formatHttpDate(now + turn * 1000) },
];
