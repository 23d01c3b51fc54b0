// One hash over all that dist is made from; the build leaves it in dist/.stamp.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { root } from './steps.mjs';

const settings = [
  'package-lock.json',
  'package.json',
  'scripts/build.mjs',
  'scripts/esbuild-program.mjs',
  'scripts/pack-page.mjs',
  'scripts/snapshot-page.mjs',
  'tsconfig.build.json',
  'tsconfig.json',
  'web/index.html',
  'web/tsconfig.json',
  'web/vite.config.ts',
];

const folders = [
  { folder: 'src', made: /\.ts$/ },
  { folder: 'web/src', made: /\.(ts|tsx|css)$/ },
  { folder: 'web/snapshot', made: /\.ts$/ },
  { folder: 'web/public', made: /\.\w+$/ },
];

export function sourcesHash() {
  const sources = folders.flatMap(({ folder, made }) =>
    readdirSync(root + folder, { recursive: true })
      .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
      .filter((path) => made.test(path) && !path.endsWith('.test.ts')),
  );
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
