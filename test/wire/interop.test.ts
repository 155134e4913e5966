/** The listener with Node's own clients, `node:http` and `fetch`. */

import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { buffer, text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { openListener, streamResponse, type TestListener, textResponse } from '../support/proxies/open-listener.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

async function* pattern(count: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < count; at += 1) yield patternBytes(at * 65_536, (at + 1) * 65_536);
}

describe('node:http', () => {
  it('sends its body after 100, sees early hints, and keeps its connection', async () => {
    await using listener = await openListener(async (received) => {
      received.sendInterim({ status: 103, fields: [['link', '</a>; rel=preload']] });
      let sizeBytes = 0;
      for await (const chunk of received.body ?? []) sizeBytes += chunk.length;
      return textResponse(String(sizeBytes), {
        fields: [
          ['set-cookie', 'a=1'],
          ['set-cookie', 'b=2'],
        ],
      });
    });
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let round = 0; round < 3; round += 1) {
      const sent = request({ port: listener.port, method: 'PUT', agent, headers: { Expect: '100-continue' } });
      const statuses: number[] = [];
      sent.on('information', ({ statusCode }) => statuses.push(statusCode));
      sent.on('continue', () => sent.end(patternBytes(0, 300_000)));
      sent.flushHeaders();
      const [response] = (await once(sent, 'response')) as [IncomingMessage];
      expect(statuses).toEqual([103, 100]);
      expect(response.headers['set-cookie']).toEqual(['a=1', 'b=2']);
      expect(await text(response)).toBe('300000');
    }
    expect(portsOf(listener).size).toBe(1);
    agent.destroy();
  });

  it('sees that a body broke off', async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield* pattern(1);
      throw new Error('broken');
    }
    await using listener = await openListener(() => streamResponse(broken(), undefined));
    const sent = request({ port: listener.port }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    await expect(buffer(response)).rejects.toMatchObject({ code: 'ECONNRESET' });
  });
});

describe('fetch', () => {
  it('reads streams of known and of unknown length, and uploads', async () => {
    await using listener = await openListener(async ({ body, target }) => {
      if (body === undefined) return streamResponse(pattern(64), target === '/known' ? 64 * 65_536 : undefined);
      const chunks: Uint8Array[] = [];
      for await (const chunk of body) chunks.push(chunk);
      return textResponse(Buffer.concat(chunks).toString());
    });
    const { url } = listener.listener.address;
    for (const path of ['/known', '/unknown']) {
      const bytes = await (await fetch(url + path)).bytes();
      expect(Buffer.from(bytes).equals(patternBytes(0, 64 * 65_536)), path).toBe(true);
    }
    const upload = await fetch(url, { method: 'POST', body: new Blob(['up', 'load']).stream(), duplex: 'half' });
    expect(await upload.text()).toBe('upload');
  });
});

function portsOf({ requests }: TestListener): Set<number> {
  return new Set(requests.map(({ peer }) => peer.port));
}
