/** The queue between the connection to an origin and the reader of a body. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { type Flow, ReceivedBody } from '../../src/origin/exchange.ts';
import { codeOf } from '../support/origins/origin-request.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const kibibyte = 1024;

/** Creates a body. `asked` has its calls to its connection so far. */
function createBody(sizeBytes?: number): { body: ReceivedBody; asked: string[] } {
  const asked: string[] = [];
  const flow: Flow = {
    pause: () => asked.push('pause'),
    resume: () => asked.push('resume'),
    abort: (reason) => asked.push(`abort ${reason.code}`),
  };
  return { body: new ReceivedBody(sizeBytes, flow), asked };
}

/** The next chunk's length, `end`, or the code of the failure. */
async function nextOf(body: ReceivedBody): Promise<number | string> {
  try {
    const { done, value } = await body.next();
    return done === true ? 'end' : value.length;
  } catch (thrown) {
    return codeOf(thrown);
  }
}

describe('a received body', () => {
  it('returns each chunk once, in order, and then its end', async () => {
    const { body, asked } = createBody(3);
    body.push(Buffer.alloc(1));
    body.push(Buffer.alloc(2));
    body.end();
    expect([await nextOf(body), await nextOf(body), await nextOf(body), await nextOf(body)]).toEqual([
      1,
      2,
      'end',
      'end',
    ]);
    expect(asked).toEqual([]);
  });

  it('returns present chunks without a promise, and leaves waiting and failing to the iteration', async () => {
    const { body, asked } = createBody(9);
    expect(body.take()).toBe('later');
    body.push(Buffer.alloc(4));
    body.push(Buffer.alloc(5));
    expect([body.take(), await nextOf(body), body.take()]).toEqual([Buffer.alloc(4), 5, 'later']);
    body.end();
    expect([body.take(), await nextOf(body)]).toEqual(['end', 'end']);
    expect(asked).toEqual([]);
    const { body: broken } = createBody(9);
    broken.push(Buffer.alloc(4));
    broken.fail(new ProxyError('origin_reset'));
    expect([broken.take(), broken.take(), await nextOf(broken)]).toEqual([Buffer.alloc(4), 'later', 'origin_reset']);
  });

  it('pauses and resumes its connection, whether chunks are taken or awaited', () => {
    const { body, asked } = createBody();
    for (let chunk = 0; chunk < 3; chunk += 1) body.push(Buffer.alloc(64 * kibibyte));
    expect(asked).toEqual(['pause']);
    while (body.take() !== 'later');
    expect(asked).toEqual(['pause', 'resume']);
    body.push(Buffer.alloc(1));
    body.close();
    expect(body.take()).toBe('later');
  });

  it('returns all received chunks before it throws', async () => {
    const { body } = createBody(9);
    body.push(Buffer.alloc(4));
    body.fail(new ProxyError('origin_reset'));
    body.fail(new ProxyError('internal'));
    expect([await nextOf(body), await nextOf(body), await nextOf(body)]).toEqual([4, 'origin_reset', 'origin_reset']);
  });

  it('wakes a waiting reader with a chunk, the end or the failure', async () => {
    const { body } = createBody();
    const chunk = nextOf(body);
    body.push(Buffer.alloc(5));
    expect(await chunk).toBe(5);
    const end = nextOf(body);
    body.end();
    expect(await end).toBe('end');
    const broken = createBody().body;
    const failure = nextOf(broken);
    broken.fail(new ProxyError('origin_timeout'));
    expect(await failure).toBe('origin_timeout');
  });

  it('pauses the connection when much is unread, and resumes it when half of that is read', async () => {
    const { body, asked } = createBody();
    for (let count = 0; count < 4; count++) body.push(Buffer.alloc(32 * kibibyte));
    expect(asked).toEqual(['pause']);
    await nextOf(body);
    expect(asked).toEqual(['pause']);
    await nextOf(body);
    await nextOf(body);
    expect(asked).toEqual(['pause', 'resume']);
  });

  it('pauses the connection when many tiny chunks are unread', () => {
    const { body, asked } = createBody();
    for (let count = 0; count < kibibyte; count++) body.push(Buffer.alloc(1));
    expect(asked).toEqual(['pause']);
  });

  it('leaves the connection alone once it has ended', async () => {
    const { body, asked } = createBody();
    body.push(Buffer.alloc(512 * kibibyte));
    body.end();
    await nextOf(body);
    body.close();
    expect(asked).toEqual(['pause']);
  });

  it.each<[name: string, sizeBytes: number | undefined, received: number, asked: string[]]>([
    ['much is missing', 1024 * kibibyte, 4, ['abort client_gone']],
    ['the length is not known', undefined, 4, ['abort client_gone']],
    ['little is missing', 4 * kibibyte, 4, []],
    ['little is missing of much', 1024 * kibibyte, 1020 * kibibyte, ['pause', 'resume']],
  ])('cuts its connection only where much may be missing: closed when %s', async (_name, sizeBytes, received, want) => {
    const { body, asked } = createBody(sizeBytes);
    body.push(Buffer.alloc(received));
    body.close();
    body.close();
    expect(asked).toEqual(want);
    body.push(Buffer.alloc(4));
    body.end();
    expect(await nextOf(body)).toBe('client_gone');
  });

  it('loses no byte, however pushing and reading alternate', async () => {
    // Each chunk arrives after some turns of its reader.
    const chunks = fc.array(fc.tuple(fc.nat({ max: 40 * kibibyte }), fc.nat({ max: 3 })), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(chunks, async (sent) => {
        const { body } = createBody();
        const received: Uint8Array[] = [];
        const reading = (async () => {
          for await (const chunk of body) received.push(chunk);
        })();
        let sizeBytes = 0;
        for (const [length, turns] of sent) {
          for (let turn = 0; turn < turns; turn++) await Promise.resolve();
          body.push(patternBytes(sizeBytes, sizeBytes + length));
          sizeBytes += length;
        }
        body.end();
        await reading;
        expect(Buffer.concat(received).equals(patternBytes(0, sizeBytes))).toBe(true);
      }),
      { numRuns: 50 },
    );
  });
});
