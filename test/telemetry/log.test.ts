import { describe, expect, it } from 'vitest';
import type { RequestEvent, ServerEvent } from '../../src/telemetry/events.ts';
import { createLog, fieldsOf, type LogOptions, levelOf } from '../../src/telemetry/log.ts';
import { sampleRequest } from '../support/proxies/sample-events.ts';

const request: RequestEvent = { ...sampleRequest, route: undefined, headMs: 0.4321, durationMs: 1.0444 };

const broken: RequestEvent = {
  ...request,
  target: '/big?token=abc',
  range: undefined,
  status: 200,
  bytesSent: 1_234_567,
  complete: false,
  outcome: 'miss',
  reason: 'uri-miss',
  originBytes: 2_000_000,
  durationMs: 61_234.5,
  route: 'media',
  error: 'origin_reset',
  errorDetail: 'ECONNRESET at http://ada:lovelace@files.example',
};

const everything = {
  client: '198.51.100.1',
  user: 'ada',
  apartBy: ['accept', 'cookie "a"'],
  traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
  collapsed: true,
};

const ready: ServerEvent = {
  kind: 'life',
  stage: 'ready',
  addresses: ['http://127.0.0.1:8080'],
  message: 'listens on http://127.0.0.1:8080',
};

const fullDisk: ServerEvent = { kind: 'store', level: 'error', message: 'the disk is full', detail: 'ENOSPC' };
const expired: ServerEvent = { kind: 'listener', level: 'warn', message: 'the certificate has expired' };
const badRequest: ServerEvent = {
  kind: 'refusal',
  peer: '192.0.2.7',
  status: 400,
  error: 'malformed_request',
  detail: undefined,
};
const fill: ServerEvent = {
  kind: 'fill',
  key: 'http://media.example/video.mp4?sig=abc',
  generation: 'g1',
  bytes: 5_000_000,
  resumptions: 1,
  isPart: false,
  result: 'stored',
  durationMs: 250.4,
  error: undefined,
  errorDetail: undefined,
};
const prefetch: ServerEvent = {
  kind: 'prefetch',
  route: 'media',
  key: 'http://media.example/s2.ts?sig=abc',
  result: 'failed',
  bytes: 1500,
  detail: 'the origin answered 404',
};
const tunnel: ServerEvent = {
  kind: 'tunnel',
  authority: 'media.example',
  target: '/socket',
  peer: '192.0.2.7',
  status: 101,
  bytesFromOrigin: 1000,
  bytesToOrigin: 200,
  durationMs: 5,
  error: undefined,
  errorDetail: undefined,
};

const exchange: ServerEvent = {
  kind: 'exchange',
  route: 'media',
  origin: 'http://origin.example',
  method: 'GET',
  status: 206,
  isResent: false,
  receivedBytes: 5_000_000,
  headMs: 12.345,
  durationMs: 250.5,
  isFailed: false,
  error: undefined,
  errorDetail: undefined,
};
const refused = { status: undefined, headMs: undefined, error: 'origin_refused', errorDetail: 'ECONNREFUSED' };

/** Returns the lines that a log writes for these events. */
function linesOf(
  events: readonly ServerEvent[],
  options: Partial<Omit<LogOptions, 'stream' | 'now'>>,
  terminal?: 'plain' | 'colours',
) {
  const lines: string[] = [];
  const stream = {
    isTTY: terminal !== undefined,
    hasColors: () => terminal === 'colours',
    write: (line: string) => lines.push(line),
  };
  const emit = createLog({ level: 'debug', format: 'auto', ...options, stream, now: Date.now });
  for (const event of events) emit(event);
  return lines;
}

/** Returns the pretty line of an event, without its time. */
function prettyLine(event: ServerEvent): string {
  const [line = ''] = linesOf([event], { format: 'pretty' });
  expect(line).toMatch(/^\d\d:\d\d:\d\d .*\n$/);
  return line.slice(9, -1);
}

function jsonLine(event: ServerEvent): Record<string, unknown> {
  const [line = ''] = linesOf([event], {});
  return JSON.parse(line);
}

