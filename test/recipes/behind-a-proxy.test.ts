/** docs/recipes/behind-a-proxy.md, as it is written, with nginx and Caddy. */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { itWith } from '../support/processes/programs.ts';
import { nginxTexts } from '../support/recipes/nginx-texts.ts';
import { Recipe } from '../support/recipes/recipe.ts';

itWith(['curl', 'openssl', 'nginx', 'caddy'], 'docs/recipes/behind-a-proxy.md', async () => {
  await using recipe = await Recipe.open('behind-a-proxy.md', {
    ports: [8080, 3000, 8443, 8444],
    texts: nginxTexts,
    servers: {
      'node origin.mjs': /the origin is ready/,
      'nginx -p': /start worker process/,
      'caddy run': /serving initial configuration/,
    },
  });
  await recipe.follow();
  expect(recipe.left).toEqual([]);

  // What the page says of compression in nginx.
  const etag = async (): Promise<string | undefined> => {
    const { stdout } = await recipe.run(
      'curl -s -o /dev/null -D - -H "Accept-Encoding: gzip" --cacert cert.pem --resolve media.example.org:8443:127.0.0.1 https://media.example.org:8443/film.mp4',
    );
    return /^etag: (W\/)?"[^"]+"\r$/m.exec(stdout.toString())?.[1] ?? 'strong';
  };
  expect(await etag()).toBe('strong');
  const file = join(recipe.dir, 'nginx.conf');
  const text = await readFile(file, 'utf8');
  await writeFile(file, text.replace('http {', 'http { gzip on; gzip_types video/mp4; gzip_proxied any;'));
  expect((await recipe.run('nginx -p . -e stderr -c nginx.conf -s reload')).code).toBe(0);
  await expect.poll(etag).toBe('W/');
});
