// `npm run mutants -- AREA...`: makes small faults in the code of an area, one at a time, and counts
// those that its tests notice. Writes bench/results/rows/mutants.json and the table of CONTRIBUTING.md.
// With `--left` it tries only those that were not noticed last time, and keeps the rest of the answer.
// Without an area it lists them.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Stryker } from '@stryker-mutator/core';
import { isInSample, keyOf, seed } from './mutants-vitest.mjs';
import { root } from './steps.mjs';

/**
 * Of each area the sources, the tests that may notice, and the share of the mutants that is tried: one of
 * `every`. Where the tests start processes, those that do nothing else are left out. An area of Python
 * has a tool of its own, which writes its own rows.
 */
const areas = {
  allocator: {
    sources: ['src/estimate/allocator'],
    tests: ['src/estimate/allocator'],
    leftOutTests: ['recorded'],
    every: 60,
  },
  formula: {
    sources: ['src/estimate/formula'],
    tests: ['src/estimate/formula'],
    leftOutTests: ['formula-truth'],
    every: 100,
  },
  plan: {
    sources: ['src/plan'],
    tests: ['src/plan'],
    every: 150,
  },
  ledger: {
    sources: ['src/jobs/ledger.ts'],
    tests: ['src/jobs/ledger.test.ts'],
    every: 4,
  },
  scheduler: {
    sources: [
      'src/jobs/daemon/scheduler.ts',
      'src/jobs/daemon/submission/job-queue.ts',
      'src/jobs/admission.ts',
      'src/jobs/admission-order.ts',
      'src/jobs/placement.ts',
      'src/jobs/waiting-list.ts',
    ],
    tests: [
      'src/jobs/daemon/daemon.test.ts',
      'src/jobs/daemon/submission/job-queue.test.ts',
      'src/jobs/admission.test.ts',
      'src/jobs/admission-order.test.ts',
      'src/jobs/placement.test.ts',
      'src/jobs/waiting-list.test.ts',
    ],
    every: 30,
  },
  store: {
    sources: ['src/jobs/store'],
    tests: ['src/jobs/store'],
    leftOutTests: ['kill'],
    every: 20,
  },
  ladder: {
    sources: ['src/run/ladder', 'src/batches/sizes'],
    tests: ['src/run/ladder', 'src/batches/sizes'],
    every: 12,
  },
  recognise: {
    sources: ['src/run/recognise'],
    tests: ['src/run/recognise'],
    every: 5,
  },
  'local-engine': {
    // The rest of it is tried by tests that start processes.
    sources: [
      'src/engine/local/local-run.ts',
      'src/engine/local/local-run.ts',
      'src/engine/local/local-engine.ts',
      'src/run/store/journal-entry.ts',
    ],
    tests: ['src/engine/local', 'src/run/store/store.test.ts'],
    leftOutTests: ['local-run'],
    every: 5,
  },
  access: {
    // Without those that ask the kernel or a database, and without tests that start a server.
    sources: [
      'src/server/access/audit-log.ts',
      'src/server/access/hosts.ts',
      'src/server/access/identify.ts',
      'src/server/http/http-listener.ts',
      'src/server/access/identify.ts',
      'src/server/access/token.ts',
      'src/server/access/people.ts',
      'src/server/access/permissions.ts',
      'src/server/access/token.ts',
      'src/server/http/http-listener.ts',
      'src/server/access/sessions.ts',
      'src/server/access/submitter.ts',
      'src/server/access/token.ts',
      'src/server/access/token.ts',
    ],
    tests: ['src/server/access'],
    leftOutTests: ['access.test', 'roles', 'user-store'],
    every: 16,
  },
  pickle: {
    sources: ['src/snapshot/pickle'],
    tests: ['src/snapshot/read-snapshot.test.ts', 'src/snapshot/records'],
    every: 18,
  },
  diagnosis: {
    sources: ['src/watch/diagnosis'],
    tests: ['src/watch/diagnosis'],
    leftOutTests: ['week', 'replay'],
    every: 80,
  },
  'python-recovery': { python: 'python/tools/mutants.py', every: 1 },
  'python-kernels': { python: 'python/tools/mutants.py', every: 1 },
};

const rowsFile = join(root, 'bench/results/rows/mutants.json');
const rowFiles = [rowsFile, join(root, 'bench/results/rows/mutants-python.json')];
const page = join(root, 'CONTRIBUTING.md');
const folder = join(root, 'build/mutants');
const noticed = new Set(['Killed', 'Timeout', 'RuntimeError']);

const words = process.argv.slice(2);
const named = words.filter((word) => !word.startsWith('--'));
const unknown = named.find((name) => areas[name] === undefined);
if (named.length === 0 || unknown !== undefined) {
  const fact = unknown === undefined ? '' : `There is no area ${unknown}. `;
  process.stdout.write(
    `${fact}npm run mutants -- AREA, one of: ${Object.keys(areas).join(', ')}\n`,
  );
  process.exit(unknown === undefined ? 0 : 2);
}
for (const name of named) {
  const { python } = areas[name];
  try {
    if (python === undefined) await tryArea(name, words.includes('--left'));
    else run(join(root, '.venv/bin/python'), [python, name]);
  } catch (error) {
    process.stderr.write(`${name}: ${error.message}\n`);
    process.exitCode = 1;
  }
  writePage();
}
// A runner that was stopped in a loop without end would be waited for.
process.exit();

