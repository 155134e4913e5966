/** Creates nginx's configuration: set up for speed, with the same duties as Rangeway. */

import { userInfo } from 'node:os';
import { join } from 'node:path';
import {
  bearerToken,
  blockBytes,
  type Certificate,
  cacheSizeBytes,
  guardedRate,
  type PeerPlace,
  pageOrigin,
} from './peer.ts';

/** The options of a configuration. */
export interface NginxPlace extends PeerPlace {
  /** Modules of this build that need a folder for temporary files, by the name in their build option. */
  readonly tempPaths: readonly string[];
  /** Whether nginx requests slices from the origin, and stores each slice separately. */
  readonly isSliced: boolean;
}

/** The nearest equivalent of Rangeway's access, CORS and rate options: the token is compared, fields are added, requests are counted. */
const guard = {
  http: `map $http_authorization $is_allowed { default 0; "Bearer ${bearerToken}" 1; }
  map $http_origin $allowed_origin { default ""; "${pageOrigin}" $http_origin; }
  limit_req_zone $binary_remote_addr zone=clients:10m rate=${guardedRate}r/s;`,
  location: `if ($is_allowed = 0) { return 401; }
      limit_req zone=clients burst=${guardedRate} nodelay;
      add_header Access-Control-Allow-Origin $allowed_origin;
      add_header Access-Control-Expose-Headers "Accept-Ranges, Content-Range, Content-Length, Content-Encoding, ETag, Age";
      add_header Vary Origin;
      proxy_set_header Authorization "";
      proxy_set_header Origin "";`,
};

const slices = `slice ${blockBytes};
      proxy_cache_key $uri$is_args$args$slice_range;
      proxy_set_header Range $slice_range;`;

/** Returns the TLS and HTTP/2 settings that match Rangeway's defaults. */
function tls({ certFile, keyFile }: Certificate): string {
  return `ssl_certificate ${certFile};
    ssl_certificate_key ${keyFile};
    ssl_protocols TLSv1.2 TLSv1.3;
    http2_max_concurrent_streams 256;
    http2_chunk_size 16k;`;
}

/**
 * Returns a configuration for nginx in the foreground, as the current user. `tcp_nopush` is off, because with it a cached
 * response waits 40 ms for an acknowledgement. Connections are not closed after a number of requests, as with the other peers.
 */
export function nginxConfiguration(place: NginxPlace): string {
  const { dir, port, originPort, tempPaths, isSliced, isLogged, isGuarded, workers, certificate } = place;
  return `
${userInfo().uid === 0 ? 'user root;' : ''}
daemon off;
worker_processes ${workers};
pid ${join(dir, 'nginx.pid')};
error_log stderr error;
events { worker_connections 8192; }
http {
  access_log ${isLogged ? join(dir, 'access.log') : 'off'};
  sendfile on;
  tcp_nopush off;
  tcp_nodelay on;
  keepalive_timeout 65s;
  keepalive_requests 1000000000;
  open_file_cache max=10000 inactive=60s;
  open_file_cache_valid 60s;
  default_type application/octet-stream;
  ${tempPaths.map((module) => `${module.replaceAll('-', '_')}_temp_path ${join(dir, module)};`).join('\n  ')}
  proxy_cache_path ${join(dir, 'cache')} levels=1:2 keys_zone=bench:256m inactive=1d max_size=${cacheSizeBytes} use_temp_path=off;
  ${isGuarded ? guard.http : ''}
  upstream origin {
    server 127.0.0.1:${originPort};
    keepalive 128;
    keepalive_requests 1000000000;
  }
  server {
    listen 127.0.0.1:${port}${certificate === undefined ? '' : ' ssl http2'} backlog=4096 reuseport;
    ${certificate === undefined ? '' : tls(certificate)}
    location / {
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_cache bench;
      proxy_cache_lock on;
      proxy_cache_lock_age 600s;
      proxy_cache_lock_timeout 600s;
      ${isGuarded ? guard.location : ''}
      ${isSliced ? slices : 'proxy_force_ranges on;'}
    }
  }
}
`;
}
