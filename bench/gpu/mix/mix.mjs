// A mix of real training jobs on one GPU: one after another, then packed by memory. The same steps both
// times. What is compared: how long it takes, how much is trained a second, who runs out of memory.
//
//   node bench/gpu/mix/mix.mjs [--plimsoll ./plimsoll] [--python python3] [--seconds 8] [--only gpt2,bert]
//     [--tiny] [--limit 360] [--output mix.json]
//
// On a machine without Node, with the archive that "npm run bundle" makes:
//   ./plimsoll-*/runtime/node bench/gpu/mix/mix.mjs --plimsoll ./plimsoll-*/plimsoll
//
// Run it from the root of the checkout. About six minutes on an H200. With --tiny the same jobs in
// miniature on whatever there is, the host's memory included. Ends with exit code 1 when a job failed
// or ran out of memory, or packing was no faster.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { truthFolder } from '../../truth.mjs';
import { runPhase } from './phase.mjs';

// The same jobs so small that a laptop without a GPU runs them: the same kinds of layers, few and narrow.

const sizes = {
  hidden_size: 32,
  n_embd: 32,
  d_model: 32,
  embed_dim: 16,
  word_embed_proj_dim: 32,
  intermediate_size: 64,
  n_inner: 64,
  ffn_dim: 64,
  d_ff: 64,
  encoder_ffn_dim: 64,
  decoder_ffn_dim: 64,
  d_kv: 16,
  head_dim: 16,
  num_hidden_layers: 2,
  n_layer: 2,
  num_layers: 2,
  num_decoder_layers: 2,
  encoder_layers: 2,
  decoder_layers: 2,
  num_attention_heads: 2,
  n_head: 2,
  num_heads: 2,
  num_key_value_heads: 2,
  encoder_attention_heads: 2,
  decoder_attention_heads: 2,
  vocab_size: 256,
  max_source_positions: 50,
  depths: [1, 1],
};
/** What counts layers or stages, or loses its ".0" on the way through JSON. */
const dropped = [
  'layer_types',
  'out_features',
  'out_indices',
  'stage_names',
  'begin_suppress_tokens',
  'suppress_tokens',
  'initializer_factor',
];
const ids = ['bos_token_id', 'eos_token_id', 'pad_token_id', 'decoder_start_token_id'];

/** Writes the small config into a folder, and answers the job that uses it. */
function tinyJob(job, folder) {
  const small = { ...job, batch: 2, loaderMs: 5, statedGiB: job.statedGiB && 0.75 };
  if (job.source === 'torchvision') return { ...small, model: 'resnet18', seq: 64 };
  if (job.source === 'script') return { ...small, batch: 1, seq: 4 };
  const config = JSON.parse(readFileSync(job.path, 'utf8'));
  for (const [key, value] of Object.entries(sizes))
    if (config[key] !== undefined) config[key] = value;
  if (Array.isArray(config.num_heads) || config.depths) config.num_heads = [2, 2];
  for (const key of ids) if (config[key] >= 256) config[key] = 1;
  for (const key of dropped) delete config[key];
  const path = join(folder, `${job.name}-${basename(job.path)}`);
  writeFileSync(path, JSON.stringify(config));
  const isImage = config.image_size !== undefined;
  return { ...small, path, seq: isImage ? config.image_size : 16 };
}

// What a person reads of the two phases, and the figures behind it.
const GiB = 2 ** 30;
const gib = (bytes) => (bytes === null ? 'unknown' : (bytes / GiB).toFixed(1));
const seconds = (value) => (value === null || value === undefined ? '-' : value.toFixed(1));

function reportOf(alone, packed) {
  const before = new Map(alone.jobs.map((one) => [one.job, one]));
  const rows = packed.jobs.map((one) => [
    one.job,
    gib(one.reservedBytes),
    one.basis,
    gib(one.peakBytes),
    one.peakBytes ? signed(one.reservedBytes / one.peakBytes - 1) : '-',
    seconds(before.get(one.job)?.runSeconds),
    seconds(one.runSeconds),
    String(one.trained?.steps ?? '-'),
    one.outOfMemory > 0 ? `out of memory ${one.outOfMemory} x, ${one.state}` : one.state,
  ]);
  const names = ['job', 'reserved', 'basis', 'peak', 'off', 'alone s', 'packed s', 'steps', ''];
  const faster = alone.seconds / packed.seconds;
  const phases = [alone, packed];
  const wrong = phases.flatMap(({ name, jobs }) =>
    jobs
      .filter(({ state, outOfMemory }) => state !== 'succeeded' || outOfMemory > 0)
      .map((one) => ({ phase: name, one })),
  );
  const outOfMemory = sum(
    phases.flatMap(({ jobs }) => jobs),
    (one) => one.outOfMemory,
  );
  const ok = wrong.length === 0 && faster > 1;
  const text = [
    table([names, ...rows]),
    '',
    ...phases.map(summary),
    `Packed: ${faster.toFixed(2)} x as fast, ${(rate(packed) / rate(alone)).toFixed(2)} x the samples a second, ${outOfMemory} out of memory (GiB; "off" is reserved against measured).`,
    startless(alone, packed),
    ...wrong.map(
      ({ phase, one: { job, state, reason, log = '' } }) =>
        `\n${phase}: ${job} ${state}. ${reason}\n${log}`,
    ),
  ].join('\n');
  return {
    text,
    ok,
    figures: {
      faster,
      fasterWithoutStart: trainedSeconds(alone) / packedSeconds(packed),
      outOfMemory,
      samplesRatio: rate(packed) / rate(alone),
      phases,
    },
  };
}