function run(program, given) {
  const { status } = spawnSync(program, given, { cwd: root, stdio: 'inherit' });
  if (status !== 0) throw new Error(`${given[0]} ended with ${status}`);
}

/** Runs Stryker over an area and writes its row. */
async function tryArea(name, onlyLeft) {
  const { every } = areas[name];
  const sources = filesOf(areas[name].sources, (path) => !/\.test\.ts$|-for-tests\.ts$/.test(path));
  const tests = filesOf(
    areas[name].tests,
    (path) =>
      path.endsWith('.test.ts') &&
      !areas[name].leftOutTests?.some((word) => path.includes(`/${word}`)),
  );
  const before = rowsIn(rowsFile)[name];
  const digest = digestOf(sources);
  if (onlyLeft && before?.sources !== digest) {
    throw new Error(`The sources of ${name} changed since its row was written: leave out --left.`);
  }
  mkdirSync(folder, { recursive: true });
  const choice = join(folder, `${name}.choice.json`);
  const only = onlyLeft ? before.left.map(({ key }) => key) : undefined;
  writeFileSync(choice, JSON.stringify({ every, only }));
  process.env.MUTANTS_CHOICE = choice;
  process.env.MUTANTS_TESTS = tests.join(',');
  const results = await strykerOver(sources, name);
  const { testFiles } = JSON.parse(readFileSync(join(folder, `${name}.report.json`), 'utf8'));
  const missing = tests.find((path) => testFiles[path] === undefined);
  if (missing !== undefined) throw new Error(`${missing} could not be loaded`);
  const ofSample = results.filter(
    (one) => one.status !== 'Ignored' && isInSample(keyOf(one), every),
  );
  const chosen = onlyLeft ? ofSample.filter((one) => only.includes(keyOf(one))) : ofSample;
  const left = chosen.filter(({ status }) => !noticed.has(status));
  const triedCount = ofSample.length;
  const row = {
    tool: 'Stryker 9.6.1',
    seed,
    faults: results.filter(({ status }) => status !== 'Ignored').length,
    tried: triedCount,
    killed: triedCount - left.length,
    score: Math.round((100 * (triedCount - left.length)) / triedCount),
    before: before?.before ?? Math.round((100 * (triedCount - left.length)) / triedCount),
    sources: digest,
    left: left.map((one) => ({ key: keyOf(one), outcome: one.status })),
  };
  writeRow(name, row);
  process.stdout.write(`${name}: ${row.killed} of ${row.tried}, ${row.score} of 100\n`);
}

function strykerOver(sources, name) {
  return new Stryker({
    mutate: sources,
    testRunner: 'vitest',
    vitest: { configFile: 'scripts/mutants-vitest.mjs', related: false },
    plugins: ['@stryker-mutator/vitest-runner', join(root, 'scripts/mutants-vitest.mjs')],
    checkers: ['sample'],
    coverageAnalysis: 'perTest',
    // Constants and tables of a module: each would need all tests of the area.
    ignoreStatic: true,
    // Words for people.
    mutator: { excludedMutations: ['StringLiteral'] },
    concurrency: 2,
    dryRunTimeoutMinutes: 30,
    timeoutMS: 60_000,
    timeoutFactor: 4,
    tempDirName: join('build', 'mutants', 'sandbox'),
    ignorePatterns: [
      'build',
      'dist',
      'docs',
      '.venv',
      'web',
      'python/tests',
      'examples',
      'deploy',
      'bench/results',
      'bench/gpu',
      'bench/truth/programs',
    ],
    // It would read this with the compiler's API, which TypeScript 7 does not have.
    tsconfigFile: 'none',
    reporters: ['progress-append-only', 'json'],
    jsonReporter: { fileName: join('build', 'mutants', `${name}.report.json`) },
    allowEmpty: false,
  }).runMutationTest();
}

/** The TypeScript files of folders, and files by themselves. */
function filesOf(paths, isWanted) {
  return paths
    .flatMap((path) =>
      statSync(join(root, path)).isFile()
        ? [path]
        : readdirSync(join(root, path), { recursive: true }).map((name) => join(path, name)),
    )
    .filter((path) => path.endsWith('.ts') && isWanted(path))
    .toSorted();
}

function digestOf(paths) {
  const hash = createHash('sha256');
  for (const path of paths) hash.update(path).update(readFileSync(join(root, path)));
  return hash.digest('hex').slice(0, 16);
}

function rowsIn(file) {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
}

function writeRow(name, row) {
  const rows = { ...rowsIn(rowsFile), [name]: row };
  const sorted = Object.fromEntries(Object.entries(rows).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  mkdirSync(dirname(rowsFile), { recursive: true });
  writeFileSync(rowsFile, `${JSON.stringify(sorted, undefined, 1)}\n`);
}

/** The table between the two marks of the page. */
function writePage() {
  const rows = Object.assign({}, ...rowFiles.map(rowsIn));
  const lines = Object.entries(rows).map(
    ([name, { faults, tried, killed, timeout = 0, score, before = '' }]) =>
      `| ${name} | ${faults} | ${tried} | ${killed + timeout} | ${before} | ${score} |`,
  );
  const table = [
    '| area | faults | tried | noticed | score before | score |',
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    ...lines,
  ].join('\n');
  const text = readFileSync(page, 'utf8');
  const marks = /(<!-- mutants -->\n\n)[^]*?(\n\n<!-- end of mutants -->)/;
  writeFileSync(
    page,
    text.replace(marks, (_, from, to) => from + table + to),
  );
}
