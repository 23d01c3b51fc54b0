// `npm start`: all the set-up, then the main job: a small training under a memory limit that it
// cannot meet at its first batch size. It runs out of memory for real, is brought back, and reaches
// the loss of a run without a limit. `npm start -- --no-open` opens no page.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { ensureBuilt, ensureInstalled } from './setup.mjs';
import { root, run } from './steps.mjs';

const folder = `${root}build/start`;
const program = `${folder}/train.mjs`;
const plimsoll = `${root}bin/plimsoll.js`;

/**
 * By which limit can be set here. A cgroup counts what is used. An address space counts what is
 * reserved, of which Node alone takes more than a gigabyte, so everything is larger there.
 */
const sizes = {
  cgroup: { memory: '88MiB', batch: 4096, steps: 10 },
  'address-space': { memory: '1600MiB', batch: 49_152, steps: 2 },
};

await ensureInstalled();
await ensureBuilt();
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
await buildExample();

const { memory, batch, steps } = await sizesHere();
console.log(`\nA training of ${steps} steps with batches of ${batch}, without a limit:`);
const wanted = await train([process.execPath, [program, ...settings(batch, 1)]], 'free.bin');

console.log(`\nThe same with ${memory} of memory, too little for it, under "plimsoll run":`);
const reports = ['--report', `${folder}/report.json`, '--report', `${folder}/report.html`];
const found = await train(
  [
    process.execPath,
    [
      plimsoll,
      'run',
      '--memory',
      memory,
      '--device',
      'host',
      '--batch-size',
      String(batch),
      ...reports,
      '--',
      process.execPath,
      program,
      ...settings('{batch_size}', '{accumulation}'),
    ],
  ],
  'limited.bin',
);
tell(JSON.parse(readFileSync(`${folder}/report.json`, 'utf8')));

function settings(batchSize, accumulation) {
  return [
    '--batch-size',
    String(batchSize),
    '--accumulate',
    String(accumulation),
    '--steps',
    String(steps),
  ];
}

/** Runs it with its output shown; answers its last loss. */
function train([command, args], checkpoint) {
  return new Promise((resolve) => {
    const child = spawn(command, [...args, '--checkpoint', `${folder}/${checkpoint}`], {
      cwd: root,
      stdio: ['inherit', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.on('data', (bytes) => {
      process.stdout.write(bytes);
      said = (said + bytes).slice(-4096);
    });
    child.on('close', (code) => {
      // Ctrl-C is how one leaves; npm would print an error about any exit code but 0.
      if (code === 130) process.exit(0);
      if (code !== 0) process.exit(code ?? 1);
      resolve(Number(/final loss (\S+)/.exec(said)?.[1]));
    });
  });
}

/** What held the limit on this machine, by a run that needs nothing. */
async function sizesHere() {
  const { stdout } = await run([
    process.execPath,
    [plimsoll, 'run', '--json', '--memory', '64MiB', '--device', 'host', '--', 'true'],
  ]);
  const by = JSON.parse(stdout).attempts[0].limit.by;
  return by === 'address-space' ? sizes['address-space'] : sizes.cgroup;
}

async function buildExample() {
  const { build } = await import('esbuild');
  await build({
    absWorkingDir: root,
    entryPoints: ['examples/train/train.ts'],
    outfile: program,
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'warning',
  });
}

function tell({ attempts, outcome }) {
  const last = attempts.at(-1).settings;
  const difference = Math.abs(found - wanted) / Math.abs(wanted);
  const ranOut = attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  console.log(`
The job ${outcome}. It ran out of memory ${ranOut} x, and was brought back each time.
  batch   ${batch} x 1 became ${last.batch_size} x ${last.accumulation}: the same effective batch
  loss    ${wanted} without a limit
          ${found} under it (relative difference ${difference.toExponential(1)})
  report  ${folder}/report.html
          ${folder}/report.json`);
  if (ranOut === 0 || !(difference < 1e-6)) {
    console.error('This is not what should happen: please report it with the file above.');
    process.exit(1);
  }
  open(`${folder}/report.html`);
}

/** Only where somebody can see it. */
function open(page) {
  const { DISPLAY, WAYLAND_DISPLAY, CI } = process.env;
  const hasScreen = process.platform === 'darwin' || DISPLAY || WAYLAND_DISPLAY;
  if (!hasScreen || CI || !process.stdout.isTTY || process.argv.includes('--no-open')) return;
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const child = spawn(opener, [page], { stdio: 'ignore', detached: true });
  child.on('error', () => console.log('  (no program was found to open it with)'));
  child.unref();
}
