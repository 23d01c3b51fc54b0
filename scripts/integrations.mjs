// `npm run test:integrations`: trainers in the versions that people have, each in a virtual environment
// of its own on top of .venv (which has torch). Writes a table to bench/results, row by row; with names of
// environments it runs those alone and writes no table.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ensureBuilt } from './setup.mjs';
import { root } from './steps.mjs';

const base = join(root, '.venv', 'bin', 'python');
const home = resolve(process.env.PLIMSOLL_INTEGRATIONS ?? join(root, 'build', 'integrations'));
const failures = process.env.PLIMSOLL_TEST_TRAINER_INJECTIONS ?? '60';
const tests = join(root, 'python', 'tests');
const ofLibraries = (...classes) => classes.map((name) => `trainers.test_libraries.${name}`);
const transformers = [
  'trainers.test_window_failures',
  ...ofLibraries('Unchanged', 'WeightedLoss', 'LeftAlone', 'Evaluation', 'Ranks'),
];
const lightning = ['trainers.test_lightning'];
const lastLightning = '2.6.6';
/** What is installed on top of .venv, and what is run there; `package` is the name it is imported by. */
const environments = [
  { name: 'transformers450', pins: ['transformers==4.50.3'], modules: transformers },
  { name: 'transformers457', pins: ['transformers==4.57.6'], modules: transformers },
  { name: 'pinned', pins: [], modules: [...transformers, ...ofLibraries('OneLine')] },
  { name: 'trl', pins: ['trl==1.16.0'], modules: ofLibraries('Trl', 'Recipes') },
  {
    name: 'deepspeed',
    pins: ['deepspeed==0.19.8'],
    modules: ['sharding.test_sharded.DeepSpeedItself'],
  },
  ...['2.4.0', lastLightning].flatMap((version) => {
    const pins = [`lightning==${version}`, `pytorch-lightning==${version}`];
    const name = `lightning${version.slice(0, 3).replace('.', '')}`;
    return ['lightning.pytorch', 'pytorch_lightning'].map((imported) => ({
      name,
      pins,
      imported,
      // Its recipe is of the newest one.
      modules: [
        ...lightning,
        ...(version === lastLightning && imported.startsWith('lightning')
          ? ofLibraries('Recipes')
          : []),
      ],
    }));
  }),
];

if (!existsSync(base)) {
  process.stderr.write('There is no .venv. npm test makes it.\n');
  process.exit(3);
}
// What the tests of DeepSpeed read is written by the command.
await ensureBuilt();
const named = process.argv.slice(2);
const rows = [];
for (const environment of environments) {
  if (named.length > 0 && !named.includes(environment.name)) continue;
  const python = made(environment);
  rows.push(
    python === undefined ? [environment, 'not installed', '', ''] : tested(environment, python),
  );
  process.stdout.write(`${line(rows.at(-1))}\n`);
  if (named.length === 0) report(rows);
}
process.exit(rows.every(([, outcome]) => outcome === 'passed') ? 0 : 1);

function made({ name, pins }) {
  if (pins.length === 0) return base;
  const folder = join(home, name);
  const python = join(folder, 'bin', 'python');
  const isWhole = existsSync(join(folder, 'whole'));
  if (!isWhole) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(home, { recursive: true });
    if (run(base, ['-m', 'venv', '--without-pip', folder]).status !== 0) return undefined;
  }
  // Written each time: the checkout that made this environment may have been moved since.
  const purelib = ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'];
  const ours = run(python, purelib).stdout.trim();
  writeFileSync(join(ours, 'base.pth'), `${run(base, purelib).stdout.trim()}\n`);
  if (isWhole) return python;
  const installed = run(python, ['-m', 'pip', 'install', '--quiet', '--no-input', ...pins]);
  if (installed.status !== 0) {
    process.stderr.write(`${name}: ${installed.stderr.slice(-2000)}\n`);
    return undefined;
  }
  writeFileSync(join(folder, 'whole'), '');
  return python;
}

function tested({ name, imported, modules, pins }, python) {
  const began = Date.now();
  const done = run(python, ['-W', 'ignore', '-m', 'unittest', ...modules], {
    cwd: tests,
    env: {
      ...process.env,
      PYTHONPATH: `${tests}:${join(root, 'python')}`,
      HF_HUB_OFFLINE: '1',
      PLIMSOLL_TEST_TRAINER_INJECTIONS: failures,
      ...(imported === undefined ? {} : { PLIMSOLL_TEST_LIGHTNING: imported }),
    },
  });
  const counted = /Ran (\d+) tests?/.exec(done.stderr)?.[1] ?? '0';
  const skipped = /skipped=(\d+)/.exec(done.stderr)?.[1] ?? '0';
  const outcome = done.status === 0 && skipped === '0' ? 'passed' : 'failed';
  if (outcome === 'failed') process.stderr.write(`${done.stderr.slice(-4000)}\n`);
  const seconds = String(Math.round((Date.now() - began) / 1000));
  return [{ name, imported, modules, pins }, outcome, counted, seconds];
}

function run(program, words, options = {}) {
  return spawnSync(program, words, { encoding: 'utf8', maxBuffer: 2 ** 28, ...options });
}

function line([{ name, imported, pins }, outcome, counted, seconds]) {
  const what = imported === undefined ? name : `${name} as ${imported}`;
  return `| ${what} | ${pins.join(', ') || 'as pinned in python/requirements-test.txt'} | ${outcome} | ${counted} | ${seconds} |`;
}

function report(all) {
  const day = new Date().toISOString().slice(0, 10);
  const pinned = readFileSync(join(root, 'python', 'requirements-test.txt'), 'utf8')
    .split('\n')
    .filter((word) => /^(torch|transformers|accelerate)==/.test(word));
  const text = [
    '# Trainers in other versions',
    '',
    `${day}, Node ${process.version}, ${process.platform}-${process.arch}; base: ${pinned.join(', ')}. Made by \`npm run test:integrations\`: real trainings of small models on the CPU, ${failures} of them with injected failures for each row.`,
    '',
    '| environment | on top of the base | outcome | tests | seconds |',
    '| --- | --- | --- | --- | --- |',
    ...all.map(line),
    ...environments.slice(all.length).map((one) => line([one, 'not run', '', ''])),
    '',
  ].join('\n');
  writeFileSync(join(root, 'bench', 'results', 'integrations.md'), text);
}
