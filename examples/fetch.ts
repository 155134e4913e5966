/** Asks for a part of a file by the Fetch handler, without any server. ORIGIN comes from the environment. */

import { createRangeway } from 'rangeway';

const { ORIGIN = 'http://127.0.0.1:3000' } = process.env;
await using rangeway = await createRangeway(ORIGIN);
const request = new Request('http://media.example/file', { headers: { range: 'bytes=0-9' } });
const response = await rangeway.fetch(request, { clientAddress: '192.0.2.1' });
const { byteLength } = await response.arrayBuffer();
process.stdout.write(`${response.status} ${response.headers.get('content-range')} ${byteLength}\n`);
