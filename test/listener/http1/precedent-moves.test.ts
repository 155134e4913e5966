/** Requests that follow a precedent whose bytes the system moves: what they get, and what is told of it. */

import { describe, expect, it } from 'vitest';
import type { Delivery, EqualRequest, PrecedentResponse, ProxyResponse } from '../../../src/http/message.ts';
import { allRoom, MovingBody, type Room } from '../../support/moving-body.ts';
import { type Carrier, openListener, type TestListener } from '../../support/open-listener.ts';
import { patternBytes } from '../../support/pattern-body.ts';

const body = patternBytes(0, 60_000);
const request = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';

/** Gives the first response a precedent that is moved, with so much room, and what cannot be read then. */
class Ground {
  readonly deliveries: Delivery[] = [];
  readonly followed: EqualRequest[] = [];
  readonly bodies: MovingBody[] = [];
  rooms: readonly Room[] = [allRoom];
  isGone = false;

  async open(carrier: Carrier = 'tcp'): Promise<TestListener> {
    return await openListener(() => this.#respond(), { carrier });
  }

  #respond(): ProxyResponse {
    return {
      status: 200,
      fields: [['x-road', 'whole']],
      body: { kind: 'bytes', sizeBytes: body.length, chunks: [body] },
      precedent: { follow: (equal) => this.#follow(equal) },
    };
  }

  #follow(equal: EqualRequest): PrecedentResponse {
    this.followed.push(equal);
    const movable = new MovingBody(body, this.rooms);
    movable.isGone = this.isGone;
    this.bodies.push(movable);
    return {
      status: 200,
      fields: [],
      contentRange: undefined,
      sizeBytes: body.length,
      ...(equal.takesMovable === true ? { chunks: [], movable } : { chunks: [body] }),
      onDelivered: (delivery) => this.deliveries.push(delivery),
    };
  }
}

describe('a request whose precedent is moved', () => {
  it.each<[name: string, rooms: readonly Room[]]>([
    ['all of it', [allRoom]],
    ['a part of the head', [{ headBytes: 10, bodyBytes: 0 }]],
    ['the head only', [{ headBytes: 1000, bodyBytes: 0 }]],
    ['a part of the body', [{ headBytes: 1000, bodyBytes: 777 }]],
    ['all but one byte', [{ headBytes: 1000, bodyBytes: body.length - 1 }]],
    ['nothing', []],
  ])('gets head and body, the socket taking %s, and the next one does', async (_name, rooms) => {
    const ground = new Ground();
    ground.rooms = rooms;
    await using listener = await ground.open();
    await using client = await listener.connect();
    await client.exchange(request);
    for (let at = 0; at < 3; at += 1) {
      const response = await client.exchange(request);
      expect(response.lines).not.toContainEqual(['X-Road', 'whole']);
      expect(response.body.equals(body)).toBe(true);
      await expect.poll(() => ground.deliveries).toHaveLength(at + 1);
    }
    expect(ground.deliveries.every(({ bytesSent, complete }) => complete && bytesSent === body.length)).toBe(true);
    expect(ground.bodies.map(({ moves }) => moves)).toEqual([1, 1, 1]);
  });

  it.each<[name: string, rooms: readonly Room[], bytesSent: number]>([
    ['nothing', [], 0],
    ['a part of the head', [{ headBytes: 10, bodyBytes: 0 }], 0],
    ['a part of the body', [{ headBytes: 1000, bodyBytes: 777 }], 777],
  ])('is cut where the rest is gone, the socket having taken %s', async (_name, rooms, bytesSent) => {
    const ground = new Ground();
    Object.assign(ground, { rooms, isGone: true });
    await using listener = await ground.open();
    await using client = await listener.connect();
    await client.exchange(request);
    client.send(request);
    expect((await client.response())?.isWhole ?? false).toBe(false);
    await client.closed;
    expect(ground.deliveries).toMatchObject([{ bytesSent, complete: false, error: { code: 'bytes_gone' } }]);
  });

  it.each<[carrier: Carrier, isMoved: boolean]>([
    ['tcp', true],
    ['looked', true],
    ['proxy-protocol', true],
    ['unix', true],
    ['tls', false],
  ])('is told over %s whether it takes that: %s', async (carrier, isMoved) => {
    const ground = new Ground();
    ground.rooms = [{ headBytes: 1000, bodyBytes: 10_000 }];
    await using listener = await ground.open(carrier);
    await using client = await listener.connect();
    await client.exchange(request);
    expect((await client.exchange(request)).body.equals(body)).toBe(true);
    expect(ground.followed).toMatchObject([{ takesMovable: isMoved }]);
    expect(ground.bodies.map(({ moves }) => moves)).toEqual([isMoved ? 1 : 0]);
  });

  it('is not moved for HEAD', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    await using client = await listener.connect();
    const head = request.replace('GET', 'HEAD');
    await client.exchange(head);
    expect((await client.exchange(head)).lines).toContainEqual(['Content-Length', '60000']);
    expect(ground.followed).toMatchObject([{ takesMovable: false }]);
  });
});