function summary({
  name,
  seconds: took,
  estimatingSeconds,
  maxAtOnce,
  maxReservedBytes,
  maxUsedBytes,
  loadLineBytes,
  ...phase
}) {
  return `${name}: ${took.toFixed(1)} s from the first submit to the last end (all figures known after ${estimatingSeconds.toFixed(1)} s), ${rate({ ...phase, seconds: took }).toFixed(1)} samples a second, up to ${maxAtOnce} at once, ${gib(maxReservedBytes)} GiB reserved and ${gib(maxUsedBytes)} GiB used at most, load line ${gib(loadLineBytes)} GiB`;
}

/** Starting Python takes as long as some of these jobs train, so the training is told alone, too. */
function startless(alone, packed) {
  const [sequential, whole] = [trainedSeconds(alone), packedSeconds(packed)];
  return `Without the start of each program: ${seconds(sequential)} s of training one after another, ${seconds(whole)} s from the first step to the last when packed: ${(sequential / whole).toFixed(2)} x.`;
}

function trainedSeconds({ jobs }) {
  return sum(jobs, ({ trained }) => (trained ? trained.trainedTo - trained.trainedFrom : 0));
}

function packedSeconds({ jobs }) {
  const trained = jobs.flatMap((one) => (one.trained ? [one.trained] : []));
  const ends = trained.map(({ trainedTo }) => trainedTo);
  return Math.max(...ends) - Math.min(...trained.map(({ trainedFrom }) => trainedFrom));
}

function rate({ jobs, seconds: took }) {
  return sum(jobs, ({ trained }) => trained?.samples ?? 0) / took;
}

function sum(list, of) {
  return list.reduce((total, one) => total + of(one), 0);
}

function signed(share) {
  return `${share < 0 ? '' : '+'}${(100 * share).toFixed(1)} %`;
}

function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 || column === row.length - 1
            ? cell.padEnd(widths[column])
            : cell.padStart(widths[column]),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { values } = parseArgs({
  options: {
    plimsoll: { type: 'string' },
    python: { type: 'string', default: 'python3' },
    seconds: { type: 'string' },
    only: { type: 'string' },
    tiny: { type: 'boolean', default: false },
    limit: { type: 'string', default: '360' },
    output: { type: 'string' },
  },
});
const folder = mkdtempSync(join(tmpdir(), 'plimsoll-mix-'));
try {
  process.exitCode = await main();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function main() {
  const jobs = chosenJobs();
  const options = {
    jobs,
    folder,
    command: commandOf(values.plimsoll ?? `${root}bin/plimsoll.js`),
    python: values.python,
    seconds: Number(values.seconds ?? (values.tiny ? 1 : 8)),
    limitSeconds: Number(values.limit),
  };
  console.log(`${jobs.length} training jobs, one after another ...`);
  const alone = await runPhase({
    ...options,
    name: 'one after another',
    environment: { MAX_CONCURRENT_JOBS: '1' },
  });
  const steps = new Map(
    alone.jobs.flatMap(({ job, trained }) => (trained ? [[job, trained.steps]] : [])),
  );
  console.log(`... ${alone.seconds.toFixed(1)} s; the same steps again, packed ...`);
  // A limit of the outside world does not belong into this one.
  const packed = await runPhase({
    ...options,
    name: 'packed',
    steps,
    environment: { MAX_CONCURRENT_JOBS: '' },
  });
  const { text, figures, ok } = reportOf(alone, packed);
  console.log(text);
  if (values.output) writeFileSync(values.output, `${JSON.stringify(figures, undefined, 2)}\n`);
  return ok ? 0 : 1;
}

/** The launcher of an archive is a program; the file of a checkout needs Node. */
function commandOf(path) {
  return path.endsWith('.js') ? [process.execPath, resolve(path)] : [resolve(path)];
}

/** `cases/...` is a file of the set `cases`, anything else of this checkout. */
function placeOf(path) {
  return path.startsWith('cases/')
    ? join(truthFolder('cases'), path.slice('cases/'.length))
    : join(root, path);
}

function chosenJobs() {
  const all = JSON.parse(readFileSync(new URL('jobs.json', import.meta.url), 'utf8'));
  const wanted = values.only?.split(',');
  return all
    .filter(({ name }) => wanted === undefined || wanted.includes(name))
    .map((job) => {
      const placed = job.path ? Object.assign(job, { path: placeOf(job.path) }) : job;
      return values.tiny ? tinyJob(placed, folder) : placed;
    });
}
