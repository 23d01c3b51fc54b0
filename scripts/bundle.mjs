// `npm run bundle`: archives for Linux machines without Node, npm or network. Unpack, run ./plimsoll.
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { archive, checkTools, sha256 } from './bundle/archive.mjs';
import { selfCheck } from './bundle/self-check.mjs';
import { fail, Trouble } from './bundle/trouble.mjs';
import { ensureBuilt, ensureInstalled } from './setup.mjs';
import { root } from './steps.mjs';

/** GPU nodes are often reached through narrow doors. */
const largestBytes = 40 * 1024 ** 2;

try {
  await makeArchives(options());
} catch (error) {
  if (!(error instanceof Trouble)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = error.exitCode;
}

async function makeArchives({ arches, withBench }) {
  await checkTools();
  await ensureInstalled();
  await ensureBuilt();
  // Loaded only now: it needs esbuild, which a fresh checkout does not have.
  const { stage } = await import('./bundle/stage.mjs');
  const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  // Each to its end, so that none leaves its work behind when another fails.
  const made = await Promise.allSettled(
    arches.map((arch) =>
      makeArchive(arch, version, (folder) => stageArchive(stage, arch, folder, withBench)),
    ),
  );
  for (const { status, reason } of made) if (status === 'rejected') throw reason;
}

/** The command with its Node, and a launcher that finds both. */
async function stageArchive(stage, arch, folder, withBench) {
  const machines = [{ platform: 'linux', arch, libcs: ['glibc'] }];
  await stage(folder, { machines, runtime: arch, withBench });
  cpSync(`${root}scripts/bundle/launcher.sh`, `${folder}/plimsoll`);
  chmodSync(`${folder}/plimsoll`, 0o755);
}

async function makeArchive(arch, version, stage) {
  const name = `plimsoll-${version}-linux-${arch}`;
  const file = `${root}build/${name}.tar.xz`;
  const work = mkdtempSync(join(tmpdir(), 'plimsoll-bundle-'));
  try {
    mkdirSync(`${root}build/cache`, { recursive: true });
    console.log(`Making build/${name}.tar.xz ...`);
    await stage(join(work, name));
    await archive(join(work, name), file);
    const { size } = statSync(file);
    if (size > largestBytes) {
      fail('too-large', `${file} has ${size} bytes.`, 'See what came in with "tar -tvf".');
    }
    const checked = await selfCheck(file, name, arch, version);
    const mebibytes = (size / 1024 ** 2).toFixed(1);
    console.log(`build/${basename(file)}  ${mebibytes} MiB  sha256 ${sha256(file)}  ${checked}`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function options() {
  try {
    const { values } = parseArgs({
      options: {
        arch: { type: 'string', multiple: true, default: ['x64', 'arm64'] },
        'with-bench': { type: 'boolean', default: false },
      },
    });
    const unknown = values.arch.find((arch) => arch !== 'x64' && arch !== 'arm64');
    if (unknown !== undefined) throw new Error(`There is no archive for "${unknown}".`);
    return { arches: values.arch, withBench: values['with-bench'] };
  } catch (error) {
    return fail(
      'bad-usage',
      error.message,
      'Use: npm run bundle -- [--arch x64] [--with-bench]',
      2,
    );
  }
}
