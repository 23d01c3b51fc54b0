// 200 jobs drawn from the runs measured on an H200, on a real Slurm on this machine whose two nodes have
// two GPUs of 80 GiB each, in shards of 1 GiB (GPUs that only Slurm believes in; jobs only sleep): shards
// as our estimates request them, beside one GPU for each job, and beside guesses of users, who request
// 1 to 4 times what the job needs.
//
//   npm run build && node bench/makespan.mjs [--jobs 200] [--longest 4] [--seed N] [--json]
//
// All jobs of a round are held and then released at once; the makespan is from the first start to the last
// end, as the jobs themselves noted them. Needs root, and Debian's packages of Slurm. Jobs do not slow each
// other down: what is measured is how many run at a time. Ends with exit code 1 when shards from estimates
// are not faster than one GPU each.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { loadLineOf } from '../dist/device/load-line.js';
import { bundled } from './bundled.mjs';
import { drawJobs, drawWorkloads, measuredRuns } from './packing/jobs.mjs';
import { randomFrom } from './queue/random.mjs';

const GiB = 2 ** 30;
const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '200' },
    longest: { type: 'string', default: '4' },
    seed: { type: 'string', default: '20261116' },
    json: { type: 'boolean', default: false },
  },
});
const shardsPerGpu = 80;
const gpus = 4;
const capacityBytes = shardsPerGpu * GiB;
/** Beyond this a round hangs. */
const maxRoundMs = 1_800_000;

const random = randomFrom(Number(values.seed));
const runs = await measuredRuns(loadLineOf(capacityBytes));
const workloads = drawWorkloads(runs, random).filter(
  ({ needs, estimated }) => Math.max(needs, estimated) <= capacityBytes,
);
const drawn = drawJobs(workloads, Number(values.jobs), random);
const longest = Math.max(...drawn.map(({ seconds }) => seconds));
const shards = (bytes) => Math.min(shardsPerGpu, Math.ceil(bytes / GiB));
const jobs = drawn.map(({ needs, estimated, seconds }) => ({
  // An hour becomes as long as --longest says.
  seconds: Math.max(0.1, (seconds / longest) * Number(values.longest)),
  needed: shards(needs),
  gpu: 'gpu:a100-80gb:1',
  estimate: `shard:${shards(estimated)}`,
  guess: `shard:${shards(needs * (1 + 3 * random()))}`,
}));

const { startCluster } = await bundled('test/engines/slurm/slurm-cluster.ts');
const cluster = await startCluster();
const found = {};
try {
  for (const kind of ['gpu', 'guess', 'estimate']) found[kind] = await round(kind);
} finally {
  cluster.stop();
}
report();

async function round(kind) {
  const notes = join(cluster.folder, `notes-${kind}`);
  writeFileSync(notes, '');
  const ids = jobs.map(({ seconds, [kind]: gres }) =>
    cluster
      .run('sbatch', [
        '--parsable',
        '--hold',
        '--output=/dev/null',
        '--mem=10M',
        '--cpus-per-task=1',
        `--gres=${gres}`,
        `--wrap=a=$(date +%s.%N); sleep ${seconds.toFixed(3)}; echo $a $(date +%s.%N) >> ${notes}`,
      ])
      .trim(),
  );
  cluster.run('scontrol', ['release', ids.join(',')]);
  const until = Date.now() + maxRoundMs;
  for (;;) {
    const lines = readFileSync(notes, 'utf8').trim().split('\n');
    if (lines.length === jobs.length) return spanOf(lines);
    if (Date.now() > until) throw new Error(`${kind}: ${lines.length} of ${jobs.length} ended`);
    await sleep(500);
  }
}

/** From the first start to the last end, and how many ran at a time on the mean. */
function spanOf(lines) {
  const times = lines.map((line) => line.split(' ').map(Number));
  const seconds = Math.max(...times.map(([, end]) => end)) - Math.min(...times.map(([one]) => one));
  const busy = times.reduce((sum, [start, end]) => sum + end - start, 0);
  return { seconds, atOnce: busy / seconds };
}

/** How many times as long one GPU each takes. */
function ratio(kind) {
  return found.gpu.seconds / found[kind].seconds;
}

function report() {
  const work = jobs.reduce((sum, { seconds }) => sum + seconds, 0);
  const area = jobs.reduce(
    (sum, { seconds, needed }) => sum + (seconds * needed) / shardsPerGpu,
    0,
  );
  if (values.json) {
    console.log(JSON.stringify({ jobs: jobs.length, work, area, ...found }, undefined, 2));
  } else {
    console.log(
      `${jobs.length} jobs, ${work.toFixed(0)} s of sleep together, on ${gpus} GPUs of 80 GiB; by their memory alone they would take ${(area / gpus).toFixed(0)} s:`,
    );
    console.log('                          makespan s   jobs at a time   against one GPU each');
    for (const [kind, title] of [
      ['gpu', 'one GPU each'],
      ['guess', 'guesses, 1 to 4 times'],
      ['estimate', 'our estimates'],
    ]) {
      const { seconds, atOnce } = found[kind];
      console.log(
        `${title.padEnd(24)}${seconds.toFixed(1).padStart(12)}${atOnce.toFixed(1).padStart(17)}${`${ratio(kind).toFixed(2)} x`.padStart(23)}`,
      );
    }
  }
  if (ratio('estimate') <= 1) {
    console.error('Missed: shards from estimates are not faster than one GPU each.');
    process.exitCode = 1;
  }
}
