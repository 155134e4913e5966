/** Sample events that tests modify. */

import type { ExchangeEvent, FillEvent, RequestEvent, TunnelEvent } from '../../../src/telemetry/events.ts';

/** A range hit of a video. */
export const sampleRequest: RequestEvent = {
  kind: 'request',
  method: 'GET',
  scheme: 'http',
  authority: 'media.example',
  target: '/video.mp4',
  version: '1.1',
  peer: '192.0.2.7',
  client: undefined,
  user: undefined,
  route: 'media',
  status: 206,
  range: 'bytes=0-99',
  bytesSent: 100,
  complete: true,
  isMultipart: false,
  outcome: 'hit',
  reason: undefined,
  collapsed: false,
  originBytes: 0,
  headMs: 0.5,
  durationMs: 4,
  error: undefined,
  errorDetail: undefined,
};

/** An exchange for a whole video. */
export const sampleExchange: ExchangeEvent = {
  kind: 'exchange',
  route: 'media',
  origin: 'http://origin.example',
  method: 'GET',
  status: 200,
  isResent: false,
  receivedBytes: 5000,
  headMs: 20,
  durationMs: 200,
  isFailed: false,
  error: undefined,
  errorDetail: undefined,
};

/** The fill that stores this video. */
export const sampleFill: FillEvent = {
  kind: 'fill',
  key: 'http://media.example/video.mp4',
  generation: 'g1',
  bytes: 5000,
  resumptions: 0,
  isPart: false,
  result: 'stored',
  durationMs: 200,
  error: undefined,
  errorDetail: undefined,
};

/** A closed WebSocket tunnel. */
export const sampleTunnel: TunnelEvent = {
  kind: 'tunnel',
  authority: 'media.example',
  target: '/socket',
  peer: '192.0.2.7',
  status: 101,
  bytesFromOrigin: 1000,
  bytesToOrigin: 200,
  durationMs: 5000,
  error: undefined,
  errorDetail: undefined,
};
