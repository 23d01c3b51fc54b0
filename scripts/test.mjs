// `npm test`: all the set-up, then every check. All of them run even when an early one fails.
// `npm run test:all`: the same with the tests that `npm test` leaves to it, then the parts that take long;
// `npm run test:all -- --rest`, after `npm test`: what that left, and nothing twice.
// `npm run test:ts` leaves out the tests in Python, and what they need installed.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { ensureVenv } from './python-venv.mjs';
import { ensureInstalled } from './setup.mjs';
import { root, run, script, tool } from './steps.mjs';
import { closingLines, readCounts, restTag } from './test-counts.mjs';

const asked = new Set(process.argv.slice(2));
const tier = asked.has('--rest') ? 'rest' : asked.has('--all') ? 'all' : 'first';
const seed = Number(process.env.PLIMSOLL_TEST_SEED ?? Date.now() % 2 ** 31);
const pythonFolders = ['python', 'bench', 'examples', 'scripts', 'test'];

// A program that reads our output wants words, not colours.
const { FORCE_COLOR: _, ...rest } = process.env;
const plain = process.stdout.isTTY ? process.env : { ...rest, NO_COLOR: '1' };
const env = {
  ...plain,
  PLIMSOLL_TEST_SEED: String(seed),
  ...(tier === 'first' ? {} : { PLIMSOLL_TEST_TIER: 'all' }),
};

/** Slurm and Prometheus are unpacked from packages of Debian; the nodes of Slurm make device files. */
const canMakeClusters = process.getuid?.() === 0 && existsSync('/usr/bin/apt-get');

const began = performance.now();
const [parts, failed, counts] = [[], [], []];
await ensureInstalled();
mkdirSync(`${root}build`, { recursive: true });
// Most of this time goes by in waiting for packages and for the disk.
const makingVenv = pythonForTests();
await runParts([
  { name: 'build', what: 'library, command and page', command: script('build.mjs') },
]);
// Those that need no Python run while the .venv is made.
const checking = tier === 'rest' ? undefined : runParts(checks());
const { python, installSeconds, leftOut, failed: notInstalled } = await makingVenv;
if (installSeconds !== undefined)
  console.log(`Made .venv in ${installSeconds} s, beside these checks.`);
// Tests of both languages run at the same time: much of it is waiting for processes. Those in Python take
// longest and begin first; what they print is shown when they are done.
const inPython = python === undefined ? [] : [begin(testsInPython(python))];
await checking;
if (python !== undefined && tier !== 'rest') await runParts(checksOfPython(python));
for (const { part, ended } of [begin(testsInTypeScript()), ...inPython]) {
  console.log(`${part.name} (${part.what})`);
  const { output } = await ended;
  process.stdout.write(output);
}
if (tier !== 'first') await runParts(longParts());
if (tier !== 'first' && !canMakeClusters) {
  const why = 'they need Debian or Ubuntu, and the user root';
  counts.push({ ...readCounts(''), failed: 0, leftOut: [`test/engines: ${why}`] });
}

if (notInstalled !== undefined) {
  console.log(`python (unittest) FAILED before it began: ${notInstalled}`);
  failed.push('python');
  counts.push({ ...readCounts(''), failed: 1 });
}
if (leftOut !== undefined) {
  console.log(`Left out, because ${leftOut}: ${pythonTestFiles().join(', ')} in python/tests.`);
}
const seconds = secondsSince(began);
for (const line of closingLines({ counts, parts, seconds, failed, seed })) console.log(line);
process.exitCode = failed.length === 0 ? 0 : 1;

/** Starts a part; it counts as failed by its exit code. */
function begin(part) {
  const start = performance.now();
  if (part.report !== undefined) rmSync(part.report, { force: true });
  const ended = run(part.command, { show: part.show, env: part.env ?? env }).then((end) => {
    parts.push({ name: part.name, seconds: secondsSince(start) });
    if (end.code !== 0) failed.push(part.name);
    if (part.report !== undefined) counts.push(readCounts(part.report));
    return end;
  });
  return { part, ended };
}

