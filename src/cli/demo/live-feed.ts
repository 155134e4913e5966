/** Server-sent events for the demo's page: each subscriber gets every message until the feed ends. */

import type { ServerResponse } from 'node:http';

/** A stream of messages to all who listen. */
export interface LiveFeed {
  /** Answers a request with the stream, which begins with this message. */
  subscribe(response: ServerResponse, name: string, data: unknown): void;
  /** Sends a message to every subscriber; `data` becomes JSON. One that is too slow for it misses it. */
  publish(name: string, data: unknown): void;
  /** Ends every stream. */
  end(): void;
}

/** A feed without subscribers. */
export function createLiveFeed(): LiveFeed {
  const subscribers = new Set<ServerResponse>();
  return {
    subscribe(response, name, data) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
      response.write(formatMessage(name, data));
      subscribers.add(response);
      response.once('close', () => subscribers.delete(response));
    },
    publish(name, data) {
      const message = formatMessage(name, data);
      for (const response of subscribers) if (!response.writableNeedDrain) response.write(message);
    },
    end() {
      for (const response of subscribers) response.end();
    },
  };
}

function formatMessage(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
