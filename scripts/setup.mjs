// Makes a checkout ready: installs when node_modules does not hold what the lockfile says, builds
// when dist was not made from these sources. Plain Node: it runs before anything is installed.
import { existsSync, readFileSync } from 'node:fs';
import { isInstalled } from './installed.mjs';
import { sourcesHash } from './sources-hash.mjs';
import { npm, root, runRequired, script } from './steps.mjs';

const oldestNode = [20, 19];

export async function ensureInstalled() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])) {
    process.stderr.write(
      `old-node: This is Node ${process.versions.node}. Plimsoll needs Node ${oldestNode.join('.')} or newer.\n`,
    );
    process.exit(3);
  }
  if (isInstalled(readJson('package-lock.json'), readJson('node_modules/.package-lock.json'))) {
    return;
  }
  await runRequired(
    'Installing the packages of package-lock.json (npm ci)',
    npm('ci', '--no-audit', '--no-fund', '--fetch-retries=5'),
    'It needs a package registry that npm can reach; then run the same command again.',
  );
}

export async function ensureBuilt() {
  const stamp = `${root}dist/.stamp`;
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === sourcesHash()) return;
  await runRequired(
    'Building dist (npm run build)',
    script('build.mjs'),
    'Fix what it names, then run the same command again.',
  );
}

function readJson(path) {
  try {
    return JSON.parse(readFileSync(root + path, 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}
