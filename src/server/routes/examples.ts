import type { DeviceView, JobRequest, JobSummary, JobView } from '../../jobs/daemon/types.js';
import type { JobState } from '../../jobs/types.js';

const gib = 1024 ** 3;

/** What the document shows, so that somebody who reads it can send and expect something. */
export const jobRequestExample = {
  command: ['python', 'train.py', '--batch-size', '{batch_size}'],
  memoryBytes: 6 * gib,
  batch: 32,
  name: 'resnet on cifar',
} satisfies JobRequest;

export const jobSummaryExample: JobSummary = {
  id: '1',
  name: 'resnet on cifar',
  owner: 'ada',
  state: 'running',
  reason: '',
  reasonDetails: null,
  command: jobRequestExample.command,
  priority: 0,
  submittedAt: '2026-01-01T00:00:00.000Z',
  startedAt: '2026-01-01T00:00:01.000Z',
  endedAt: null,
  gpus: 1,
  reservation: { devices: ['gpu:0'], bytes: 6 * gib, basis: 'stated' },
  attempts: [],
  need: {
    bytes: 6 * gib,
    basis: 'stated',
    why: 'Stated: 6.0 GiB.',
    whyDetails: { code: 'stated', bytes: 6 * gib, runs: 0, maxPeakBytes: 'unknown' },
    estimatedBytes: 'unknown',
    runs: 0,
  },
  waiting: null,
  degraded: null,
};

export const jobExample: JobView = {
  ...jobSummaryExample,
  cwd: '/srv/training',
  usedBytes: 5 * gib,
  currentAttempt: null,
  elastic: null,
  limit: null,
  environmentChanges: [
    {
      name: 'CUDA_LAUNCH_BLOCKING',
      from: '1',
      to: null,
      by: 'serve',
      reason: 'Python queues kernels and goes on; with 1 it would wait for each of them.',
    },
  ],
  log: { bytes: 1024 },
};

export const countsExample: Readonly<Record<JobState, number>> = {
  waiting: 0,
  running: 1,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  refused: 0,
  expired: 0,
};

export const deviceExample: DeviceView = {
  id: 'gpu:0',
  name: 'NVIDIA H100 80GB HBM3',
  source: 'nvml',
  provenance: 'measured',
  totalBytes: 80 * gib,
  usedBytes: 5 * gib,
  freeBytes: 75 * gib,
  processes: [{ pid: 4242, name: 'python', usedBytes: 5 * gib }],
  loadLineBytes: 72 * gib,
  otherProcessesBytes: 0,
  reservedBytes: 6 * gib,
  releasingBytes: 0,
  availableBytes: 66 * gib,
  reservations: [
    { jobId: '1', name: 'resnet on cifar', bytes: 6 * gib, usedBytes: 5 * gib, isReleasing: false },
  ],
  forecast: {
    risk: 'none',
    probability: { within15s: 0, within60s: 0, within5min: 0.01 },
    etaSeconds: 'never',
    lowSeconds: 'never',
    highSeconds: 'never',
    confidence: 0.9,
    bytesPerSecond: 0,
    reason: 'Memory does not grow.',
    recommendations: [],
    provenance: 'estimated',
  },
  alerts: [],
  takesJobs: true,
};

export const statusExample = {
  activeJobs: 1,
  waitingJobs: 0,
  reservedBytes: 6 * gib,
  waitingBytes: 0,
  devices: [
    {
      id: 'gpu:0',
      totalBytes: 80 * gib,
      usedBytes: 5 * gib,
      freeBytes: 75 * gib,
      usedPercent: 6.25,
      status: 'available',
    },
  ],
};

export const workloadExample = {
  model: 'torchvision:resnet50',
  mode: 'train',
  batch: 32,
  image: 224,
  precision: 'amp-bf16',
} as const;

export const planRequestExample = { ...workloadExample, memoryBytes: 24 * gib };

export const estimateExample = {
  method: 'formula',
  peak: {
    allocatedBytes: 3 * gib,
    reservedBytes: 4 * gib,
    deviceBytes: 5 * gib,
    leastCapacityBytes: 5 * gib,
  },
  interval: { lowBytes: 3 * gib, highBytes: 5 * gib, confidence: 0.95 },
  breakdown: [{ part: 'activations', bytes: 3 * gib }],
  gpu: {
    name: 'NVIDIA H100',
    capacityBytes: 80 * gib,
    context: { bytes: gib, lowBytes: gib / 2, highBytes: gib },
  },
  notes: [],
};

export const assumptionsExample = {
  assumptions: { batch: 1, optimizer: 'adamw', checkpointing: false, gpu: 'NVIDIA H100' },
} as const;

export const namesExample = {
  models: ['meta-llama/Meta-Llama-3-8B', 'openai-community/gpt2'],
  gpus: [{ name: 'NVIDIA H100', capacityBytes: 80 * gib }],
  gpu: { name: 'NVIDIA H100', isHere: true },
};

export const planExample = {
  fits: true,
  settings: { batch: 32, accumulation: 1, checkpointing: false, precision: 'amp-bf16' },
  estimate: estimateExample,
  alternatives: [],
  notes: [],
};
