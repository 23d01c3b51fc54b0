// `npm run bundle`: archives for Linux machines without Node, npm or network. Unpack, run ./plimsoll.

import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { fail, Trouble } from './bundle/trouble.mjs';
import { ensureBuilt, ensureInstalled } from './setup.mjs';
import { root, run } from './steps.mjs';

// Does what the person on the closed machine will do: unpack, run, with nothing of ours around.

/** @returns {Promise<string>} what was checked, in words */
async function selfCheck(file, name, arch, version) {
  if (process.platform !== 'linux' || process.arch !== arch) {
    return `not run: this machine is ${process.platform} ${process.arch}`;
  }
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-check-'));
  try {
    const unpacked = await run(['tar', ['-xJf', file, '-C', folder]]);
    if (unpacked.code !== 0) fail('check-failed', unpacked.output.trim(), 'Make it again.');
    const launcher = join(folder, name, 'plimsoll');
    const result = await run([launcher, ['--version']], { env: {} });
    if (result.code !== 0 || result.output !== `${version}\n`) {
      fail('check-failed', `--version said: ${result.output.trim()}`, 'Unpack it and look.');
    }
    const seen = await run([launcher, ['devices', '--json']], { env: {} });
    if (seen.code !== 0 || !Array.isArray(parsed(seen.stdout).devices)) {
      fail('check-failed', `devices --json said: ${seen.output.trim()}`, 'Unpack it and look.');
    }
    return 'run here: ok';
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

// From a folder to a .tar.xz that comes out the same, byte for byte, whoever makes it and when.

/** The date npm gives to every file of a package, for the same reason. */
const fixedSeconds = 499_162_500;

async function checkTools() {
  const tar = await run(['tar', ['--version']]);
  if (tar.code !== 0 || !tar.output.includes('GNU tar')) {
    fail('no-tar', 'GNU tar is not on this machine.', 'Install it (Debian: apt install tar).');
  }
  if ((await run(['xz', ['--version']])).code !== 0) {
    fail('no-xz', 'xz is not on this machine.', 'Install it (Debian: apt install xz-utils).');
  }
}

async function archive(folder, file) {
  const tar = `${folder}.tar`;
  const packed = await run([
    'tar',
    [
      '--create',
      `--file=${tar}`,
      `--directory=${dirname(folder)}`,
      '--format=ustar',
      '--sort=name',
      `--mtime=@${fixedSeconds}`,
      '--owner=0',
      '--group=0',
      '--numeric-owner',
      '--mode=u=rwX,go=rX',
      basename(folder),
    ],
  ]);
  if (packed.code !== 0) fail('tar-failed', packed.output.trim(), 'Is there room on the disk?');
  // One thread: with more, xz cuts the data into blocks, and by the number of cores.
  const pressed = await run(['xz', ['-6', '--threads=1', '--keep', '--force', tar]]);
  if (pressed.code !== 0) fail('xz-failed', pressed.output.trim(), 'Is there room on the disk?');
  // Not by renaming: the two places may be on different disks.
  copyFileSync(`${tar}.xz`, file);
}

function sha256(file) {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}

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
