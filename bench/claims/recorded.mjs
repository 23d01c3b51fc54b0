// Claims whose figures were measured on a GPU once, read from the files that hold them.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const file = (name) => fileURLToPath(new URL(`../results/rows/${name}`, import.meta.url));
const percent = (share) => `${share > 0 ? '+' : ''}${Math.round(share * 100)} %`;

/** How far a claim is reached: everywhere, in some of the cases, or nowhere. */
export function reached(values, isReached) {
  const good = values.filter(isReached).length;
  if (good === values.length && good > 0) return 'reached';
  return good === 0 ? 'not reached' : `in part (${good} of ${values.length})`;
}

export function recordedClaims() {
  const found = JSON.parse(readFileSync(file('gpu-claims.json'), 'utf8'));
  const on = `${found.device}, torch ${found.torch}, ${found.date}`;
  const command = 'python3 bench/gpu/claims/measure.py';
  const how = { on, command, source: 'measured' };
  return [
    trainingMemory(found, how),
    ...notPublished(found, how),
    efficiency(found, how),
    lessMemory(found, how),
    throughput(found, how),
    latency(found, how),
    ...outOfMemory(found, how),
    belowNinety(),
    environment(),
  ];
}

const shareOf = ({ plain, optimize }) => optimize.peakBytes / plain.peakBytes - 1;

/** Figures of models and systems that only their project has: ours are of other models. */
function notPublished({ training }, how) {
  const models = Object.values(training);
  const sum = (way) => models.reduce((total, one) => total + one[way].peakBytes, 0);
  const of = (claim, figures) => ({
    claim,
    ours: `cannot be reproduced; ours: ${figures}`,
    verdict: 'not shown',
    how: 'the model, its data and how it was measured are not published; ours is plimsoll.optimize(model, optimizer) beside fp32 with TF32, peak of the allocator in training, same batch',
    ...how,
  });
  const ours = words(each(training, shareOf));
  return [
    of('Tactical Embedder -45 %', ours),
    of('Structure Embedder -35 %', ours),
    of(
      'overall system -49 %',
      `the three trainings together ${percent(sum('optimize') / sum('plain') - 1)}`,
    ),
  ];
}

/** The project does not say of what: taken as samples of a step for each byte of its peak. */
function efficiency({ training }, how) {
  const more = each(training, (one) => 1 / (1 + shareOf(one)) - 1);
  return {
    claim: 'memory efficiency +25 %',
    ours: words(more),
    verdict: reached(Object.values(more), (share) => share >= 0.25),
    how: 'the project does not say how it is measured; ours: samples of a step for each GiB of its peak, plimsoll.optimize(model, optimizer) beside fp32 with TF32',
    ...how,
  };
}

function lessMemory({ training }, how) {
  const less = each(
    training,
    (one) => one['optimize, checkpoint=False'].peakBytes / one.plain.peakBytes - 1,
  );
  return {
    claim: 'memory use -20 to -30 %',
    ours: words(less),
    verdict: reached(Object.values(less), (share) => share <= -0.2),
    how: 'plimsoll.optimize(model, optimizer, checkpoint=False) beside fp32 with TF32; peak of the allocator, same batch',
    ...how,
  };
}

/** Of many jobs on one card. */
function belowNinety() {
  const { rows, date } = tables()['sharing/1'];
  const [card, line, reserved, used] = rows.map(([, , packed]) => packed);
  return {
    claim: 'memory below 90 % while it works',
    ours: `${reserved} GiB reserved at most, load line at ${line} GiB; used at most ${Math.round((100 * used) / card)} %`,
    verdict: reached([reserved, used], (gibibytes) => gibibytes <= line),
    how: '15 trainings packed by plimsoll submit on one card (bench/results/sharing.md)',
    on: `NVIDIA H200, torch 2.11.0+cu130, ${date}`,
    command: 'npm run bench mix',
    source: 'measured',
  };
}

