/** Responses whose bytes the system moves: in order, complete, counted, and only behind bytes that have left. */

import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Delivery, ProxyRequest, ProxyResponse } from '../../../src/http/message.ts';
import { ResponseWriter } from '../../../src/listener/http1/response-writer.ts';
import { takenBytes } from '../../../src/listener/timeouts.ts';
import { WriteBuffer } from '../../../src/listener/write-buffer.ts';
import { type Carrier, openListener } from '../../support/proxies/open-listener.ts';
import { allRoom, MovingBody, type Room } from '../../support/stores/moving-body.ts';
import { patternBytes } from '../../support/values/pattern-body.ts';

const body = patternBytes(0, 100_000);
const head = 'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n';

/** A place whose socket records all written and moved bytes, in order. */
class Place {
  movedBytes = 0;
  turns = 0;
  readonly output: Uint8Array[] = [];
  /** Callbacks to call when written bytes are taken. */
  readonly untaken: (() => void)[] = [];
  readonly context = { writeBuffer: new WriteBuffer() };
  readonly fake = {
    writable: true,
    writableLength: 0,
    errored: null as Error | null,
    destroyed: false,
    _handle: { fd: 7 } as { fd: number } | null,
    corks: 0,
    write: (piece: string | Uint8Array, onTaken?: () => void) => {
      if (onTaken !== undefined) this.untaken.push(onTaken);
      this.output.push(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : Buffer.from(piece));
      return true;
    },
    cork() {
      this.corks += 1;
    },
    uncork() {
      this.corks -= 1;
    },
  };

  get socket(): Socket {
    return this.fake as unknown as Socket;
  }

  passTurn(): void {
    this.turns += 1;
  }

  /** A body that is moved here. */
  body(...rooms: Room[]): MovingBody {
    return new MovingBody(body, rooms, (_socket, bytes) => {
      this.output.push(Buffer.from(bytes));
      return bytes.length;
    });
  }

  get text(): string {
    return Buffer.concat(this.output).toString('latin1');
  }
}

/** Creates a writer that has its turn, and has begun its response. */
function begun(place: Place, isChunked = false): ResponseWriter {
  const writer = new ResponseWriter(place, () => {});
  writer.takeTurn();
  writer.begin(head, isChunked);
  return writer;
}

const latin1 = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');

/** Waits until the writes of this tick are over. */
const tick = () => new Promise<void>((resolve) => process.nextTick(resolve));

