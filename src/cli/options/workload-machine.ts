import { totalmem } from 'node:os';
import { openDevices } from '../../config/open-devices.js';
import type { Settings } from '../../config/settings.js';
import { type GpuHere, gpusAmong } from '../../estimate/cards/gpu-at-hand.js';
import { openEstimateWork } from '../../estimate/thread/estimate-threads.js';
import type { AnswerMachine } from '../../plan/answers/machine.js';
import type { RequestField, RequestWording } from '../../plan/answers/wording.js';
import { formatBytes } from '../../units/bytes.js';
import type { CliIo } from '../io.js';

/** This machine, for answers to those who type options. */
export function workloadMachine(
  settings: Settings,
  { environment, folder }: CliIo,
  {
    python,
    hub,
    program,
  }: {
    readonly python?: string | undefined;
    readonly hub?: boolean | undefined;
    /** How the command that asks takes a program. */
    readonly program?: string;
  },
): AnswerMachine {
  return {
    environment,
    folder,
    python,
    hub,
    gpus: settings.gpus,
    gpusHere: () => gpusHere(settings),
    hostBytes: totalmem(),
    work: openEstimateWork({ allCores: true }).work,
    wording: { ...optionWording, program },
  };
}

/** Fields whose option has another name. */
const optionNames: Partial<Record<RequestField, string>> = {
  model: 'a model',
  args: '--arg',
  targetSeq: '--target-seq',
  memoryBytes: '--memory',
  allocatorMemoryBytes: '--allocator-memory',
  maxBatch: '--max-batch',
  maxModelLen: '--max-model-len',
  gpuMemoryUtilization: '--gpu-memory-utilization',
  kvPrecision: '--kv-precision',
  gatherPrecision: '--gather-precision',
  reducePrecision: '--reduce-precision',
  reshard: '--no-reshard',
  fsdpStrategy: '--fsdp-strategy',
  origParams: '--no-orig-params',
  bucketMb: '--bucket-mb',
  bucketView: '--bucket-view',
};

/** For those who type options. */
export const optionWording: RequestWording = {
  name: optionName,
  example: (field, value) => `${optionName(field)} ${shown(field, value)}`,
  anotherPython: 'name another with --python',
  otherModels: 'give --parameters, or let --hub download its config.json',
};

function optionName(field: RequestField): string {
  return optionNames[field] ?? `--${field}`;
}

function shown(field: RequestField, value: unknown): string {
  if (field === 'memoryBytes') return formatBytes(Number(value)).replace('.0 ', '');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, text]) => `${name}=${String(text)}`)
    .join(' ');
}

/** The GPUs of this machine, in their order. */
export async function gpusHere(settings: Settings): Promise<readonly GpuHere[]> {
  const discovery = await openDevices(settings);
  try {
    return await gpusAmong(discovery.devices);
  } finally {
    discovery.close();
  }
}