describe('a log in JSON', () => {
  it('has one line for each request', () => {
    const { time, ...line } = jsonLine(request);
    expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    expect(line).toEqual({
      level: 'info',
      msg: 'request',
      event: 'request',
      method: 'GET',
      scheme: 'http',
      authority: 'media.example',
      target: '/video.mp4',
      version: '1.1',
      peer: '192.0.2.7',
      status: 206,
      range: 'bytes=0-99',
      bytes: 100,
      complete: true,
      outcome: 'hit',
      collapsed: false,
      originBytes: 0,
      headMs: 0.43,
      totalMs: 1.04,
    });
  });

  it.each<[what: string, given: Partial<RequestEvent>]>([
    ['no optional field', { range: undefined, route: undefined }],
    ['all optional fields', { ...broken, ...everything }],
    ['quotes and backslashes', { target: '/"a\\b"', range: '"', user: 'a"b', route: '\\', reason: '"' }],
    ['control characters', { target: '/\r\n\t\0\x1b\x7f\x9f', user: '\u2028\u202e', errorDetail: '\b\f' }],
    ['letters beyond ASCII', { target: '/Ã¤', user: 'é漢😀', authority: 'bücher.example' }],
    ['half of a surrogate pair', { target: '/\ud800', user: '\udc00x' }],
    ['secrets', { target: '/a?v=1&token=abc;sig=x', errorDetail: 'http://ada:lovelace@files.example' }],
    ['odd parameters', { target: '/a?v=1&w=&=x&&y==z#token=1', range: 'bytes=0-1, 5-' }],
    ['a secret in a method and a range', { method: '?key=1', range: 'bytes=0-1;sig=abc' }],
    ['odd addresses', { peer: 'fe80::1%eth0', client: '"unknown"', version: '2' }],
    ['large and small numbers', { bytesSent: 2 ** 53, originBytes: 0, headMs: 1e-9, durationMs: 1e21 }],
    ['numbers that JSON does not have', { headMs: Number.NaN, durationMs: Infinity, bytesSent: -0 }],
  ])('has the keys, order and values of pino with %s', (_what, given) => {
    const event = { ...request, ...given };
    const [line = ''] = linesOf([event], { worker: 3 });
    expect(line.slice(0, -1)).not.toMatch(/[^ -~\u00a1-\uffff]/);
    const { level, time, ...rest } = JSON.parse(line);
    const fields = JSON.parse(JSON.stringify({ worker: 3, ...fieldsOf(event), msg: 'request' }));
    expect(JSON.stringify({ level, time, ...rest })).toBe(line.trimEnd());
    expect([Object.entries(rest), level]).toEqual([Object.entries(fields), levelOf(event)]);
    // Other kinds of events are written by pino, and begin with the same keys.
    const [other = ''] = linesOf([fullDisk], { worker: 3 });
    expect(Object.keys(JSON.parse(other)).slice(0, 4)).toEqual(Object.keys(JSON.parse(line)).slice(0, 4));
  });

  it('has the errors of requests, without secrets', () => {
    expect(jsonLine(broken)).toMatchObject({
      level: 'warn',
      target: '/big?token=[redacted]',
      reason: 'uri-miss',
      route: 'media',
      error: 'origin_reset',
      errorDetail: 'ECONNRESET at http://[redacted]@files.example',
    });
    expect(jsonLine(fill)).toMatchObject({ key: 'http://media.example/video.mp4?sig=[redacted]' });
    expect(jsonLine(prefetch)).toMatchObject({ key: 'http://media.example/s2.ts?sig=[redacted]', result: 'failed' });
  });

  it('has the message of events of the server, a listener and the store', () => {
    expect(jsonLine(ready)).toMatchObject({
      msg: 'listens on http://127.0.0.1:8080',
      addresses: ['http://127.0.0.1:8080'],
    });
    expect(jsonLine(fullDisk)).toMatchObject({ level: 'error', msg: 'the disk is full', detail: 'ENOSPC' });
    expect(jsonLine(expired)).toMatchObject({ level: 'warn', event: 'listener', msg: 'the certificate has expired' });
  });

  it.each<[what: string, event: ServerEvent, level: string]>([
    ['a request', request, 'info'],
    ['a request that its client has left', { ...request, error: 'client_gone' }, 'info'],
    ['a request that the origin has cut', broken, 'warn'],
    ['a request whose stored bytes are gone', { ...request, error: 'bytes_gone' }, 'warn'],
    ['a request with an internal error', { ...request, error: 'internal' }, 'error'],
    ['a refusal', badRequest, 'info'],
    ['a tunnel', tunnel, 'info'],
    ['a fill', fill, 'debug'],
    ['a prefetch', prefetch, 'debug'],
    ['a fill of a part', { ...fill, isPart: true }, 'debug'],
    ['a fill that failed', { ...fill, result: 'failed' }, 'warn'],
    ['an exchange', exchange, 'debug'],
    ['an exchange that failed', { ...exchange, ...refused }, 'debug'],
    ['a cut at the end of the grace period', { ...ready, stage: 'cut' }, 'warn'],
  ])('%s has a level', (_what, event, level) => expect(jsonLine(event)).toMatchObject({ level }));
});

describe('an event that is only counted', () => {
  it.each<ServerEvent>([
    { kind: 'begun', what: 'request' },
    { kind: 'called_off', what: 'fill' },
    { kind: 'connection', stage: 'opened', scheme: 'http' },
    { kind: 'revalidation', result: 'confirmed' },
  ])('($kind) has no line', (event) => expect(linesOf([event], { level: 'trace' })).toEqual([]));
});

