import { join } from 'node:path';
import { build } from 'vite';
import { madeOnce } from '../support/made-once.js';
import { root } from '../support/project-files.js';

/** The page as it is now, built away from `dist`, so that no test sees yesterday's. */
export function builtPage(): Promise<string> {
  return madeOnce('page', (outDir) =>
    build({
      configFile: join(root, 'web/vite.config.ts'),
      logLevel: 'error',
      build: { outDir, emptyOutDir: true },
    }),
  );
}
