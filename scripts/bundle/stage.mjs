// Lays out the folder that becomes an archive.
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { build } from 'esbuild';
import { program, programs } from '../esbuild-program.mjs';
import { root, run } from '../steps.mjs';
import { fetchKoffiLibrary, fetchRuntime } from './fetch.mjs';
import { fail } from './trouble.mjs';

/** The machine field of an ELF header; a binary of the wrong kind must not travel. */
const elfMachines = { x64: 62, arm64: 183 };
/** What is inside the dashboard. */
const pagePackages = ['preact', 'uplot'];
const gnuNames = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };

export async function stage(arch, folder, { withBench }) {
  const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  mkdirSync(`${folder}/licences`, { recursive: true });

  const inputs = await bundleCode(folder, withBench);
  for (const name of packagesIn(inputs)) copyLicence(`node_modules/${name}`, name, folder);

  copyKoffi(folder);
  const library = `${folder}/node_modules/@koromix/koffi-linux-${arch}`;
  await fetchKoffiLibrary(arch, library);
  checkElf(`${library}/linux_${arch}/koffi.node`, arch);

  copySqlite(arch, folder);

  await fetchRuntime(arch, `${folder}/runtime`);
  renameSync(`${folder}/runtime/bin/node`, `${folder}/runtime/node`);
  rmdirSync(`${folder}/runtime/bin`);
  renameSync(`${folder}/runtime/LICENSE`, `${folder}/licences/node.txt`);
  checkElf(`${folder}/runtime/node`, arch);
  await strip(`${folder}/runtime/node`, arch);

  const { name, version, license, type } = manifest;
  writeFileSync(
    `${folder}/package.json`,
    `${JSON.stringify({ name, version, license, type, private: true }, null, 2)}\n`,
  );
  cpSync(`${root}bin/plimsoll.js`, `${folder}/bin/plimsoll.js`);
  cpSync(`${root}dist/web`, `${folder}/dist/web`, { recursive: true });
  for (const part of pagePackages) copyLicence(`node_modules/${part}`, part, folder);
  cpSync(`${root}python/plimsoll`, `${folder}/python/plimsoll`, {
    recursive: true,
    filter: (path) => !path.endsWith('__pycache__'),
  });
  cpSync(`${root}LICENSE`, `${folder}/LICENSE`);
  cpSync(`${root}scripts/bundle/launcher.sh`, `${folder}/plimsoll`);
  chmodSync(`${folder}/plimsoll`, 0o755);
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

/** Its package holds the binaries of every machine; the one of this archive travels. */
function copySqlite(arch, folder) {
  const binary = `prebuilds/linux-${arch}/@photostructure+sqlite.glibc.node`;
  const wanted = {
    '@photostructure/sqlite': ['package.json', 'dist/index.mjs', 'dist/index.cjs', binary],
    'node-gyp-build': ['package.json', 'index.js', 'node-gyp-build.js'],
  };
  for (const [name, files] of Object.entries(wanted)) {
    const place = `node_modules/${name}`;
    for (const file of files) cpSync(`${root}${place}/${file}`, `${folder}/${place}/${file}`);
    copyLicence(place, name, folder);
  }
  checkElf(`${folder}/node_modules/@photostructure/sqlite/${binary}`, arch);
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

/** Symbols are a tenth of the size. Where no strip knows the architecture, the binary stays whole. */
async function strip(path, arch) {
  const native = process.platform === 'linux' && process.arch === arch ? ['strip'] : [];
  for (const tool of [`${gnuNames[arch]}-strip`, ...native]) {
    if ((await run([tool, [path]])).code === 0) return;
  }
}
