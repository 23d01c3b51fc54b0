// One hash over all that dist is made from; the build leaves it in dist/.stamp.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { root } from './steps.mjs';

const settings = [
  'package-lock.json',
  'package.json',
  'scripts/build.mjs',
  'scripts/esbuild-program.mjs',
  'tsconfig.build.json',
  'tsconfig.json',
];

export function sourcesHash() {
  const sources = readdirSync(`${root}src`, { recursive: true })
    .map((path) => `src/${path.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'));
  const hash = createHash('sha256');
  for (const path of [...settings, ...sources].toSorted(byCodeUnit)) {
    hash
      .update(`${path}\0`)
      .update(readFileSync(root + path))
      .update('\0');
  }
  return hash.digest('hex');
}

/** The same order on every machine, whatever its language. */
function byCodeUnit(a, b) {
  return a < b ? -1 : Number(a > b);
}
