/** Server-sent events for the demo's page: each subscriber gets the latest messages, and every one until the feed ends. */

import type { ServerResponse } from 'node:http';

/** How many messages are kept for those who come later. */
const keptMessages = 100;

/** A stream of messages to all who listen. */
export interface LiveFeed {
  /** Answers a request with the stream, which begins with this message and the messages that were kept. */
  subscribe(response: ServerResponse, name: string, data: unknown): void;
  /** Sends a message to every subscriber; `data` becomes JSON. One that is too slow for it misses it. */
  publish(name: string, data: unknown): void;
  /** Publishes a message, and keeps it among the latest for those who come later. */
  publishAndKeep(name: string, data: unknown): void;
  /** Ends every stream. */
  end(): void;
}

/** A feed without subscribers. */
export function createLiveFeed(): LiveFeed {
  const subscribers = new Set<ServerResponse>();
  const kept: string[] = [];
  const send = (message: string): void => {
    for (const response of subscribers) if (!response.writableNeedDrain) response.write(message);
  };
  return {
    subscribe(response, name, data) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      response.write([formatMessage(name, data), ...kept].join(''));
      subscribers.add(response);
      response.once('close', () => subscribers.delete(response));
    },
    publish: (name, data) => send(formatMessage(name, data)),
    publishAndKeep(name, data) {
      const message = formatMessage(name, data);
      if (kept.push(message) > keptMessages) kept.shift();
      send(message);
    },
    end() {
      for (const response of subscribers) response.end();
    },
  };
}

function formatMessage(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
