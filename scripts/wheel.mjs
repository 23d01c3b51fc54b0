// `npm run wheel`: what `pip install` gets: the Python package and the command, with Node inside for
// Linux x86_64 and aarch64, and a wheel for every other machine that uses the Node found there.
// `-- --install` makes only the wheel of this machine and installs it with `python3 -m pip`.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { fail, Trouble } from './bundle/trouble.mjs';
import { ensureBuilt, ensureInstalled } from './setup.mjs';
import { root, runRequired } from './steps.mjs';
import { distributionFiles, recordFile, wheelTag } from './wheel/distribution.mjs';
import { writeZip } from './wheel/zip.mjs';

const targets = ['x64', 'arm64', 'any'];
/** A package index refuses larger ones or makes people wait. */
const largestBytes = 40 * 1000 ** 2;
const otherMachines = [
  ...['x64', 'arm64'].map((arch) => ({ platform: 'linux', arch, libcs: ['glibc', 'musl'] })),
  ...['darwin', 'win32'].flatMap((platform) =>
    ['x64', 'arm64'].map((arch) => ({ platform, arch, libcs: ['glibc'] })),
  ),
];

try {
  const wanted = targetsAskedFor();
  await ensureInstalled();
  await ensureBuilt();
  for (const target of wanted.targets) {
    const file = await makeWheel(target);
    if (wanted.isInstalled) await install(file);
  }
} catch (error) {
  if (!(error instanceof Trouble)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = error.exitCode;
}

async function install(file) {
  await runRequired(
    `Installing it (python3 -m pip install)`,
    ['python3', ['-m', 'pip', 'install', '--force-reinstall', '--no-deps', '--quiet', file]],
    'Activate a virtual environment (python3 -m venv .venv && . .venv/bin/activate), then run the same command again.',
  );
  console.log('Installed. Try: plimsoll devices');
}

/** Answers the file of the wheel. */
async function makeWheel(target) {
  // Loaded only now: it needs esbuild, which a fresh checkout does not have.
  const { copyPythonPackages, stage } = await import('./bundle/stage.mjs');
  const project = readProject();
  const name = `plimsoll-${project.version}-${wheelTag(target)}.whl`;
  const file = `${root}build/${name}`;
  const work = mkdtempSync(join(tmpdir(), 'plimsoll-wheel-'));
  try {
    mkdirSync(`${root}build/cache`, { recursive: true });
    console.log(`Making build/${name} ...`);
    copyPythonPackages(work);
    await stage(
      `${work}/plimsoll/_command`,
      target === 'any'
        ? { machines: otherMachines }
        : { machines: [{ platform: 'linux', arch: target, libcs: ['glibc'] }], runtime: target },
    );
    const readme = readFileSync(`${root}README.md`, 'utf8');
    const files = [...filesOf(work), ...distributionFiles({ target, project, readme })];
    writeZip(file, [...files, recordFile(files, project)]);
    const { size } = statSync(file);
    if (size > largestBytes) {
      fail('too-large', `${file} has ${size} bytes.`, 'See what came in with "unzip -l".');
    }
    console.log(`build/${name}  ${(size / 1000 ** 2).toFixed(1)} MB`);
    return file;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function* filesOf(folder) {
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  for (const path of paths.toSorted()) {
    const executable = path.endsWith('/runtime/node');
    const name = relative(folder, path).replaceAll('\\', '/');
    yield { name, data: readFileSync(path), mode: executable ? 0o755 : 0o644 };
  }
}

/** The version is that of the npm package; the rest is told once, in pyproject.toml. */
function readProject() {
  const { version, license } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
  const toml = readFileSync(`${root}python/pyproject.toml`, 'utf8');
  const field = (key) => new RegExp(`^${key} = "(.*)"$`, 'm').exec(toml)?.[1] ?? '';
  return {
    name: 'plimsoll',
    version,
    license,
    summary: field('description'),
    requiresPython: field('requires-python'),
  };
}

function targetsAskedFor() {
  try {
    const { values } = parseArgs({
      options: { for: { type: 'string', multiple: true }, install: { type: 'boolean' } },
    });
    const { for: named, install: isInstalled = false } = values;
    const unknown = named?.find((target) => !targets.includes(target));
    if (unknown !== undefined) throw new Error(`There is no wheel for "${unknown}".`);
    if (isInstalled && named !== undefined) throw new Error('--install takes no --for.');
    return { targets: isInstalled ? [targetOfThisMachine()] : (named ?? targets), isInstalled };
  } catch (error) {
    return fail(
      'bad-usage',
      error.message,
      'Use: npm run wheel -- [--for x64|arm64|any], or npm run wheel -- --install',
      2,
    );
  }
}

/** Node travels in the wheel only where it is built for glibc. */
function targetOfThisMachine() {
  const isGlibc = process.report.getReport().header.glibcVersionRuntime !== undefined;
  const isOurs = process.platform === 'linux' && isGlibc && targets.includes(process.arch);
  return isOurs ? process.arch : 'any';
}
