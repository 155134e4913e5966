/** The public API: loads a configuration, starts a server in this process, and operates it. */

export { OperationFault, type Operations } from './admin/operations.ts';
export { checkConfig, loadConfig } from './config/load.ts';
export type { Config, ConfigInput } from './config/schema.ts';
export { type ConfigReading, type RunningServer, type StartOptions, start } from './main.ts';
export type { Emit, ServerEvent } from './telemetry/events.ts';
