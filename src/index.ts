/** The public API: Rangeway within a program (`createRangeway`), or a server with its listeners in this process (`start`). */

export { OperationFault, type Operations } from './admin/operations.ts';
export { checkConfig, loadConfig } from './config/load.ts';
export type { Config, ConfigInput } from './config/schema.ts';
export { type EmbeddedConfig, EmbeddedConfigFault } from './embed/embedded-config.ts';
export { createRangeway, type FetchClient, type Rangeway, type RangewayOptions } from './embed/rangeway.ts';
export { type ConfigReading, type RunningServer, type StartOptions, start } from './main.ts';
export type { Emit, ServerEvent } from './telemetry/events.ts';
