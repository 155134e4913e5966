/** A Vite development server with one path of an origin, which gets ranges: `vite --config vite.config.ts`. ORIGIN comes from the environment. */

import { createRangeway } from 'rangeway';
import { defineConfig } from 'vite';

const { ORIGIN = 'http://127.0.0.1:3000' } = process.env;

export default defineConfig({
  plugins: [
    {
      name: 'rangeway',
      async configureServer(server) {
        const { middleware, close } = await createRangeway({
          routes: [{ match: { pathPrefix: '/media' }, stripPathPrefix: true, origin: ORIGIN }],
        });
        // Before Vite's own middleware, which would answer with the page.
        server.middlewares.use(middleware);
        server.httpServer?.once('close', () => void close({ graceMs: 0 }));
      },
    },
  ],
});