describe('a response writer', () => {
  it.each<[name: string, room: Room, moved: number, counted: number]>([
    ['all of it', allRoom, body.length, head.length + body.length],
    ['the head, and nothing', { headBytes: head.length, bodyBytes: 0 }, 0, head.length],
    ['the head, and a part', { headBytes: head.length, bodyBytes: 5 }, 5, head.length + 5],
    ['a part of the head', { headBytes: 10, bodyBytes: 0 }, 0, 10],
    ['nothing', { headBytes: 0, bodyBytes: 0 }, 0, 0],
  ])('moves the head and the body, when the socket takes %s', async (_name, room, moved, counted) => {
    const place = new Place();
    const writer = begun(place);
    await tick();
    const content = place.body(room);
    expect(writer.move(content)).toBe(moved);
    expect(place.movedBytes).toBe(counted);
    for (let chunk = content.take(); typeof chunk !== 'string'; chunk = content.take()) writer.write(chunk);
    writer.end([], '');
    expect(place.text).toBe(head + Buffer.from(body).toString('latin1'));
  });

  it('has no more room after moved bytes until the bytes written next are taken', async () => {
    const place = new Place();
    const writer = begun(place);
    await tick();
    const content = place.body({ headBytes: 1000, bodyBytes: 7 }, { headBytes: 0, bodyBytes: 9 });
    const rest = Buffer.from('rest');
    for (const moved of [7, 9]) {
      expect(writer.move(content)).toBe(moved);
      expect([writer.write(rest), place.fake.corks, writer.isBehind]).toEqual([false, 0, false]);
      const room = writer.room();
      expect(writer.isBehind).toBe(true);
      place.untaken.pop()?.();
      await room;
      expect(writer.isBehind).toBe(false);
    }
    expect([writer.move(content), writer.write(rest), place.untaken]).toEqual([0, true, []]);
  });

  it('writes nothing more after moved bytes into a socket that has ended, and has no room', async () => {
    const place = new Place();
    const writer = begun(place);
    await tick();
    writer.move(place.body({ headBytes: 1000, bodyBytes: 7 }));
    place.fake.writable = false;
    const before = place.text;
    expect([writer.write(Buffer.from('rest')), place.text]).toEqual([false, before]);
  });

  it.each<[name: string, change: (place: Place, writer: ResponseWriter) => void, isChunked?: boolean]>([
    ['in chunks', () => {}, true],
    ['behind bytes that were just written', (_place, writer) => void writer.write(body.subarray(0, 100))],
    ['behind bytes that wait in the process', (place) => void Object.assign(place.fake, { writableLength: 1 })],
    ['on a socket that has ended', (place) => void Object.assign(place.fake, { writable: false })],
    ['on a socket that has failed', (place) => void Object.assign(place.fake, { errored: new Error('reset') })],
    ['on a socket that is gone', (place) => void Object.assign(place.fake, { destroyed: true })],
    ['on a socket without a descriptor', (place) => void Object.assign(place.fake, { _handle: null })],
    ['on a socket whose descriptor is closed', (place) => void Object.assign(place.fake, { _handle: { fd: -1 } })],
  ])('moves nothing %s', async (_name, change, isChunked) => {
    const place = new Place();
    const writer = begun(place, isChunked);
    await tick();
    change(place, writer);
    const content = place.body(allRoom);
    expect([writer.move(content), content.moves, place.movedBytes]).toEqual([0, 0, 0]);
  });

  it('writes the head and a chunk of more than 8 KiB in the same tick', () => {
    const place = new Place();
    const writer = begun(place);
    expect([writer.write(body), place.fake.corks, place.text]).toEqual([true, 0, head + latin1(body)]);
    expect(writer.unsentBytes).toBe(0);
    place.fake.writableLength = 5;
    expect(writer.unsentBytes).toBe(5);
    place.fake.destroyed = true;
    expect(writer.unsentBytes).toBe(Number.POSITIVE_INFINITY);
  });

  it('moves nothing before its turn, and puts an interim response before the head', async () => {
    const place = new Place();
    const writer = new ResponseWriter(place, () => {});
    const interim = 'HTTP/1.1 103 Early Hints\r\n\r\n';
    writer.interim(interim);
    const content = place.body(allRoom);
    expect([writer.move(content), content.moves]).toEqual([0, 0]);
    writer.takeTurn();
    writer.begin(head, false);
    expect(writer.move(content)).toBe(0);
    await tick();
    expect(writer.move(content)).toBe(body.length);
    expect(place.text).toBe(interim + head + Buffer.from(body).toString('latin1'));
  });

  it('moves the rest of the body without the head', async () => {
    const place = new Place();
    const writer = begun(place);
    await tick();
    const content = place.body({ headBytes: 1000, bodyBytes: 7 }, allRoom);
    expect([writer.move(content), writer.move(content), writer.move(content)]).toEqual([7, body.length - 7, 0]);
    expect(place.text).toBe(head + Buffer.from(body).toString('latin1'));
  });
});

describe('the bytes that a client has taken', () => {
  it.each<[name: string, socket: object, movedBytes: number | undefined, taken: number]>([
    ['counted from written bytes', { bytesWritten: 10, writableLength: 3 }, undefined, 7],
    ['including moved bytes', { bytesWritten: 10, writableLength: 3, _handle: null }, 100, 107],
    [
      'counted by the handle',
      { bytesWritten: 99, writableLength: 3, _handle: { bytesWritten: 20, writeQueueSize: 5 } },
      100,
      115,
    ],
  ])('are %s', (_name, socket, movedBytes, taken) => {
    expect(takenBytes({ socket: socket as Socket, ...(movedBytes !== undefined && { movedBytes }) })).toBe(taken);
  });
});

/** A handler that responds with a body to move, and records the deliveries. */
class Ground {
  readonly deliveries: Delivery[] = [];
  readonly bodies: MovingBody[] = [];
  sizeBytes: number | undefined = body.length;
  rooms: readonly Room[] = [allRoom];
  onRequest: (request: ProxyRequest) => void = () => {};

  readonly respond = (request: ProxyRequest): ProxyResponse => {
    this.onRequest(request);
    const stream = new MovingBody(body, this.rooms);
    this.bodies.push(stream);
    const { sizeBytes } = this;
    const onDelivered = (delivery: Delivery) => void this.deliveries.push(delivery);
    return { status: 200, fields: [], body: { kind: 'stream', sizeBytes, stream }, onDelivered };
  };

