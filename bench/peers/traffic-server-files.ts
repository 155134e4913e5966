/** Creates Traffic Server's configuration: set up for speed, with the same duties as Rangeway. */

import { join } from 'node:path';
import { cacheSizeBytes, type PeerPlace } from './peer.ts';

/** Returns the configuration files, by their paths in the peer's folder. */
export function trafficServerFiles(place: PeerPlace): Readonly<Record<string, string>> {
  const { dir, originPort, certificate } = place;
  return {
    'runroot.yaml': layout(dir),
    'etc/records.config': records(place),
    'etc/remap.config': `map / http://127.0.0.1:${originPort}/\n`,
    'etc/storage.config': `${join(dir, 'cache')} ${cacheSizeBytes}\n`,
    'etc/ip_allow.yaml': 'ip_allow:\n  - apply: in\n    ip_addrs: 0/0\n    action: allow\n    methods: ALL\n',
    'etc/ssl_multicert.config':
      certificate === undefined
        ? ''
        : `dest_ip=* ssl_cert_name=${certificate.certFile} ssl_key_name=${certificate.keyFile}\n`,
    'etc/plugin.config': '',
  };
}

/** Returns the layout of the folders: everything that Traffic Server writes is in one folder. */
function layout(dir: string): string {
  const folders = { sysconfdir: 'etc', runtimedir: 'run', logdir: 'log', cachedir: 'cache', localstatedir: 'run' };
  return [
    `prefix: ${dir}`,
    ...Object.entries(folders).map(([name, folder]) => `${name}: ${join(dir, folder)}`),
    '',
  ].join('\n');
}

/** Returns the settings: one network thread, the current user, no logs, objects of any size in memory. */
function records({ port, memoryBytes, certificate }: PeerPlace): string {
  const secure = certificate === undefined ? '' : ':ssl:proto=http2;http';
  const values: Readonly<Record<string, string | number>> = {
    'http.server_ports': `${port}:ip-in=127.0.0.1${secure}`,
    'exec_thread.autoconfig': 0,
    'exec_thread.limit': 1,
    accept_threads: 0,
    task_threads: 1,
    'admin.user_id': '#-1',
    'log.logging_enabled': 0,
    'diags.show_location': 0,
    'url_remap.pristine_host_hdr': 1,
    'cache.ram_cache.size': memoryBytes,
    // LRU that keeps an object at its first use; the seen filter would keep it at the second use only.
    'cache.ram_cache.algorithm': 1,
    'cache.ram_cache.use_seen_filter': 0,
    'cache.ram_cache_cutoff': cacheSizeBytes,
    'cache.enable_read_while_writer': 1,
    'http.background_fill_active_timeout': 0,
    'http.keep_alive_no_activity_timeout_in': 600,
    'net.connections_throttle': 8192,
    'http2.max_concurrent_streams_in': 256,
    'ssl.server.cert.path': '/',
    'ssl.server.private_key.path': '/',
  };
  return Object.entries(values)
    .map(([name, value]) => {
      const kind = typeof value === 'number' ? 'INT' : 'STRING';
      return `CONFIG proxy.config.${name} ${kind} ${value}\n`;
    })
    .concat('CONFIG proxy.config.http.background_fill_completed_threshold FLOAT 0.0\n')
    .join('');
}
