import type { JobView } from '../../src/jobs/daemon/types.js';
import { needReasonWords } from '../../src/jobs/reasons/is-reason.js';
import type { JobReason, NeedReason } from '../../src/jobs/reasons/types.js';
import { reasonWords } from '../../src/jobs/reasons/words.js';
import type { JobState } from '../../src/jobs/types.js';
import type { Attempt, ClimbedRung, ProgressPoint } from '../../src/run/types.js';
import { GiB, MiB } from '../../src/units/bytes.js';

/** Numbers from 0 to 1 that are the same each time for the same seed. */
export type Random = () => number;

export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const models = [
  ['bert-base', 5.2],
  ['gpt2-medium', 17.5],
  ['resnet50', 9.1],
  ['llama-8b lora', 31],
  ['whisper-small', 12.4],
  ['vit-large', 22.8],
  ['t5-base', 14.2],
  ['sdxl unet', 38],
] as const;

export interface MadeJob {
  readonly number: number;
  readonly state: JobState;
  readonly nowMs: number;
  readonly random: Random;
}

const growingSegments = {
  name: 'PYTORCH_CUDA_ALLOC_CONF',
  from: null,
  to: 'expandable_segments:True',
  by: 'submit',
  reason:
    'Segments grow in place instead of being cut from fixed blocks, so sizes that change from step to step leave fewer holes.',
} as const;

const removedDebugSetting = {
  name: 'CUDA_LAUNCH_BLOCKING',
  from: '1',
  to: null,
  by: 'submit',
  reason: 'Python queues kernels and goes on; with 1 it would wait for each of them.',
} as const;

/** A job as a busy team leaves it behind: most went well, some ran out of memory and came back. */
export function makeJob({ number, state, nowMs, random }: MadeJob): JobView {
  const [model, gib] = models[Math.floor(random() * models.length)] ?? models[0];
  const bytes = Math.round(gib * (0.85 + random() * 0.3) * GiB);
  const ranSeconds = 60 + random() * 3000;
  const ended = state !== 'waiting' && state !== 'running';
  const started = state === 'running' || state === 'succeeded' || state === 'failed';
  const endMs = nowMs - (ended ? random() * 6 * 86_400_000 : 0);
  const startMs = ended ? endMs - ranSeconds * 1000 : nowMs - random() * 1_800_000;
  const submitMs = startMs - 1000 - random() * 600_000;
  const recovered = ended && started && random() < 0.2;
  const batch = 2 ** (3 + Math.floor(random() * 4));
  const command = [
    'python',
    'train.py',
    '--model',
    model.split(' ')[0] ?? model,
    '--batch-size',
    '{batch_size}',
    '--accumulate',
    '{accumulation}',
  ];
  const attempts =
    ended && started
      ? makeAttempts({
          startMs,
          endMs,
          bytes,
          batch,
          recovered,
          command,
          failed: state === 'failed',
        })
      : [];
  const reasonDetails = reasonOf({ state, bytes, attempts });
  return {
    id: String(number),
    name: `${model} ${['pretrain', 'finetune', 'sweep', 'eval'][number % 4] ?? ''}`,
    owner: 'owner',
    state,
    reason: reasonDetails === null ? '' : reasonWords(reasonDetails),
    reasonDetails,
    command,
    priority: random() < 0.1 ? 5 : 0,
    submittedAt: new Date(submitMs).toISOString(),
    startedAt: started ? new Date(startMs).toISOString() : null,
    endedAt: ended ? new Date(endMs).toISOString() : null,
    reservation: started ? { devices: ['gpu:0'], bytes, basis: 'estimated' } : null,
    attempts,
    gpus: 1,
    cwd: '/srv/train',
    need: makeNeed(bytes, number, random),
    waiting: null,
    usedBytes: 'unknown',
    currentAttempt:
      state === 'running'
        ? {
            number: 1,
            settings: madeSettings(batch, 1),
            startedAt: new Date(startMs).toISOString(),
            rungs: [],
            progress: madeProgress((nowMs - startMs) / 1000, batch, bytes * 0.9),
          }
        : null,
    elastic: null,
    limit: null,
    degraded: null,
    environmentChanges: number % 3 === 0 ? [removedDebugSetting, growingSegments] : [],
    log: { bytes: 0 },
  };
}

function makeNeed(bytes: number, number: number, random: Random): JobView['need'] {
  const isMeasured = random() < 0.4;
  const estimatedBytes = Math.round(bytes * (0.9 + random() * 0.25));
  const runs = isMeasured ? 2 + (number % 4) : 0;
  const peak = { maxPeakBytes: Math.round(bytes * 0.95), marginBytes: Math.round(bytes * 0.05) };
  const whyDetails: NeedReason = isMeasured
    ? { code: 'measured', runs, outOfMemory: 0, ...peak, estimatedBytes, wholeDevice: false }
    : { code: 'estimated', bytes: estimatedBytes, traced: false };
  return {
    bytes,
    basis: whyDetails.code,
    why: needReasonWords(whyDetails),
    whyDetails,
    estimatedBytes,
    runs,
  };
}

function reasonOf(job: {
  readonly state: JobState;
  readonly bytes: number;
  readonly attempts: readonly Attempt[];
}): JobReason | null {
  const last = job.attempts.at(-1);
  switch (job.state) {
    case 'succeeded':
      return last === undefined || job.attempts.length < 2
        ? null
        : { code: 'recovered', times: job.attempts.length - 1, settings: last.settings };
    case 'failed':
      return { code: 'exited', exitCode: 1, signal: null };
    case 'expired':
      return { code: 'expired' };
    case 'refused':
      return {
        code: 'too-large',
        bytes: job.bytes,
        basis: 'estimated',
        gpus: 1,
        largestBytes: 72 * GiB,
      };
    case 'cancelled':
      return { code: 'cancelled', during: 'running' };
    case 'waiting':
    case 'running':
      return null;
    default:
      return job.state satisfies never;
  }
}

