import { join } from 'node:path';
import { build } from 'vite';
import { root } from '../support/project-files.js';

/** Builds the page as it is now, away from `dist`, so that no test sees yesterday's. */
export async function buildPage(outDir: string): Promise<void> {
  await build({
    configFile: join(root, 'web/vite.config.ts'),
    logLevel: 'error',
    build: { outDir, emptyOutDir: true },
  });
}
