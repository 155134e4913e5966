/** Every form that a request can take in frames (RFC 9113 §8.1): the origin gets the same request, and the client gets its response. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { encodeFields } from '../support/clients/h2-hpack.ts';
import {
  errorCode,
  flag,
  frameBytes,
  frameType,
  getFields,
  H2RawClient,
  postFields,
} from '../support/clients/h2-raw-client.ts';
import { readRecorded } from '../support/origins/recorded-requests.ts';
import { openRecordingOrigin } from '../support/origins/recording-origin.ts';

/** The content of each DATA frame in turn. */
const contents: readonly (readonly string[])[] = [[], [''], ['abc'], ['', 'abc'], ['abc', ''], ['', ''], ['a', 'bc']];

interface Form {
  readonly method: 'GET' | 'POST';
  readonly content: readonly string[];
  readonly isContinued: boolean;
  readonly hasTrailers: boolean;
  readonly hasLength: boolean;
  /** By how many bytes Content-Length exceeds the content; negative where it is too small. */
  readonly excess?: number;
}

const forms: Form[] = (['GET', 'POST'] as const).flatMap((method) =>
  contents.flatMap((content) =>
    [false, true].flatMap((isContinued) =>
      [false, true].flatMap((hasTrailers) =>
        [false, true].map((hasLength) => ({ method, content, isContinued, hasTrailers, hasLength })),
      ),
    ),
  ),
);

function nameOf({ method, content, isContinued, hasTrailers, hasLength }: Form): string {
  const parts = [
    `${method} ${hasLength ? 'with' : 'without'} a length: HEADERS`,
    ...(isContinued ? ['CONTINUATION'] : []),
    ...content.map((text) => (text === '' ? 'empty DATA' : 'DATA')),
    ...(hasTrailers ? ['trailers'] : []),
  ];
  return parts.join(', ');
}

/** The frames of a request on a stream; the last one ends it. */
function framesOf(form: Form, stream: number): Buffer[] {
  const { method, content, isContinued, hasTrailers, hasLength, excess = 0 } = form;
  const length = String(content.join('').length + excess);
  const fields = (method === 'GET' ? getFields : postFields)('/x', hasLength ? [['content-length', length]] : []);
  const block = encodeFields(fields);
  const cut = isContinued ? Math.floor(block.length / 2) : block.length;
  const isHeadLast = content.length === 0 && !hasTrailers;
  const ending = isHeadLast ? flag.endStream : 0;
  const { headers, continuation, data } = frameType;
  return [
    frameBytes(headers, ending | (isContinued ? 0 : flag.endHeaders), stream, block.subarray(0, cut)),
    ...(isContinued ? [frameBytes(continuation, flag.endHeaders, stream, block.subarray(cut))] : []),
    ...content.map((text, at) => {
      const isLast = at === content.length - 1 && !hasTrailers;
      return frameBytes(data, isLast ? flag.endStream : 0, stream, Buffer.from(text));
    }),
    ...(hasTrailers
      ? [frameBytes(headers, flag.endHeaders | flag.endStream, stream, encodeFields([['x-sum', '1']]))]
      : []),
  ];
}

let origin: Awaited<ReturnType<typeof openRecordingOrigin>>;
let server: RunningServer;
let client: H2RawClient;
let stream = -1;

beforeAll(async () => {
  origin = await openRecordingOrigin();
  const listen = [{ address: '127.0.0.1:0', http2: true }];
  const loaded = checkConfig({ listen, store: { type: 'memory' }, routes: [{ origin: origin.url }] }, '/');
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  server = await start(loaded.config);
  client = await H2RawClient.open(Number(new URL(server.url).port));
});

afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await server.close({ graceMs: 0 });
  await origin[Symbol.asyncDispose]();
});

async function expectAnswer({ method, content }: Form): Promise<void> {
  const { status, body, isEnded, resetCode } = await client.whenOver(stream);
  expect([status, body.toString(), isEnded]).toEqual([200, 'ok', true]);
  // A request without content may be answered before the client ends its side. The stream is then reset with NO_ERROR.
  expect([undefined, errorCode.none]).toContain(resetCode);
  const seen = (await readRecorded(origin)).map(({ method, target, body }) => `${method} ${target} ${body}`);
  expect(seen).toEqual([`${method} /x ${content.join('')}`]);
}

async function sendEachFrame(form: Form): Promise<void> {
  for (const [at, frame] of framesOf(form, stream).entries()) {
    // No other frame may come between the frames of one field section (RFC 9113 §6.10).
    if (at > 0 && frame[3] !== frameType.continuation) await client.roundTrip();
    client.send(frame);
  }
}

describe.each(forms.map((form) => ({ name: nameOf(form), form })))('$name', ({ form }) => {
  it('is a request, in one write', async () => {
    origin.reset();
    stream += 2;
    client.send(Buffer.concat(framesOf(form, stream)));
    await expectAnswer(form);
  });

  it('is a request, in a write for each frame', async () => {
    origin.reset();
    stream += 2;
    await sendEachFrame(form);
    await expectAnswer(form);
  });
});

const falseLengths = forms
  .filter(({ hasLength }) => hasLength)
  .flatMap((form) => [1, -1].map((excess) => ({ ...form, excess })))
  .filter(({ content, excess }) => content.join('').length + excess >= 0);

describe.each(falseLengths.map((form) => ({ name: nameOf(form), form })))(
  '$name, whose length is off by $form.excess',
  ({ form }) => {
    /** A stream error (RFC 9113 §8.1.1): a reset, or 400 before that; the connection takes further requests. */
    async function expectStreamError(): Promise<void> {
      await client.until(() => client.outcome(stream).resetCode !== undefined || client.goawayCode !== undefined);
      const { status = 400, resetCode } = client.outcome(stream);
      expect([status, resetCode, client.goawayCode]).toEqual([400, errorCode.protocol, undefined]);
      stream += 2;
      client.request(stream, getFields('/x'));
      expect((await client.whenOver(stream)).status).toBe(200);
    }

    it('is an error of its stream, in one write', async () => {
      stream += 2;
      client.send(Buffer.concat(framesOf(form, stream)));
      await expectStreamError();
    });

    it('is an error of its stream, in a write for each frame', async () => {
      stream += 2;
      await sendEachFrame(form);
      await expectStreamError();
    });
  },
);
