// The .venv of the checkout, with the pinned torch and transformers: made once, then reused.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isSupported, lacking, parsePins, stampOf, supported } from './python-pins.mjs';
import { root, run } from './steps.mjs';

const folder = join(root, '.venv');
const windows = process.platform === 'win32';
const venvPython = windows ? join(folder, 'Scripts', 'python.exe') : join(folder, 'bin', 'python');
/** Says whether npm test made this folder, and, once it is whole, what it is for. */
const stampFile = join(folder, 'plimsoll-test.json');
const requirementsFile = join(root, 'python', 'requirements-test.txt');
const requirements = readFileSync(requirementsFile, 'utf8');
const pins = parsePins(requirements);
const machine = `${process.platform}-${process.arch}`;

/** `off` leaves Python out; anything else is the Python to make the .venv with. */
const wanted = process.env.PLIMSOLL_TEST_PYTHON;
const usual = ['python3', 'python', ...[12, 11, 13, 10, 14].map((minor) => `python3.${minor}`)];

/**
 * @returns {Promise<{ python: string, installSeconds?: number } | { leftOut: string } | { failed: string }>} a Python that
 *   holds the pins; or why the tests in Python cannot run on this machine; or what went wrong
 */
export async function ensureVenv() {
  if (wanted === 'off') return { leftOut: 'PLIMSOLL_TEST_PYTHON is "off"' };
  const stamp = readStamp();
  const own = existsSync(venvPython) ? versionOf(venvPython) : undefined;
  const wantedStamp = own === undefined ? undefined : stampOf(requirements, own, machine);
  if (own !== undefined && stamp.for === wantedStamp) return { python: venvPython };
  if (existsSync(folder) && !stamp.ours) {
    const missing = own === undefined ? ['a Python that starts'] : lackingIn(venvPython);
    if (missing.length > 0) {
      return {
        failed: `npm test did not make the .venv that is here, and leaves it as it is. It lacks: ${missing.join(', ')}. Move it away, or run: ${venvPython} -m pip install -r python/requirements-test.txt`,
      };
    }
    writeStamp({ ours: false, for: wantedStamp });
    return { python: venvPython };
  }
  // Another pin is installed into the .venv that is whole: torch alone is some GB.
  if (stamp.for !== 'unfinished' && own !== undefined && isSupported(own)) {
    const missing = lackingIn(venvPython);
    if (missing.length < Object.keys(pins).length) return update(own, missing);
  }
  const base = basePython();
  if (typeof base !== 'string') return install(base);
  // Whoever names a Python wants the tests to run.
  return wanted ? { failed: `${base} (PLIMSOLL_TEST_PYTHON is ${wanted})` } : { leftOut: base };
}

async function install({ program, version }) {
  const names = Object.entries(pins).map(([name, pin]) => `${name} ${pin}`);
  process.stdout.write(
    `Installing ${names.join(', ')} into .venv with Python ${version}: once, about 5 GB on x64 (less elsewhere), some 2 to 10 minutes. To do without: npm run test:ts\n`,
  );
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  return runSteps(version, [[program, ['-m', 'venv', folder]], ...pipSteps()]);
}

function update(version, missing) {
  const steps = missing.length === 0 ? [] : pipSteps();
  if (steps.length > 0) process.stdout.write(`Installing ${missing.join(', ')} into .venv.\n`);
  return runSteps(version, steps);
}

function pipSteps() {
  const pip = ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-input'];
  // A registry that is slow or fails for a moment.
  const patient = ['--retries', '10', '--timeout', '120'];
  return [
    [venvPython, [...pip, ...patient, '-r', requirementsFile]],
    [venvPython, ['-W', 'ignore', '-c', `import ${Object.keys(pins).join(', ')}`]],
  ];
}

async function runSteps(version, steps) {
  writeStamp({ ours: true, for: 'unfinished' });
  const begin = performance.now();
  for (const step of steps) {
    const { code, output } = await run(step);
    if (code !== 0) {
      return {
        failed: `${step.flat().join(' ')} ended with exit code ${code}. It needs a package registry that pip can reach, and 10 GB of disk. Then run the same command again; without Python: npm run test:ts\n${output.trimEnd().split('\n').slice(-20).join('\n')}`,
      };
    }
  }
  writeStamp({ ours: true, for: stampOf(requirements, version, machine) });
  if (steps.length === 0) return { python: venvPython };
  return {
    python: venvPython,
    installSeconds: Math.round((performance.now() - begin) / 1000),
  };
}

/** A Python to start from, or in words why there is none. */
function basePython() {
  const tried = [];
  for (const program of wanted ? [wanted] : usual) {
    const version = versionOf(program);
    if (version === undefined) continue;
    if (!isSupported(version)) tried.push(`${program} is ${version}`);
    else if (!starts(program, 'import ensurepip, venv')) tried.push(`${program} has no venv`);
    else return { program, version };
  }
  const found = tried.length === 0 ? 'none' : tried.join(', ');
  return `torch ${pins.torch} needs Python ${supported}; found: ${found}`;
}

function versionOf(program) {
  const ask = 'import platform; print(platform.python_version())';
  const { status, stdout } = spawnSync(program, ['-c', ask], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : undefined;
}

function starts(program, code) {
  return spawnSync(program, ['-c', code]).status === 0;
}

function lackingIn(python) {
  const ask = `import json
from importlib.metadata import distributions
print(json.dumps({d.metadata["Name"].lower(): d.version for d in distributions()}))`;
  const { status, stdout } = spawnSync(python, ['-c', ask], { encoding: 'utf8' });
  return lacking(pins, status === 0 ? JSON.parse(stdout) : {});
}

function readStamp() {
  try {
    return JSON.parse(readFileSync(stampFile, 'utf8'));
  } catch (error) {
    // One that was cut off while it was written is of a folder that we were making.
    return { ours: error.code !== 'ENOENT', for: 'unfinished' };
  }
}

function writeStamp(stamp) {
  writeFileSync(stampFile, `${JSON.stringify(stamp)}\n`);
}
