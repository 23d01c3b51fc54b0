// What `plimsoll --version` costs beside bare Node, in the same run, turn by turn.
//
//   npm run bench startup [-- --rounds 60] [--json]
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from './statistics.mjs';

const target = 1.6;
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '60' },
    json: { type: 'boolean', default: false },
  },
});
const rounds = Number(values.rounds);
const starter = fileURLToPath(new URL('../bin/plimsoll.js', import.meta.url));

/** Milliseconds from the start of the process to its end. */
function time(args) {
  const begin = performance.now();
  const { status } = spawnSync(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  if (status !== 0) throw new Error(`node ${args.join(' ')} ended with exit code ${status}`);
  return performance.now() - begin;
}

const bare = ['-e', '0'];
const ours = [starter, '--version'];
// The first runs fill the caches of the disk.
for (let round = 0; round < 3; round++) [bare, ours].forEach(time);

const bareMs = [];
const oursMs = [];
for (let round = 0; round < rounds; round++) {
  bareMs.push(time(bare));
  oursMs.push(time(ours));
}

const result = {
  rounds,
  bareNodeMs: median(bareMs),
  plimsollVersionMs: median(oursMs),
  ratio: median(oursMs) / median(bareMs),
  target,
};
if (values.json) {
  console.log(JSON.stringify(result, undefined, 2));
} else {
  console.log(`node -e 0           ${result.bareNodeMs.toFixed(1)} ms (median of ${rounds})`);
  console.log(`plimsoll --version  ${result.plimsollVersionMs.toFixed(1)} ms`);
  console.log(`ratio               ${result.ratio.toFixed(2)} (target: at most ${target})`);
}
process.exitCode = result.ratio <= target ? 0 : 1;