describe('the level of a log', () => {
  it('can be changed at any time', () => {
    const lines: string[] = [];
    const log = createLog({
      level: 'warn',
      format: 'json',
      stream: { write: (line) => lines.push(line) },
      now: Date.now,
    });
    log(request);
    expect([log.readLevel(), lines.length]).toEqual(['warn', 0]);
    log.setLevel('info');
    log(request);
    expect([log.readLevel(), lines.length]).toEqual(['info', 1]);
    log.setLevel('silent');
    log(fullDisk);
    expect(lines).toHaveLength(1);
  });
});

describe('a log that has dropped lines', () => {
  it.each<[format: LogOptions['format'], line: RegExp]>([
    [
      'json',
      /^\{"level":"warn","time":"[^"]+","event":"log","dropped":12,"msg":"the log is written again; 12 lines .+"\}$/m,
    ],
    ['pretty', /^\d\d:\d\d:\d\d warning: the log is written again; 12 lines .+$/m],
  ])('reports that as %s when lines are written again', (format, want) => {
    const lines: string[] = [];
    let tell = (_lines: number): void => {};
    const stream = {
      droppedLines: 12,
      write: (line: string) => lines.push(line),
      onGap(callback: typeof tell) {
        tell = callback;
      },
    };
    const log = createLog({ level: 'info', format, stream, now: Date.now });
    tell(12);
    expect(lines.join('')).toMatch(want);
    expect(log.readDroppedLines()).toBe(12);
  });
});

describe('a pretty log', () => {
  it.each<[want: string, event: ServerEvent]>([
    ['GET  206 hit           100 B     1 ms  /video.mp4 bytes=0-99', request],
    [
      'GET  200 miss        1.23 MB   61.2 s  /big?token=[redacted] cut (uri-miss, origin 2 MB) warning: origin_reset: ECONNRESET at http://[redacted]@files.example',
      broken,
    ],
    [
      'GET  206 miss          100 B     1 ms  /video.mp4 bytes=0-99 (uri-miss, collapsed)',
      { ...request, outcome: 'miss', reason: 'uri-miss', collapsed: true },
    ],
    [
      'GET  404 -             100 B     1 ms  /video.mp4 bytes=0-99 no_route',
      { ...request, outcome: 'none', status: 404, error: 'no_route' },
    ],
    [
      'GET  206 hit           100 B     1 ms  /\\x0d\\x0a12:00:00 GET /forged 200 bytes=0-99',
      { ...request, target: '/\r\n12:00:00 GET /forged 200' },
    ],
    ['400 refused 192.0.2.7 malformed_request', badRequest],
    ['tunnel /socket 101 5 ms', tunnel],
    ['fill http://media.example/video.mp4?sig=[redacted] stored 5 MB 250 ms', fill],
    ['prefetch http://media.example/s2.ts?sig=[redacted] failed 1.5 KB (the origin answered 404)', prefetch],
    ['origin http://origin.example GET 206 5 MB 251 ms', exchange],
    [
      'origin http://origin.example GET 0 B 3 ms origin_refused: ECONNREFUSED',
      { ...exchange, ...refused, receivedBytes: 0, durationMs: 3 },
    ],
    ['error: the disk is full (ENOSPC)', fullDisk],
    ['warning: the certificate has expired', expired],
    ['listens on http://127.0.0.1:8080', ready],
  ])('%s', (want, event) => expect(prettyLine(event)).toBe(want));

  it.each<[bytes: number, want: string]>([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1 KB'],
    [1234, '1.23 KB'],
    [999_499, '999 KB'],
    [999_500, '1 MB'],
    [12_345_678_901, '12.3 GB'],
    [9.007e15, '9.01 PB'],
  ])('%d bytes are %s', (bytesSent, want) =>
    expect(prettyLine({ ...request, bytesSent })).toContain(` hit ${want.padStart(15)} `),
  );

  it.each<[status: number, colour: number]>([
    [200, 32],
    [304, 36],
    [404, 33],
    [502, 31],
  ])('has a colour for status %d where the terminal has colours', (status, colour) => {
    const [coloured] = linesOf([{ ...request, status }], {}, 'colours');
    expect(coloured).toContain(`\u001b[${colour}m${status}\u001b[39m`);
    const [plain] = linesOf([{ ...request, status }], {}, 'plain');
    expect(plain).not.toContain('\u001b');
  });
});

describe('format and level', () => {
  it.each<[format: LogOptions['format'], terminal: 'plain' | undefined, start: RegExp]>([
    ['auto', undefined, /^\{/],
    ['auto', 'plain', /^\d\d:/],
    ['json', 'plain', /^\{/],
    ['pretty', undefined, /^\d\d:/],
  ])('%s with terminal %s', (format, terminal, start) => {
    expect(linesOf([request], { format }, terminal)[0]).toMatch(start);
  });

  it.each<[level: LogOptions['level'], lines: number]>([
    ['trace', 4],
    ['debug', 4],
    ['info', 3],
    ['warn', 2],
    ['error', 1],
    ['silent', 0],
  ])('%s writes %d lines of four', (level, lines) => {
    expect(linesOf([fill, request, broken, fullDisk], { level })).toHaveLength(lines);
  });
});
