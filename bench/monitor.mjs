// What `plimsoll monitor` costs at one reading a second with 8 GPUs and 300 processes, beside nvitop,
// each in the same pseudo-terminal of 200 x 50, turn by turn. The processes are real, the GPUs are a
// stand-in for NVIDIA's library, which both load. Needs Linux, Python and a C compiler.
//
//   npm run build && npm run bench monitor [-- --nvitop venv/bin/nvitop] [--rounds 3] [--json]
//
// Ends with exit code 1 above 2 % of a core. Processor time of both programs grows with the load of the machine.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from './statistics.mjs';

const targetPercent = 2;
const { values } = parseArgs({
  options: {
    nvitop: { type: 'string', default: 'nvitop' },
    rounds: { type: 'string', default: '3' },
    settle: { type: 'string', default: '60' },
    seconds: { type: 'string', default: '60' },
    gpus: { type: 'string', default: '8' },
    processes: { type: 'string', default: '300' },
    json: { type: 'boolean', default: false },
  },
});

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'plimsoll-bench-monitor-'));
const sleepers = [];
try {
  const result = measure();
  if (values.json) console.log(JSON.stringify(result, undefined, 2));
  else print(result);
  process.exitCode = result.plimsollPercent <= targetPercent ? 0 : 1;
} finally {
  for (const sleeper of sleepers) sleeper.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}

function measure() {
  const library = join(folder, 'libnvidia-ml.so.1');
  const source = here('../test/fake-nvml/fake-nvml.c');
  execFileSync('cc', ['-O1', '-shared', '-fPIC', '-o', library, source]);
  const config = join(folder, 'plimsoll.config.json');
  writeFileSync(config, JSON.stringify({ nvmlLibrary: library }));
  for (let n = 0; n < Number(values.processes); n++) {
    sleepers.push(
      spawn('sleep', ['3600'], { stdio: 'ignore', argv0: `python train.py --seed ${n}` }),
    );
  }
  const environment = {
    ...process.env,
    LD_LIBRARY_PATH: folder,
    FAKE_NVML_GPUS: values.gpus,
    FAKE_NVML_PIDS: sleepers.map(({ pid }) => pid).join(' '),
  };
  const plimsoll = [process.execPath, here('../bin/plimsoll.js'), 'monitor', '--interval', '1'];
  const ours = [...plimsoll, '--config', config];
  const theirs = [values.nvitop, '--monitor', 'full', '--interval', '1'];
  const version = nvitopVersion(environment);
  const percents = { ours: [], theirs: [] };
  for (let round = 0; round < Number(values.rounds); round++) {
    percents.ours.push(inTerminal(ours, environment));
    if (version !== undefined) percents.theirs.push(inTerminal(theirs, environment));
  }
  const plimsollPercent = median(percents.ours);
  if (version === undefined) return { plimsollPercent, targetPercent };
  const nvitopPercent = median(percents.theirs);
  return {
    plimsollPercent,
    nvitopPercent,
    ratio: plimsollPercent / nvitopPercent,
    nvitop: version,
    targetPercent,
  };
}

function nvitopVersion(environment) {
  try {
    const text = execFileSync(values.nvitop, ['--version'], { env: environment, encoding: 'utf8' });
    return text.trim().split('\n')[0];
  } catch {
    return undefined;
  }
}

function inTerminal(command, environment) {
  const script = here('monitor/in_terminal.py');
  const argv = [script, '200', '50', values.settle, values.seconds, ...command];
  const output = execFileSync('python3', argv, { env: environment, encoding: 'utf8' });
  return JSON.parse(output).corePercent;
}

function row(name, text) {
  console.log(`${name.padEnd(32)}${text}`);
}

function print({ plimsollPercent, nvitopPercent, nvitop, ratio }) {
  console.log(
    `${values.gpus} GPUs (simulated), ${values.processes} real processes, every 1 s, 200 x 50`,
  );
  row(
    'plimsoll monitor',
    `${plimsollPercent.toFixed(2)} % of a core (target: at most ${targetPercent})`,
  );
  if (nvitop === undefined) {
    row('nvitop', 'left out: not found; pip install nvitop, then --nvitop PATH');
    return;
  }
  row(nvitop, `${nvitopPercent.toFixed(2)} % of a core`);
  row('ratio', ratio.toFixed(2));
}
