// `npm start`: all the set-up, then the server with its dashboard, and through it the main job: a
// small training with a memory reservation that it cannot meet at its first batch size. It runs out of
// memory for real, is recovered, and reaches the loss of a run without a limit. On a terminal it
// then serves until Ctrl-C; elsewhere (CI, a pipe) it ends. `npm start -- --no-open` opens no page,
// `npm start -- --serve` serves on in any case.
import { spawn } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { createInterface } from 'node:readline';
import { ensureBuilt, ensureInstalled } from './setup.mjs';
import { root, run } from './steps.mjs';

// The server of `npm start`: a `plimsoll serve` with a home of its own.

const plimsoll = `${root}bin/plimsoll.js`;

/** Where people expect it; another one where that is taken. */
const ports = ['8000', '0'];

/** What a person set for servers and queues of their own is not meant for this one. */
const otherVariables = new Set([
  'USE_GPU',
  'GPU_DEVICE',
  'MAX_CONCURRENT_JOBS',
  'JOB_TIMEOUT',
  'SAFETY_MARGIN_MB',
]);

function environmentFor(home) {
  const kept = Object.entries(process.env).filter(
    ([name]) => !name.startsWith('PLIMSOLL_') && !otherVariables.has(name),
  );
  return { ...Object.fromEntries(kept), PLIMSOLL_HOME: home };
}

/** The address of a server that still has this home, from an `npm start` that goes on elsewhere. */
async function serverOf(home) {
  try {
    const { url } = JSON.parse(readFileSync(`${home}/server.json`, 'utf8'));
    return (await fetch(`${url}/healthz`)).ok ? url : undefined;
  } catch {
    return undefined;
  }
}

/** Starts it, in a session of its own: Ctrl-C is for us, who close it in order. */
async function startServer(home, logFile) {
  for (const port of ports) {
    const started = await listenOn(port, home, logFile);
    if (started !== undefined) return started;
  }
  throw new Error(`The server did not start:\n${readFileSync(logFile, 'utf8')}`);
}

async function listenOn(port, home, logFile) {
  const log = openSync(logFile, 'w');
  const child = spawn(process.execPath, [plimsoll, 'serve', '--port', port, '--json'], {
    cwd: root,
    env: environmentFor(home),
    stdio: ['ignore', 'pipe', log],
    detached: true,
  });
  closeSync(log);
  const ended = new Promise((resolve) => child.once('close', resolve));
  const line = await Promise.race([
    new Promise((resolve) => createInterface({ input: child.stdout }).once('line', resolve)),
    ended.then(() => undefined),
  ]);
  if (line === undefined) return undefined;
  const { url, link } = JSON.parse(line);
  return {
    url,
    link,
    ended,
    /** Jobs would go on without it: whoever started some ends them first. */
    close() {
      child.kill('SIGTERM');
      return ended;
    },
  };
}

/** Only where somebody can see it. */
function openPage(address) {
  const { DISPLAY, WAYLAND_DISPLAY, CI } = process.env;
  const hasScreen = process.platform === 'darwin' || DISPLAY || WAYLAND_DISPLAY;
  if (!hasScreen || CI || !process.stdout.isTTY || process.argv.includes('--no-open')) return;
  const opener = process.platform === 'darwin' ? 'open' : 'xdg-open';
  const child = spawn(opener, [address], { stdio: 'ignore', detached: true });
  child.on('error', () => console.log('  (no program was found to open it with)'));
  child.unref();
}

const folder = `${root}build/start`;
const home = `${folder}/home`;
const program = `${folder}/train.mjs`;

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
const elsewhere = await serverOf(home);
if (elsewhere !== undefined) {
  console.error(`Another "npm start" serves at ${elsewhere}. End it with Ctrl-C first.`);
  process.exit(1);
}
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
await buildExample();

const { memory, batch, steps } = await sizesHere();
const server = await startServer(home, `${folder}/server.log`);
const leave = leaveOnCtrlC();
console.log(`\nThe server and its dashboard (the link opens once): ${server.link}`);
openPage(server.link);

console.log(`\nA training of ${steps} steps with batches of ${batch}, without a limit:`);
const free = [program, ...settings(batch, 1), '--checkpoint', `${folder}/free.bin`];
const wanted = lossIn((await shown([process.execPath, free], 'stdout')).shown);

console.log(`\nThe same as a job with ${memory} of memory, too little for it:`);
const trained = await submitTraining();
await keepReports();
printResult(trained);
await goOn();

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

