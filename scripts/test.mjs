// `npm test`: all the set-up, then every check. All of them run even when an early one fails.
// `npm run test:ts` leaves out the tests in Python, and what they need installed.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { ensureVenv } from './python-venv.mjs';
import { ensureInstalled } from './setup.mjs';
import { root, run, script, tool } from './steps.mjs';
import { pythonCounts, vitestCounts } from './test-counts.mjs';

const vitestReport = `${root}build/vitest.json`;
const pythonReport = `${root}build/unittest.json`;
const pythonFolders = ['python', 'bench', 'examples', 'scripts', 'test'];

/** Those that need no Python: they run while the .venv is made. The tests need the build. */
const checks = [
  { name: 'format', what: 'biome: format, order of imports', command: tool('biome', 'check') },
  { name: 'lint', what: 'oxlint: type-aware rules', command: tool('oxlint', '--type-aware') },
  { name: 'types', what: 'tsc: types', command: tool('tsc', '-p', 'tsconfig.json') },
  { name: 'page', what: 'tsc: types of web/', command: tool('tsc', '-p', 'web/tsconfig.json') },
  { name: 'build', what: 'library, command and page', command: script('build.mjs') },
  { name: 'unused', what: 'knip: files, exports, packages', command: tool('knip') },
  { name: 'package', what: 'publint: what npm would get', command: tool('publint', '--strict') },
];
/** Those that use the .venv, where there is one. */
const checksBesidePython = [
  {
    name: 'install',
    what: 'the wheel and the npm package, each on an empty machine',
    command: script('try-install.mjs'),
  },
];
const tests = [
  {
    name: 'tests',
    what: 'vitest',
    command: tool(
      'vitest',
      'run',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${vitestReport}`,
    ),
    counts: () => vitestCounts(vitestReport),
  },
];

await ensureInstalled();
mkdirSync(`${root}build`, { recursive: true });
for (const report of [vitestReport, pythonReport]) rmSync(report, { force: true });

// A program that reads our output wants words, not colours.
const { FORCE_COLOR: _, ...rest } = process.env;
const env = process.stdout.isTTY ? process.env : { ...rest, NO_COLOR: '1' };

const failed = [];
const counted = [];
// Most of this time goes by in waiting for packages and for the disk.
const makingVenv = pythonForTests();
await runChecks(checks);
const { python, installSeconds, leftOut, failed: notInstalled } = await makingVenv;
if (installSeconds !== undefined)
  console.log(`Made .venv in ${installSeconds} s, beside these checks.`);
if (python !== undefined) {
  const ruff = (command, ...options) => [
    python,
    ['-m', 'ruff', command, ...options, '--config', 'python/pyproject.toml', ...pythonFolders],
  ];
  checksBesidePython.push(
    { name: 'python format', what: 'ruff: format', command: ruff('format', '--check') },
    { name: 'python lint', what: 'ruff: rules, order of imports', command: ruff('check') },
    {
      name: 'python types',
      what: 'mypy: types of python/plimsoll',
      command: [
        python,
        ['-m', 'mypy', '--config-file', 'python/pyproject.toml', 'python/plimsoll'],
      ],
    },
  );
  tests.push({
    name: 'python',
    what: 'unittest: the tests in python/tests',
    command: [python, ['-W', 'ignore', `${root}scripts/python-tests.py`, pythonReport]],
    counts: () => pythonCounts(pythonReport),
  });
}
// Tests of both languages run at the same time: much of it is waiting for processes. Those in Python take
// longest and begin first; what they print is shown when they are done.
const [vitest, ...inPython] = tests;
const pythonEnds = inPython.map(({ command }) => run(command, { env }));
await runChecks(checksBesidePython);
const ends = [run(vitest.command, { show: true, env }), ...pythonEnds];
for (const [at, { name, what, counts }] of tests.entries()) {
  console.log(`${name} (${what})`);
  const { code, output } = await ends[at];
  process.stdout.write(output);
  if (code !== 0) failed.push(name);
  counted.push(counts());
}
if (notInstalled !== undefined) {
  console.log(`python (unittest) FAILED before it began: ${notInstalled}`);
  failed.push('python');
  counted.push({ passed: 0, failed: 1, leftOut: [] });
}
if (leftOut !== undefined) {
  console.log(`Left out, because ${leftOut}: ${testFiles().join(', ')} in python/tests.`);
}
for (const line of counted.flatMap((counts) => counts.leftOut)) console.log(`Left out: ${line}`);

const names = [
  ...[...checks, ...checksBesidePython, ...tests].map(({ name }) => name),
  ...(notInstalled === undefined ? [] : ['python']),
];
console.log(
  failed.length === 0
    ? `All ${names.length} checks passed: ${names.join(', ')}.`
    : `${failed.length} of ${names.length} checks failed: ${failed.join(', ')}. Their output is above.`,
);
// One plain line with the true counts, for programs that read it.
const sum = (key) => counted.reduce((total, counts) => total + counts[key], 0);
console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
process.exitCode = failed.length === 0 ? 0 : 1;

async function runChecks(some) {
  for (const { name, what, command } of some) {
    process.stdout.write(`${name} (${what}) ... `);
    const { code, output } = await run(command, { env });
    if (code !== 0) failed.push(name);
    console.log(code === 0 ? 'ok' : `FAILED, exit code ${code}\n${output}`);
  }
}

function pythonForTests() {
  if (process.argv.includes('--ts')) return { leftOut: 'test:ts does without Python' };
  return ensureVenv();
}

function testFiles() {
  return readdirSync(`${root}python/tests`, { recursive: true }).filter((file) =>
    /(^|[\\/])test_\w*\.py$/.test(file),
  );
}
