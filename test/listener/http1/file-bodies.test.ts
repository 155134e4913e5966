/** Responses whose body the system sends from a file (move): what clients get, and the deliveries that are reported. */

import { describe, expect, it } from 'vitest';
import type { Delivery, ProxyRequest, ProxyResponse } from '../../../src/http/message.ts';
import { type Carrier, openListener, type TestListener } from '../../support/proxies/open-listener.ts';
import { allRoom, MovingBody, type Room } from '../../support/stores/moving-body.ts';
import { patternBytes } from '../../support/values/pattern-body.ts';

const body = patternBytes(0, 60_000);
const request = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';

/** Responds with a body that is moved from a file: with room in the socket for `rooms`, and, if `isGone`, an unreadable rest. */
class Ground {
  readonly deliveries: Delivery[] = [];
  readonly asked: ProxyRequest[] = [];
  readonly bodies: MovingBody[] = [];
  rooms: readonly Room[] = [allRoom];
  isGone = false;
  promisedBytes = body.length;

  async open(carrier: Carrier = 'tcp'): Promise<TestListener> {
    return await openListener((asked) => this.#respond(asked), { carrier });
  }

  #respond(asked: ProxyRequest): ProxyResponse {
    this.asked.push(asked);
    const bytes = new MovingBody(body, this.rooms);
    bytes.isGone = this.isGone;
    this.bodies.push(bytes);
    const sizeBytes = this.promisedBytes;
    return {
      status: 200,
      fields: [],
      body: asked.takesMovable ? { kind: 'file', sizeBytes, bytes } : { kind: 'bytes', sizeBytes, chunks: [body] },
      onDelivered: (delivery) => this.deliveries.push(delivery),
    };
  }
}

describe('a body that the system sends from a file', () => {
  it.each<[name: string, rooms: readonly Room[]]>([
    ['all of it', [allRoom]],
    ['a part of the head', [{ headBytes: 10, bodyBytes: 0 }]],
    ['the head only', [{ headBytes: 1000, bodyBytes: 0 }]],
    ['a part of the body', [{ headBytes: 1000, bodyBytes: 777 }]],
    ['all but one byte', [{ headBytes: 1000, bodyBytes: body.length - 1 }]],
    ['nothing', []],
  ])('arrives with its head, and so do later ones, when the socket takes %s at once', async (_name, rooms) => {
    const ground = new Ground();
    ground.rooms = rooms;
    await using listener = await ground.open();
    await using client = await listener.connect();
    for (let at = 0; at < 3; at += 1) {
      const response = await client.exchange(request);
      expect(response.body.equals(body)).toBe(true);
      await expect.poll(() => ground.deliveries).toHaveLength(at + 1);
    }
    expect(ground.deliveries.every(({ bytesSent, complete }) => complete && bytesSent === body.length)).toBe(true);
    const inOne = rooms[0] === allRoom;
    expect(ground.bodies.every(({ moves, isClosed }) => (inOne ? moves === 1 : moves > 1 && isClosed))).toBe(true);
  });

  it.each<[name: string, rooms: readonly Room[], bytesSent: number]>([
    ['nothing', [], 0],
    ['a part of the head', [{ headBytes: 10, bodyBytes: 0 }], 0],
    ['a part of the body', [{ headBytes: 1000, bodyBytes: 777 }], 777],
  ])('is cut where the rest is gone and the socket has taken %s', async (_name, rooms, bytesSent) => {
    const ground = new Ground();
    Object.assign(ground, { rooms, isGone: true });
    await using listener = await ground.open();
    await using client = await listener.connect();
    client.send(request);
    expect((await client.response())?.isWhole ?? false).toBe(false);
    await client.closed;
    expect(ground.deliveries).toMatchObject([{ bytesSent, complete: false, error: { code: 'bytes_gone' } }]);
  });

  it('is cut where the file has fewer bytes than promised', async () => {
    const ground = new Ground();
    Object.assign(ground, { rooms: [{ headBytes: 1000, bodyBytes: 777 }], promisedBytes: body.length + 1 });
    await using listener = await ground.open();
    await using client = await listener.connect();
    client.send(request);
    expect((await client.response())?.isWhole).toBe(false);
    await client.closed;
    expect(ground.deliveries).toMatchObject([{ bytesSent: body.length, complete: false, error: { code: 'internal' } }]);
  });

  it.each<[carrier: Carrier, isMoved: boolean]>([
    ['tcp', true],
    ['looked', true],
    ['proxy-protocol', true],
    ['unix', true],
    ['tls', false],
  ])('is moved over %s: %s', async (carrier, isMoved) => {
    const ground = new Ground();
    ground.rooms = [{ headBytes: 1000, bodyBytes: 10_000 }];
    await using listener = await ground.open(carrier);
    await using client = await listener.connect();
    expect((await client.exchange(request)).body.equals(body)).toBe(true);
    expect(ground.asked).toMatchObject([{ takesMovable: isMoved }]);
    expect(ground.bodies.map(({ moves }) => moves > 0)).toEqual([isMoved]);
  });

  it('is not sent for HEAD', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    await using client = await listener.connect();
    const head = request.replace('GET', 'HEAD');
    expect((await client.exchange(head)).lines).toContainEqual(['Content-Length', '60000']);
    expect(ground.bodies.map(({ moves }) => moves)).toEqual([0]);
  });

  it('waits for the responses before it', async () => {
    const ground = new Ground();
    await using listener = await ground.open();
    await using client = await listener.connect();
    client.send(request + request + request);
    for (let at = 0; at < 3; at += 1) expect((await client.response())?.body.equals(body)).toBe(true);
    await expect.poll(() => ground.deliveries).toHaveLength(3);
  });
});
