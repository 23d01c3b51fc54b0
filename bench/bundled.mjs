// TypeScript that only tests and benchmarks use, and that the build leaves out.
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The exports of a file of this checkout, such as `web/testing/fake-daemon.ts`. */
export async function bundled(path) {
  const folder = `${root}build/bench`;
  // Two benchmarks may do this at the same time.
  const outfile = `${folder}/${path.replaceAll('/', '-')}-${process.pid}.mjs`;
  mkdirSync(folder, { recursive: true });
  await build({
    entryPoints: [root + path],
    bundle: true,
    platform: 'node',
    format: 'esm',
    outfile,
    logLevel: 'warning',
  });
  return import(outfile);
}
