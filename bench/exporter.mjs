// What `plimsoll exporter` takes of a processor and of memory with 8 GPUs and 300 processes, scraped every
// 15 s, beside a bare Node process that serves the same bytes at the same times. The processes are real,
// the GPUs are a stand-in for NVIDIA's library. Needs Linux, root (for a mount of its own) and a C compiler.
//
//   npm run build && npm run bench exporter [-- --minutes 5] [--json]
//
// Ends with exit code 1 above 0.5 % of a core or 60 MB.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const targets = { corePercent: 0.5, residentMB: 60 };
const scrapeSeconds = 15;
const ticksPerSecond = 100;
const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    settle: { type: 'string', default: '60' },
    gpus: { type: 'string', default: '8' },
    processes: { type: 'string', default: '300' },
    json: { type: 'boolean', default: false },
  },
});

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const folder = mkdtempSync(join(tmpdir(), 'plimsoll-bench-exporter-'));
const started = [];
try {
  const result = await measure();
  if (values.json) console.log(JSON.stringify(result, undefined, 2));
  else print(result);
  const { exporter } = result;
  const isWithin =
    exporter.corePercent <= targets.corePercent && exporter.residentMB <= targets.residentMB;
  process.exitCode = isWithin ? 0 : 1;
} finally {
  for (const child of started) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}

async function measure() {
  const environment = standIns();
  const ours = await begin(exporterCommand(), environment);
  const page = await scrape(ours);
  if (!page.includes(`device="gpu:${Number(values.gpus) - 1}"`)) {
    throw new Error('the stand-in for the GPUs was not found: the exporter watches the host alone');
  }
  writeFileSync(join(folder, 'page'), page);
  const bare = await begin([process.execPath, here('bare-page.mjs'), join(folder, 'page')]);
  await scrapeFor(Number(values.settle), [ours, bare]);
  const before = [ours, bare].map(({ pid }) => cpuTicks(pid));
  const began = performance.now();
  await scrapeFor(Number(values.minutes) * 60, [ours, bare]);
  const seconds = (performance.now() - began) / 1000;
  const [exporter, other] = [ours, bare].map(({ pid, maxResident }, index) => ({
    corePercent: ((cpuTicks(pid) - before[index]) / ticksPerSecond / seconds) * 100,
    residentMB: Math.max(maxResident, residentBytes(pid)) / 1e6,
  }));
  return {
    exporter,
    bare: other,
    ratio: {
      core: exporter.corePercent / other.corePercent,
      resident: exporter.residentMB / other.residentMB,
    },
    pageBytes: page.length,
    seconds,
    targets,
  };
}

/** Real processes, and a library that says that they are on GPUs. */
function standIns() {
  const library = join(folder, 'libnvidia-ml.so.1');
  execFileSync('cc', [
    '-O1',
    '-shared',
    '-fPIC',
    '-o',
    library,
    here('../test/fake-nvml/fake-nvml.c'),
  ]);
  mkdirSync(join(folder, 'driver/nvidia'), { recursive: true });
  writeFileSync(join(folder, 'driver/nvidia/version'), 'a stand-in\n');
  const sleepers = Array.from({ length: Number(values.processes) }, (_, n) =>
    spawn('sleep', ['7200'], { stdio: 'ignore', argv0: `python train.py --seed ${n}` }),
  );
  started.push(...sleepers);
  return {
    LD_LIBRARY_PATH: folder,
    FAKE_NVML_GPUS: values.gpus,
    FAKE_NVML_PIDS: sleepers.map(({ pid }) => pid).join(' '),
  };
}

/** In a mount of its own, where /proc/driver shows a driver, as on a machine that has one. */
function exporterCommand() {
  const words = [process.execPath, here('../bin/plimsoll.js'), 'exporter', '--port', '0', '--json'];
  const script = 'mount --bind "$0" /proc/driver && exec "$@"';
  return ['unshare', '--mount', 'sh', '-c', script, join(folder, 'driver'), ...words];
}

/** Starts a program that prints a line of JSON with its address. */
async function begin([program, ...words], environment = {}) {
  const child = spawn(program, words, {
    env: { ...process.env, ...environment },
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  started.push(child);
  const line = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (piece) => {
      text += piece;
      if (text.includes('\n')) resolve(text);
    });
    child.once('exit', () => reject(new Error(`${program} ended before it listened`)));
  });
  return { pid: child.pid, place: JSON.parse(line).place, maxResident: 0 };
}

async function scrape(one) {
  const answer = await fetch(one.place);
  const text = await answer.text();
  one.maxResident = Math.max(one.maxResident, residentBytes(one.pid));
  return text;
}

async function scrapeFor(seconds, all) {
  for (let passed = 0; passed < seconds; passed += scrapeSeconds) {
    await sleep(Math.min(scrapeSeconds, seconds - passed));
    for (const one of all) await scrape(one);
  }
}

function cpuTicks(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

function residentBytes(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)[1]) * 1024;
}

function print({ exporter, bare, ratio, pageBytes, seconds }) {
  console.log(
    `${values.gpus} GPUs (simulated), ${values.processes} real processes, ${pageBytes} bytes every ${scrapeSeconds} s, ${seconds.toFixed(0)} s`,
  );
  row('plimsoll exporter', exporter);
  row('bare Node', bare);
  console.log(
    `${'ratio'.padEnd(24)}${ratio.core.toFixed(2)} and ${ratio.resident.toFixed(2)} (targets: ${targets.corePercent} % and ${targets.residentMB} MB)`,
  );
}

function row(name, { corePercent, residentMB }) {
  console.log(
    `${name.padEnd(24)}${corePercent.toFixed(2)} % of a core, ${residentMB.toFixed(1)} MB at most`,
  );
}