interface Run {
  readonly startMs: number;
  readonly endMs: number;
  readonly bytes: number;
  readonly batch: number;
  readonly recovered: boolean;
  readonly failed: boolean;
  readonly command: readonly string[];
}

function makeAttempts(run: Run): readonly Attempt[] {
  const { startMs, endMs, bytes, batch, recovered, failed } = run;
  const cutMs = startMs + (endMs - startMs) * 0.2;
  if (!recovered) {
    return [
      attempt(run, 1, batch, 1, startMs, endMs, { exitCode: failed ? 1 : 0, peak: bytes * 0.93 }),
    ];
  }
  const rungs: readonly ClimbedRung[] = [
    {
      rung: 'give-back-cache',
      why: 'Asked for 1.2 GiB with 0.3 GiB free; the cache held 0.6 GiB.',
      atSeconds: (cutMs - startMs) / 1000 - 4,
    },
    {
      rung: 'smaller-microbatch',
      why: `Batch ${batch} does not fit; ${batch / 2} in 2 steps keeps the effective batch.`,
      atSeconds: (cutMs - startMs) / 1000,
    },
  ];
  return [
    attempt(run, 1, batch, 1, startMs, cutMs, { exitCode: 1, peak: bytes, rungs }),
    attempt(run, 2, batch / 2, 2, cutMs + 2000, endMs, {
      exitCode: failed ? 1 : 0,
      peak: bytes * 0.81,
    }),
  ];
}

function madeSettings(batch: number, accumulation: number): Attempt['settings'] {
  return {
    batch_size: batch,
    accumulation,
    checkpointing: false,
    precision: 'amp-bf16',
    offload: false,
    device: 'gpu:0',
  };
}

function attempt(
  { bytes, command }: Run,
  number: number,
  batch: number,
  accumulation: number,
  startMs: number,
  endMs: number,
  end: { exitCode: number; peak: number; rungs?: readonly ClimbedRung[] },
): Attempt {
  const { exitCode, peak, rungs = [] } = end;
  return {
    number,
    settings: madeSettings(batch, accumulation),
    command,
    startedAt: new Date(startMs).toISOString(),
    endedAt: new Date(endMs).toISOString(),
    exitCode,
    outOfMemory:
      rungs.length === 0
        ? null
        : {
            kind: 'cuda',
            askedBytes: 1200 * MiB,
            freeBytes: 310 * MiB,
            totalBytes: 80 * GiB,
            message: 'CUDA out of memory. Tried to allocate 1.17 GiB.',
          },
    rungs,
    peakBytes: Math.round(peak),
    source: 'simulated',
    peakFrom: 'sdk',
    limit: { bytes, by: 'sdk', why: 'Held by the SDK inside of the process.' },
    snapshot: null,
    ...(rungs.length > 0 && {
      holders: {
        atSeconds: Math.round((endMs - startMs) / 1000),
        totalBytes: peak,
        othersBytes: 0,
        processes: [{ pid: 4711, command: 'python train.py', bytes: peak }],
      },
    }),
    progress: madeProgress((endMs - startMs) / 1000, batch, peak),
  };
}

/** Steps of a training whose loss falls. */
function madeProgress(seconds: number, batch: number, peak: number): readonly ProgressPoint[] {
  return Array.from({ length: 60 }, (_, index) => ({
    atSeconds: (seconds * (index + 1)) / 60,
    step: (index + 1) * 10,
    samplesPerSecond: Math.round((batch * 10 + 3 * Math.sin(index)) * 10) / 10,
    loss: Math.round((0.4 + 4 / (1 + index / 8)) * 1000) / 1000,
    microbatch: batch,
    peakBytes: Math.round(peak * (0.94 + 0.05 * Math.sin(index / 9))),
  }));
}

/** What a job held: it ran out of memory after a fifth of its time, and went on with less. */
export function usedOverTime(
  { need, startedAt, endedAt }: JobView,
  nowMs: number,
): { readonly epochMs: readonly number[]; readonly usedBytes: readonly (number | null)[] } {
  if (startedAt === null) return { epochMs: [], usedBytes: [] };
  const from = Date.parse(startedAt);
  const to = endedAt === null ? nowMs : Date.parse(endedAt);
  const epochMs = Array.from({ length: 200 }, (_, index) => from + ((to - from) * index) / 199);
  const bytesAt = (index: number) =>
    Math.round(
      need.bytes *
        Math.min(index < 40 ? 1 : 0.81, ((index % 40) + 4) / 12) *
        (0.97 + 0.03 * Math.sin(index)),
    );
  const usedBytes = epochMs.map((_, index) => (index > 38 && index < 42 ? null : bytesAt(index)));
  return { epochMs, usedBytes };
}

export const logText = Array.from({ length: 300 }, (_, step) =>
  step === 120
    ? '\u001b[31mRuntimeError: CUDA out of memory. Tried to allocate 1.17 GiB.\u001b[0m\n\u001b[33mplimsoll: batch 32 -> 16, accumulation 1 -> 2; attempt 2 begins\u001b[0m'
    : `step ${String(step).padStart(4)}  loss ${(4 / (1 + step / 40)).toFixed(4)}  ${(180 + (step % 7)).toFixed(0)} samples/s`,
).join('\n');
