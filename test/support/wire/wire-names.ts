/** The wires that scenarios run over, each a project of `vitest.config.ts`. */

/** `http1`: HTTP/1.1 over TCP. `http2`: HTTP/2 over TLS. `tls`: HTTP/1.1 over TLS. `node`: HTTP/1.1 through the library, behind a server of `node:http`. */
export const wireNames = ['http1', 'http2', 'tls', 'node'] as const;
export type WireName = (typeof wireNames)[number];
