import { EventEmitter } from 'node:events';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { OperationFault } from '../../src/admin/operations.ts';
import { type Calls, type ChannelEnd, ChannelGone, type Handle, openChannel } from '../../src/fleet/channel.ts';
import { ListenFault } from '../../src/listener/accept/bind.ts';
import { StoreFault } from '../../src/store/store.ts';
import { turn } from '../support/clocks/turn.ts';

/** Creates the two ends of a channel that clones its messages, as that of Node does. */
function createPipe() {
  const left = new EventEmitter();
  const right = new EventEmitter();
  const endOf = (own: EventEmitter, other: EventEmitter) =>
    Object.assign(own, {
      send: (message: unknown, handle?: Handle) => {
        const clone = structuredClone(message);
        queueMicrotask(() => other.emit('message', clone, handle));
        return true;
      },
    }) as unknown as ChannelEnd;
  const cut = () => {
    left.emit('disconnect');
    right.emit('disconnect');
  };
  return { left: endOf(left, right), right: endOf(right, left), cut };
}

function open(calls: Calls) {
  const { left, right, cut } = createPipe();
  openChannel(right, calls);
  const { remote, gone } = openChannel<Record<string, (...values: unknown[]) => unknown>>(left, {});
  const call = (name: string, ...values: unknown[]) => remote[name]?.(...values) ?? Promise.reject(new Error('none'));
  return { call, cut, gone };
}

describe('a call over a channel', () => {
  it.each([
    { name: 'nothing', value: undefined },
    { name: 'null', value: null },
    { name: 'an object', value: { list: [1, 'two'], deep: { at: 3n } } },
    { name: 'bytes', value: new Uint8Array([1, 2, 3]) },
    { name: 'a map', value: new Map([['key', new Set([1])]]) },
  ])('carries $name there and back', async ({ value }) => {
    const { call } = open({ echo: (argument: unknown) => argument });
    expect(await call('echo', value)).toEqual(value);
  });

  it('waits for promises', async () => {
    const { call } = open({ slow: async (text: string) => `${text}!` });
    expect(await call('slow', 'done')).toBe('done!');
  });

  it('is not disturbed by messages that are no calls', async () => {
    const { left, right } = createPipe();
    openChannel(right, { here: () => 'here' });
    const { remote } = openChannel<{ here: () => string }>(left, {});
    for (const message of [null, undefined, 'call', 7, [], {}, { kind: 'reply', id: 99 }]) left.send?.(message);
    expect(await remote.here()).toBe('here');
  });

  it('gets its own answer, whichever arrives first', async () => {
    const waiting: ((value: string) => void)[] = [];
    const { call } = open({ ask: () => new Promise((resolve) => waiting.push(resolve)) });
    const answers = Promise.all([call('ask'), call('ask')]);
    await turn();
    waiting[1]?.('second');
    waiting[0]?.('first');
    expect(await answers).toEqual(['first', 'second']);
  });

  it('carries a socket as its last argument', async () => {
    const server = createServer();
    const { call } = open({ take: (name: string, socket: unknown) => [name, socket === server] });
    expect(await call('take', 'web', server)).toEqual(['web', true]);
  });

  it.each([
    { name: 'a fault of the store', thrown: new StoreFault('in_use', 'The directory is in use.'), type: StoreFault },
    { name: 'a fault of a listener', thrown: new ListenFault('cannot listen on x'), type: ListenFault },
    { name: 'a fault of an operation', thrown: new OperationFault('not_found', 'no such'), type: OperationFault },
    {
      name: 'an error of the system',
      thrown: Object.assign(new Error('listen EADDRINUSE'), { code: 'EADDRINUSE', syscall: 'listen', port: 80 }),
      type: Error,
    },
    { name: 'an error with a cause', thrown: new Error('outer', { cause: new Error('inner') }), type: Error },
    { name: 'an error of another class', thrown: new RangeError('too far'), type: Error },
  ])('fails with $name as it was thrown', async ({ thrown, type }) => {
    const { call } = open({
      fail: () => {
        throw thrown;
      },
    });
    const failure = await call('fail').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(type);
    const { message, name } = thrown;
    expect(failure).toMatchObject({ ...thrown, message, name });
    expect((failure as Error).cause).toEqual(thrown.cause);
  });

  it.each([
    { name: 'a thrown value that is no error', thrown: 'a text', message: 'a text' },
    {
      name: 'an error that cannot be cloned',
      thrown: Object.assign(new Error('odd'), { what: () => 1 }),
      message: 'odd',
    },
  ])('fails with the message of $name', async ({ thrown, message }) => {
    const { call } = open({ fail: () => Promise.reject(thrown) });
    await expect(call('fail')).rejects.toThrow(message);
  });

  it.each(['nothing', 'constructor', '__proto__', 'toString'])(
    'to a function that is not offered fails: %s',
    async (name) => {
      const { call } = open({});
      await expect(call(name)).rejects.toThrow(`There is no call ${name}.`);
    },
  );

  it.each([
    { name: 'arguments', calls: { take: () => 1 }, values: [() => 1] },
    { name: 'results', calls: { take: () => () => 1 }, values: [] },
  ])('fails where its $name cannot be cloned', async ({ calls, values }) => {
    const { call } = open(calls);
    await expect(call('take', ...values)).rejects.toThrow('could not be cloned');
  });
});

describe('the end of a channel', () => {
  it('rejects pending and later calls', async () => {
    const { call, cut, gone } = open({ ask: () => new Promise(() => undefined) });
    const pending = call('ask');
    cut();
    await gone;
    await expect(pending).rejects.toBeInstanceOf(ChannelGone);
    await expect(call('ask')).rejects.toBeInstanceOf(ChannelGone);
  });

  it('does not fail for an answer that comes too late', async () => {
    const answer = Promise.withResolvers<string>();
    const { call, cut } = open({ ask: () => answer.promise });
    const pending = call('ask');
    await turn();
    cut();
    answer.resolve('late');
    await expect(pending).rejects.toBeInstanceOf(ChannelGone);
  });

  it('has a remote that is not taken for a promise', async () => {
    const { left } = createPipe();
    const { remote } = openChannel<Record<string, () => void>>(left, {});
    expect(await remote).toBe(remote);
  });
});
