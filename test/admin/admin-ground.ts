/** An admin listener on a real socket, with fake operations and a record of its events. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Guesses, type Reach } from '../../src/admin/access.ts';
import { ActivityFeed } from '../../src/admin/activity.ts';
import { openAdminListener } from '../../src/admin/admin-listener.ts';
import type { Operations } from '../../src/admin/operations.ts';
import type { SessionCode } from '../../src/admin/sessions.ts';
import { type BindPlace, openSocket } from '../../src/listener/accept/bind.ts';
import { createAdminGround } from '../../src/setup/admin.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { RawClient, type RawResponse, rawValues } from '../support/clients/raw-client.ts';
import { fakeOperations, type OperationCall } from '../support/proxies/fake-operations.ts';

export const rightToken = 'the-right-token-of-20';

export interface AdminGround extends AsyncDisposable {
  readonly events: ServerEvent[];
  readonly calls: OperationCall[];
  /** The clock by which the listener counts guesses, in milliseconds. */
  now: number;
  connect(): Promise<RawClient>;
  /** Creates a code that logs in once. */
  createCode(): SessionCode;
  /** Sends one request on a connection of its own: method, target, field lines and a body. */
  ask(method: string, target: string, lines?: readonly string[], body?: string): Promise<AdminAnswer>;
}

export interface AdminAnswer {
  readonly status: number;
  readonly type: string | undefined;
  readonly text: string;
  readonly raw: RawResponse;
  value(name: string): string | undefined;
  json(): unknown;
}

interface GroundOptions {
  readonly reach?: Reach;
  readonly hosts?: readonly string[];
  readonly token?: string | undefined;
  readonly overrides?: Partial<Operations>;
  /** Calls back when a second is over. By default no second is ever over. */
  readonly after?: (delayMs: number, callback: () => void) => () => void;
  /** The files of the dashboard; undefined where it is not built. */
  readonly dashboardFiles?: ReadonlyMap<string, Uint8Array> | undefined;
}

/** Field lines with the right token. */
export const asOperator = [`Authorization: Bearer ${rightToken}`];

/** Field lines with the right token, for a JSON body. */
export const withJson = [...asOperator, 'Content-Type: application/json'];

export async function openAdminGround({
  reach = 'machine',
  hosts = [],
  overrides,
  after = () => () => {},
  dashboardFiles,
  ...rest
}: GroundOptions = {}): Promise<AdminGround> {
  await using resources = new AsyncDisposableStack();
  const token = 'token' in rest ? rest.token : rightToken;
  const events: ServerEvent[] = [];
  const { operations, calls } = fakeOperations(overrides);
  const place = await placeFor(reach, resources);
  const shared = createAdminGround(operations, (event) => events.push(event));
  const activity = new ActivityFeed({ read: () => operations.readActivity(), after });
  resources.defer(() => activity.close());
  const listener = await openAdminListener({
    socket: await openSocket(place, 'admin'),
    ...shared,
    activity,
    dashboard: { readFiles: () => dashboardFiles, url: undefined },
    now: () => 0,
    rules: { reach, hosts: new Set(hosts) },
    isToken: token === undefined ? undefined : (text) => text === token,
    guesses: new Guesses(() => ground.now),
  });
  resources.defer(() => listener.close(0).then(() => undefined));
  const connect = () => RawClient.open(place.kind === 'unix' ? place.path : listener.address.port);
  const kept = resources.move();
  const ground: AdminGround = {
    events,
    calls,
    now: 0,
    connect,
    createCode: () => shared.sessions.createCode(),
    async ask(method, target, lines = asOperator, body = '') {
      await using client = await connect();
      const host = lines.some((line) => /^host:/i.test(line)) ? [] : ['Host: localhost'];
      const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
      const head = [`${method} ${target} HTTP/1.1`, ...host, ...lines, ...length, 'Connection: close'];
      client.send(Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`));
      const raw = await client.response(method);
      if (raw === undefined) throw new Error(`no response to ${method} ${target}`);
      const text = raw.body.toString();
      const value = (name: string) => rawValues(raw, name)[0];
      return { status: raw.status, type: value('content-type'), text, raw, value, json: () => JSON.parse(text) };
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
  return ground;
}

async function placeFor(
  reach: Reach,
  resources: AsyncDisposableStack,
): Promise<Extract<BindPlace, { kind: 'tcp' | 'unix' }>> {
  if (reach !== 'owner') return { kind: 'tcp', host: '127.0.0.1', port: 0 };
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-admin-'));
  resources.defer(() => rm(dir, { recursive: true, force: true }));
  return { kind: 'unix', path: join(dir, 'admin.sock'), mode: 0o600 };
}
