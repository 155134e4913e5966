/** The wires that scenarios run over, each a project of `vitest.config.ts`. */

/** What clients can speak; HTTP/2 is spoken over TLS, and so is HTTP/1.1 on the wire `tls`. */
export const wireNames = ['http1', 'http2', 'tls'] as const;
export type WireName = (typeof wireNames)[number];
