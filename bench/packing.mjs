// 1,000 jobs drawn from the runs measured on an H200, on 4 simulated GPUs of 80 GiB, in virtual time:
// packed by memory with the estimates this project makes, beside one job a GPU, and beside the bound
// that nobody could beat.
//
//   npm run build && node bench/packing.mjs [--jobs 1000] [--gpus 4] [--seed N] [--json]
//
// Jobs do not slow each other down here: what is measured is packing, not the speed of a GPU that
// several share. Ends with exit code 1 when a target is missed.
import { parseArgs } from 'node:util';
import { judgeFit } from '../dist/jobs/fit-verdict.js';
import { loadLineBytes } from '../dist/jobs/load-line.js';
import { drawJobs, measuredWorkloads } from './packing/jobs.mjs';
import { lowerBound, oneJobEach, packed } from './packing/simulate.mjs';
import { randomFrom } from './queue/random.mjs';

const GiB = 2 ** 30;
const hours = (seconds) => (seconds / 3600).toFixed(2).padStart(9);
const target = 1.15;
const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '1000' },
    gpus: { type: 'string', default: '4' },
    seed: { type: 'string', default: '20261115' },
    json: { type: 'boolean', default: false },
  },
});
const devices = Number(values.gpus);
const capacityBytes = 80 * GiB;
const lineBytes = loadLineBytes(capacityBytes);
const random = randomFrom(Number(values.seed));

const all = await measuredWorkloads(random);
const lines = [{ id: 'gpu:0', lineBytes }];
const fitting = all.filter(
  ({ estimated, needs }) =>
    judgeFit({ bytes: estimated, basis: 'estimated', gpus: 1 }, lines).verdict === 'fits' &&
    needs <= lineBytes,
);
const jobs = drawJobs(fitting, Number(values.jobs), random);
const bound = lowerBound(jobs, devices, lineBytes);
const alone = oneJobEach(jobs, devices);
const rows = ['best-fit', 'balanced'].map((policy) => {
  const result = packed(jobs, { devices, capacityBytes, policy });
  const { seconds } = result;
  return Object.assign(result, { policy, toBound: seconds / bound, faster: alone / seconds });
});
const [ours] = rows;
const missed = [
  [ours.toBound <= target, `${ours.toBound.toFixed(3)} x the bound, wanted at most ${target}`],
  [rows.every(({ outOfMemory }) => outOfMemory === 0), 'a job ran out of memory'],
  [rows.every(({ mostReserved }) => mostReserved <= lineBytes), 'the load line was passed'],
]
  .filter(([met]) => !met)
  .map(([, words]) => words);

const workloads = {
  measured: all.length,
  refused: all.length - fitting.length,
  byFormula: fitting.filter(({ method }) => method === 'formula').length,
  byTrace: fitting.filter(({ method }) => method === 'trace').length,
};
if (values.json) {
  const figures = { jobs: jobs.length, devices, capacityBytes, workloads, boundSeconds: bound };
  console.log(JSON.stringify({ ...figures, aloneSeconds: alone, rows, missed }, undefined, 2));
} else {
  const row = (name, seconds) =>
    `${name.padEnd(28)}${hours(seconds)} h ${(seconds / bound).toFixed(3).padStart(8)} x bound`;
  console.log(
    [
      `${jobs.length} jobs of ${fitting.length} measured workloads (${workloads.refused} larger than the load line left out) on ${devices} simulated GPUs of 80 GiB`,
      `Estimates: ${workloads.byFormula} workloads by formula, ${workloads.byTrace} with the error that traces were measured to have.`,
      row('lower bound', bound),
      ...rows.map(({ policy, seconds }) => row(`packed, ${policy}`, seconds)),
      row('one job a GPU', alone),
      `Packed is ${ours.faster.toFixed(1)} x as fast as one job a GPU; up to ${ours.mostAtOnce} jobs at once.`,
      `Out of memory: ${ours.outOfMemory}. Jobs that took more than was reserved for them: ${ours.tooLow}; the room above the load line is for those.`,
      missed.length === 0 ? 'All targets met.' : `Missed: ${missed.join('; ')}.`,
    ].join('\n'),
  );
}
process.exitCode = missed.length === 0 ? 0 : 1;
