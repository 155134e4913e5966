/** An Express app with one path of an origin. ORIGIN and PORT come from the environment. */

import express from 'express';
import { createRangeway } from 'rangeway';

const { ORIGIN = 'http://127.0.0.1:3000', PORT = '8080' } = process.env;
const { middleware, close } = await createRangeway({
  routes: [{ match: { pathPrefix: '/media' }, stripPathPrefix: true, origin: ORIGIN }],
});
const app = express();
app.use(middleware);
app.get('/', (_request, response) => {
  response.send('The app itself. The origin is under /media.');
});
const server = app.listen(Number(PORT), '127.0.0.1', () => {
  process.stdout.write(`${JSON.stringify(server.address())}\n`);
});
process.once('SIGTERM', async () => {
  server.close();
  await close({ graceMs: 5000 });
});