/** Through the queue, as anybody would: its log comes on stderr, the job itself on stdout. */
async function submitTraining() {
  const training = [program, ...settings('{batch_size}', '{accumulation}')];
  const {
    code,
    shown: log,
    stdout,
  } = await shown(
    [
      process.execPath,
      [
        plimsoll,
        'submit',
        '--json',
        '--follow',
        '--name',
        'demo',
        '--memory',
        memory,
        '--gpus',
        '0',
        '--batch',
        String(batch),
        '--',
        process.execPath,
        ...training,
        '--checkpoint',
        `${folder}/limited.bin`,
      ],
    ],
    'stderr',
  );
  if (stdout === '') await close(code || 1);
  const job = JSON.parse(stdout);
  if (job.attempts.length === 0) {
    console.error(`The job is ${job.state}: ${job.reason}`);
    await close(1);
  }
  return { ...job, loss: lossIn(log) };
}

/** Runs it to its end and shows one of its outputs as it comes. */
function shown([command, args], output) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: environmentFor(home),
      stdio: ['ignore', 'pipe', 'pipe'],
      // Ctrl-C is for us, who end all of it in order.
      detached: true,
    });
    leave.child = child;
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8').on('data', (text) => {
        said[name] += text;
        if (leave.asked) return;
        if (name === output) process.stdout.write(text);
        else if (name === 'stderr') process.stderr.write(text);
      });
    }
    child.on('close', (code) => {
      // Whoever pressed Ctrl-C is on the way out, and needs no word about it.
      if (leave.asked) return;
      const answer = { code, shown: said[output], stdout: said.stdout };
      if (code !== 0 && output === 'stdout') void close(code ?? 1).then(() => resolve(answer));
      else resolve(answer);
    });
  });
}

function lossIn(log) {
  return Number(/final loss (\S+)/.exec(log)?.[1]);
}

/** What held the limit on this machine, by a run that needs nothing. */
async function sizesHere() {
  const { stdout } = await run(
    [
      process.execPath,
      [plimsoll, 'run', '--json', '--memory', '64MiB', '--device', 'host', '--', 'true'],
    ],
    { env: environmentFor(`${folder}/probe`) },
  );
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

/** The job is the only run of this home; its supervisor writes its reports when it is over. */
async function keepReports() {
  const [id] = readdirSync(`${home}/runs`);
  for (const kind of ['html', 'json']) {
    const report = `${home}/runs/${id}/report.${kind}`;
    for (let looks = 0; looks < 100 && !existsSync(report); looks += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    copyFileSync(report, `${folder}/report.${kind}`);
  }
}

function printResult({ attempts, state, loss }) {
  const last = attempts.at(-1).settings;
  const difference = Math.abs(loss - wanted) / Math.abs(wanted);
  const ranOut = attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  console.log(`
The job ${state}. It ran out of memory ${ranOut} x, and was recovered each time.
  batch   ${batch} x 1 became ${last.batch_size} x ${last.accumulation}: the same effective batch
  loss    ${wanted} without a limit
          ${loss} under it (relative difference ${difference.toExponential(1)})
  report  ${folder}/report.html
          ${folder}/report.json
  page    ${server.url} ("node bin/plimsoll.js dashboard" prints a link to it)`);
  if (state !== 'succeeded' || ranOut === 0 || !(difference < 1e-6)) {
    console.error('This is not what should happen: please report it with the file above.');
    process.exitCode = 1;
  }
}

/** Serves on for somebody who looks; a pipe has seen all there is. */
async function goOn() {
  const looks = process.stdout.isTTY && !process.env.CI;
  if (process.exitCode || !(looks || process.argv.includes('--serve'))) {
    await close(process.exitCode ?? 0);
  }
  console.log(`
Send it jobs of your own, from another terminal:
  export PLIMSOLL_HOME=${home}
  node bin/plimsoll.js submit --follow -- python train.py
  node bin/plimsoll.js dashboard
It serves until Ctrl-C.`);
  await server.ended;
  if (leave.asked) return;
  console.error(`The server ended; ${folder}/server.log says why.`);
  process.exit(1);
}

/** npm would print an error about any exit code but 0, and Ctrl-C is how one leaves. */
function leaveOnCtrlC() {
  const state = { asked: false, child: undefined };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      if (state.asked) return;
      state.asked = true;
      state.child?.kill('SIGTERM');
      void endJobs().then(() => close(0));
    });
  }
  return state;
}

/** Jobs outlive their server; those of a demonstration should not. */
async function endJobs() {
  const env = environmentFor(home);
  const list = ['jobs', '--state', 'waiting,running', '--json'];
  const { stdout } = await run([process.execPath, [plimsoll, ...list]], { env });
  if (stdout === '') return;
  const ids = JSON.parse(stdout).jobs.map(({ id }) => id);
  if (ids.length === 0) return;
  await run([process.execPath, [plimsoll, 'cancel', ...ids]], { env });
  for (const id of ids) await run([process.execPath, [plimsoll, 'logs', '-f', id]], { env });
}

async function close(code) {
  await server.close();
  process.exit(code);
}
