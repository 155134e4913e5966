/** What a configuration of nginx needs where a test runs without root: folders of its own, in place of those of the package. */

/** Takes the place of `access_log off;` on a page. */
export const nginxFolders = [
  'access_log off;',
  ...['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path DIR/${name};`),
].join(' ');
