// The jobs of the simulation: what they really need, and what this project says they need.
import { fileURLToPath } from 'node:url';
import { findGpu } from '../../dist/estimate/cards/gpus.js';
import { formulaEstimate } from '../../dist/estimate/formula/formula-estimate.js';
import { Failure } from '../../dist/failure.js';
import { readModel } from '../../dist/model/read-model.js';
import { bytesToReserve } from '../../dist/plan/fit/fit.js';
import { readCases, truthFolders } from '../accuracy/cases.mjs';

/**
 * Models without a formula are traced, which needs Python and minutes. Here their estimate is the
 * truth with an error as large as the traces' was measured (2.2 % at most for networks with many
 * convolutions, `src/estimate/trace/trace-interval.ts`), and the interval that such a trace has.
 */
const traced = { error: 0.022, interval: 0.03 };
/** From a minute to an hour, short ones more often: as likely from 1 to 2 minutes as from 30 to 60. */
const seconds = { shortest: 60, longest: 3600 };
/** Jobs of one workload take about the same time. */
const jitter = 0.1;

/** One for each measured run: `needs` is what the process took of the device, context and all. */
export async function measuredRuns(loadLineBytes) {
  const gpu = findGpu('h200');
  const cases = readCases(
    fileURLToPath(new URL('../truth/peaks.json', import.meta.url)),
    truthFolders,
  );
  const runs = [];
  for (const { id, source, workload, measured } of cases) {
    const byFormula =
      source.kind === 'config'
        ? await estimateOf(source.path, workload, gpu, loadLineBytes)
        : undefined;
    const { process_used: needs, peak_reserved: reserved } = measured;
    runs.push({ id, needs, reserved, byFormula });
  }
  return runs;
}

/** The runs with what chance has in it: how long they take, and how wrong a trace is. */
export function drawWorkloads(runs, random) {
  return runs.map(({ id, needs, reserved, byFormula }) => {
    const error = 1 + (random() * 2 - 1) * traced.error;
    const estimated = byFormula ?? Math.round(needs * error + reserved * traced.interval);
    const method = byFormula ? 'formula' : 'trace';
    const typical = seconds.shortest * (seconds.longest / seconds.shortest) ** random();
    return { id, needs, estimated, method, typical };
  });
}

async function estimateOf(path, workload, gpu, loadLineBytes) {
  try {
    return bytesToReserve(formulaEstimate(await readModel(path), workload, gpu), loadLineBytes);
  } catch (error) {
    if (error instanceof Failure) return undefined;
    throw error;
  }
}

/** So many jobs of these workloads, in the order in which they come. */
export function drawJobs(workloads, count, random) {
  return Array.from({ length: count }, (_, index) => {
    const workload = workloads[Math.floor(random() * workloads.length)];
    const length = workload.typical * (1 + (random() * 2 - 1) * jitter);
    return { ...workload, number: index + 1, seconds: length, atSeconds: 0 };
  });
}

/**
 * The same jobs, coming one after another: as far apart as chance has it, and together as much work as
 * that share of what the devices could do in the time.
 */
export function arriving(jobs, share, boundSeconds, random) {
  const gaps = jobs.map(() => -Math.log(1 - random()));
  const all = gaps.reduce((sum, gap) => sum + gap, 0);
  let at = 0;
  return jobs.map((job, index) => {
    at += (gaps[index] / all) * (boundSeconds / share);
    return { ...job, atSeconds: at };
  });
}
