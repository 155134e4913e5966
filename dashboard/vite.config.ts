import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

/** Stands at the beginning of the script, which browsers get without the file of the licences. */
const notice = `/*! Rangeway, with Preact (MIT licence, copyright Jason Miller) and uPlot (MIT licence, copyright Leon Sorokin). See LICENSES.md. */`;

/**
 * Builds the dashboard into dist/dashboard. The page must work under a strict Content-Security-Policy: no inline script or style, no
 * data URL, no other host.
 */
export default defineConfig(({ command }) => ({
  root: fileURLToPath(new URL('.', import.meta.url)),
  // Relative addresses, so that the page also works below a path of another server.
  base: './',
  plugins:
    command === 'serve' ? [import('./dev/fake-server.ts').then(({ fakeServerPlugin }) => fakeServerPlugin())] : [],
  build: {
    outDir: fileURLToPath(new URL('../dist/dashboard', import.meta.url)),
    emptyOutDir: true,
    target: 'es2023',
    cssTarget: ['chrome125', 'firefox125', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: false,
    license: { fileName: 'LICENSES.md' },
    rolldownOptions: { output: { postBanner: notice } },
  },
}));