  get moves(): readonly number[] {
    return this.bodies.map(({ moves }) => moves);
  }
}

const get = (lines = '', version = '1.1') => `GET /x HTTP/${version}\r\nHost: a\r\n${lines}\r\n`;

describe('a body that can be moved', () => {
  it.each<[carrier: Carrier, moves: boolean]>([
    ['tcp', true],
    ['looked', true],
    ['proxy-protocol', true],
    ['unix', true],
    ['tls', false],
  ])('arrives complete over %s, moved: %s', async (carrier, isMoved) => {
    const context = new Ground();
    await using listener = await openListener(context.respond, { carrier });
    await using client = await listener.connect();
    // Unix sockets have smaller buffers than the others.
    context.rooms = [{ headBytes: 1000, bodyBytes: 20_000 }, allRoom];
    client.send(get());
    const response = await client.response();
    expect(response?.isWhole).toBe(true);
    expect(response?.body.equals(body)).toBe(true);
    expect((context.moves[0] ?? 0) > 0).toBe(isMoved);
    await expect.poll(() => context.deliveries).toEqual([{ bytesSent: body.length, complete: true }]);
    expect(context.bodies[0]?.isClosed).toBe(true);
  });

  it('is followed by the next response, on a persistent connection and in a pipeline', async () => {
    const context = new Ground();
    await using listener = await openListener(context.respond);
    await using client = await listener.connect();
    client.send(get());
    expect((await client.response())?.body.equals(body)).toBe(true);
    for (const rooms of [[allRoom], [], [{ headBytes: 5, bodyBytes: 0 }], [{ headBytes: 500, bodyBytes: 9 }]]) {
      context.rooms = rooms;
      client.send(get() + get() + get());
      for (let at = 0; at < 3; at += 1) expect((await client.response())?.body.equals(body)).toBe(true);
    }
    await expect.poll(() => context.deliveries).toHaveLength(13);
    expect(context.deliveries.every(({ bytesSent, complete }) => complete && bytesSent === body.length)).toBe(true);
  });

  it('follows interim responses', async () => {
    const context = new Ground();
    context.onRequest = (request) => request.sendInterim({ status: 103, fields: [['link', '</a>']] });
    await using listener = await openListener(context.respond);
    await using client = await listener.connect();
    client.send(get());
    expect((await client.head())?.status).toBe(103);
    expect((await client.response())?.body.equals(body)).toBe(true);
  });

  it('is not moved for HEAD', async () => {
    const context = new Ground();
    await using listener = await openListener(context.respond);
    await using client = await listener.connect();
    client.send('HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.response('HEAD'))?.lines).toContainEqual(['Content-Length', '100000']);
    client.send(get());
    expect((await client.response())?.body.equals(body)).toBe(true);
    expect(context.moves[0]).toBe(0);
  });

  it('is not moved where it is sent in chunks', async () => {
    const context = new Ground();
    context.sizeBytes = undefined;
    await using listener = await openListener(context.respond);
    await using client = await listener.connect();
    client.send(get());
    expect((await client.response())?.body.equals(body)).toBe(true);
    expect(context.moves).toEqual([0]);
  });

  it('is moved where it is close-delimited', async () => {
    const context = new Ground();
    context.sizeBytes = undefined;
    await using listener = await openListener(context.respond);
    await using client = await listener.connect();
    client.send(get('', '1.0'));
    expect((await client.response())?.body.equals(body)).toBe(true);
    expect(context.moves[0]).toBeGreaterThan(0);
  });

  it.each<[name: string, sizeBytes: number]>([
    ['fewer', body.length + 1],
    ['more', body.length - 1],
  ])('that has %s bytes than its length never looks complete', async (_name, sizeBytes) => {
    const context = new Ground();
    context.sizeBytes = sizeBytes;
    await using listener = await openListener(context.respond);
    await using client = await listener.connect();
    client.send(get());
    await client.rest();
    await expect.poll(() => context.deliveries).toMatchObject([{ complete: false, error: { code: 'internal' } }]);
  });

  it('whose client leaves is closed, and its delivery is reported', async () => {
    const context = new Ground();
    context.rooms = [{ headBytes: 1000, bodyBytes: 1 }];
    await using listener = await openListener(context.respond);
    const client = await listener.connect();
    context.onRequest = () => client.reset();
    client.send(get());
    await client.closed;
    await expect.poll(() => context.deliveries).toHaveLength(1);
    expect(context.bodies[0]?.isClosed).toBe(true);
  });
});
