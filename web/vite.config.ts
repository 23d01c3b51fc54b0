import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

/** The dashboard: one page that loads nothing from elsewhere. */
export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  // Relative, so that the page also works below a path of a proxy.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2022',
    outDir: '../dist/web',
    emptyOutDir: true,
    // Nothing inside of URLs: the page's policy allows files of the server alone.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