async function runParts(some) {
  for (const part of some) {
    const { code, output } = await begin(part).ended;
    const how = code === 0 ? 'ok' : `FAILED, exit code ${code}\n${output}`;
    console.log(`${part.name} (${part.what}) ... ${how}`);
  }
}

function secondsSince(start) {
  return (performance.now() - start) / 1000;
}

function checks() {
  return [
    { name: 'format', what: 'biome: format, order of imports', command: tool('biome', 'check') },
    { name: 'lint', what: 'oxlint: type-aware rules', command: tool('oxlint', '--type-aware') },
    { name: 'types', what: 'tsc: types', command: tool('tsc', '-p', 'tsconfig.json') },
    { name: 'page', what: 'tsc: types of web/', command: tool('tsc', '-p', 'web/tsconfig.json') },
    { name: 'unused', what: 'knip: files, exports, packages', command: tool('knip') },
    { name: 'package', what: 'publint: what npm would get', command: tool('publint', '--strict') },
  ];
}

function checksOfPython(program) {
  const config = 'python/pyproject.toml';
  const ruff = (command, ...options) => [
    program,
    ['-m', 'ruff', command, ...options, '--config', config, ...pythonFolders],
  ];
  const mypy = ['-m', 'mypy', '--config-file', config, 'python/plimsoll', 'python/plimsoll_trace'];
  return [
    { name: 'python format', what: 'ruff: format', command: ruff('format', '--check') },
    { name: 'python lint', what: 'ruff: rules, order of imports', command: ruff('check') },
    { name: 'python types', what: 'mypy: types of the Python packages', command: [program, mypy] },
  ];
}

function testsInTypeScript() {
  const report = `${root}build/vitest.json`;
  const filters = {
    first: [`--tags-filter=!${restTag}`],
    all: [],
    // vitest would load every file to learn that it has no such test.
    rest: [`--tags-filter=${restTag}`, ...filesWithTag()],
  };
  const command = tool('vitest', 'run', ...filters[tier], ...countedIn(report));
  return { name: 'tests', what: 'vitest', command, show: true, report };
}

function filesWithTag() {
  const tagged = new RegExp(`tags:.*\\b${restTag}\\b|@module-tag ${restTag}\\b`);
  return ['src', 'test', 'web'].flatMap((folder) =>
    readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' })
      .map((file) => `${folder}/${file}`)
      .filter((file) => file.endsWith('.test.ts'))
      .filter((file) => tagged.test(readFileSync(`${root}${file}`, 'utf8'))),
  );
}

function countedIn(report) {
  return ['--reporter=default', '--reporter=scripts/test-counts.mjs', `--outputFile=${report}`];
}

function testsInPython(program) {
  const report = `${root}build/unittest.json`;
  const words = [`${root}scripts/python-tests.py`, '--output', report, '--seed', String(seed)];
  return {
    name: 'python',
    what: 'unittest: the tests in python/tests',
    command: [program, ['-W', 'ignore', ...words, ...(tier === 'first' ? [] : [`--${tier}`])]],
    report,
  };
}

/**
 * One after another: each takes the whole machine, or changes it. They start the command with the variables
 * that they got, and it refuses those of the tests.
 */
function longParts() {
  const { PLIMSOLL_TEST_SEED: _seed, PLIMSOLL_TEST_TIER: _tier, ...without } = plain;
  const enginesReport = `${root}build/vitest-engines.json`;
  return [
    {
      name: 'install',
      what: 'the wheel and the npm package, each on an empty machine',
      command: script('try-install.mjs'),
      env: without,
    },
    ...(canMakeClusters
      ? [
          {
            name: 'engines',
            what: 'vitest: clusters of other schedulers on this machine',
            command: script('engines.mjs', ...countedIn(enginesReport)),
            report: enginesReport,
            env: without,
          },
        ]
      : []),
  ];
}

function pythonForTests() {
  return asked.has('--ts') ? { leftOut: 'test:ts does without Python' } : ensureVenv();
}

function pythonTestFiles() {
  return readdirSync(`${root}python/tests`, { recursive: true }).filter((file) =>
    /(^|[\\/])test_\w*\.py$/.test(file),
  );
}