function tables() {
  return JSON.parse(readFileSync(file('tables.json'), 'utf8')).tables;
}

function trainingMemory({ training }, how) {
  const less = each(training, shareOf);
  return {
    claim: 'training memory -50 %',
    ours: words(less),
    verdict: reached(Object.values(less), (share) => share <= -0.5),
    how: 'plimsoll.optimize(model, optimizer) beside fp32 with TF32; peak of the allocator, same batch',
    ...how,
  };
}

function throughput({ training }, how) {
  const beside = (name) =>
    each(training, (one) => one[name].samplesPerSecond / one.plain.samplesPerSecond - 1);
  const fast = beside('optimize, checkpoint=False');
  return {
    claim: 'training throughput +20 %',
    ours: words(fast),
    verdict: reached(Object.values(fast), (share) => share >= 0.2),
    how: `plimsoll.optimize(model, optimizer, checkpoint=False), same batch. Not together with -50 % of memory: with checkpointing ${words(beside('optimize'))}; with checkpointing and twice the batch ${words(beside('optimize, twice the batch'))}`,
    ...how,
  };
}

function latency({ inference }, how) {
  const cases = Object.entries(inference).flatMap(([name, batches]) =>
    Object.entries(batches).map(([batch, one]) => [
      `${name} x ${batch}`,
      one.optimize.seconds / one.plain.seconds - 1,
    ]),
  );
  const less = Object.fromEntries(cases);
  return {
    claim: 'inference latency -16 %',
    ours: words(less),
    verdict: reached(Object.values(less), (share) => share <= -0.16),
    how: 'plimsoll.optimize(model, training=False): bfloat16. One sample at a time is limited by the launches of kernels, which it does not change',
    ...how,
  };
}

function outOfMemory({ outOfMemory: rows }, how) {
  const before = rows.filter(({ plain }) => !plain).length;
  const after = rows.filter(({ plimsoll }) => !plimsoll).length;
  const ours = `${before} of ${rows.length} ended so, ${after} with Plimsoll (${percent(after / before - 1)})`;
  const caps =
    'training of three models and loading of one under caps of 35 to 110 % of what they need: a plain loop beside plimsoll.recovering, .to(device) beside plimsoll.load';
  const row = (claim, least) => ({
    claim,
    ours,
    verdict: after / before - 1 <= least ? 'reached' : 'not reached',
    how: caps,
    ...how,
  });
  return [
    row('out-of-memory eliminated', -1),
    row('out-of-memory errors -50 %', -0.5),
    row('out-of-memory errors -90 %', -0.9),
  ];
}

/** Which settings, which model, how many times as long a step took. */
function environment() {
  const { rows } = tables()['debug-environment/1'];
  const of = (settings) =>
    rows.filter(([one]) => one === settings).map(([, model, , times]) => [model, times]);
  const blocking = of('`CUDA_LAUNCH_BLOCKING=1`');
  return {
    claim: 'parallel execution (production against debug environment) 2 to 3 x',
    ours: shown(blocking),
    verdict: reached(blocking, ([, times]) => times >= 2),
    how: `without CUDA_LAUNCH_BLOCKING=1; with PYTORCH_NO_CUDA_MEMORY_CACHING=1 beside it ${shown(of('`CUDA_LAUNCH_BLOCKING=1`, `PYTORCH_NO_CUDA_MEMORY_CACHING=1`'))}`,
    on: 'NVIDIA H200, torch 2.11.0+cu130, 2026-11-16',
    command: 'python bench/gpu/debug_environment.py --steps 30',
    source: 'measured',
  };
}

function shown(cases) {
  return cases.map(([model, times]) => `${model} ${times} x`).join(', ');
}

function each(models, share) {
  return Object.fromEntries(Object.entries(models).map(([name, one]) => [name, share(one)]));
}

function words(shares) {
  return Object.entries(shares)
    .map(([name, share]) => `${name} ${percent(share)}`)
    .join(', ');
}
