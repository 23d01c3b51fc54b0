// What supervising costs: the time of a step of a job under "plimsoll run" beside the same job
// without it, turn by turn. The job is any that prints a line "step_ms NUMBER" at its end; without
// one, a job of this machine's processor. On a GPU:
//
//   npm run build && npm run bench overhead [-- --rounds 5] [--json] [-- python train.py]
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from './statistics.mjs';

const target = 1.01;
const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '7' }, json: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const cpuJob = fileURLToPath(new URL('overhead/job.mjs', import.meta.url));
const starter = fileURLToPath(new URL('../bin/plimsoll.js', import.meta.url));
const job = positionals.length > 0 ? positionals : [process.execPath, cpuJob];
const home = mkdtempSync(join(tmpdir(), 'plimsoll-overhead-'));
const supervised = [process.execPath, starter, 'run', '--', ...job];

function stepMs([program, ...args]) {
  const env = { ...process.env, PLIMSOLL_HOME: home };
  const { status, stdout } = spawnSync(program, args, {
    encoding: 'utf8',
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const found = Number(/^step_ms ([\d.]+)$/m.exec(stdout)?.[1]);
  if (status !== 0 || Number.isNaN(found))
    throw new Error(`${program} ended with exit code ${status} and told no step_ms`);
  return found;
}

const plainMs = [];
const supervisedMs = [];
try {
  for (let round = 0; round < Number(values.rounds); round++) {
    // Which of them is first changes: a machine that warms up must not favour one.
    const turns = [() => plainMs.push(stepMs(job)), () => supervisedMs.push(stepMs(supervised))];
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) turn();
  }
} finally {
  rmSync(home, { recursive: true, force: true });
}
const result = {
  rounds: plainMs.length,
  plainStepMs: median(plainMs),
  supervisedStepMs: median(supervisedMs),
  ratio: median(supervisedMs) / median(plainMs),
  bestRatio: Math.min(...supervisedMs) / Math.min(...plainMs),
  target,
};
if (values.json) console.log(JSON.stringify(result, undefined, 2));
else {
  console.log(
    `a step without us     ${result.plainStepMs.toFixed(3)} ms (median of ${result.rounds})`,
  );
  console.log(`under plimsoll run    ${result.supervisedStepMs.toFixed(3)} ms`);
  console.log(
    `ratio                 ${result.ratio.toFixed(4)}, of the best ${result.bestRatio.toFixed(4)} (target: at most ${target})`,
  );
}
// Neighbours only ever add time: the best of each tells most on a machine that is shared.
process.exitCode = result.bestRatio <= target ? 0 : 1;
