import type { KnownModel } from '../../model/types.js';
import type { Gpu } from '../cards/gpu-table.js';
import type { EventStream } from '../trace/event-stream.js';
import type { Part, Workload } from '../types.js';
import { familyBuilds } from './families/registry.js';
import { Net, type Packing } from './run/net.js';
import { Recorder } from './run/recorder.js';
import { runSteps } from './run/steps.js';
import { Tape } from './run/tape.js';

export interface DryRun {
  readonly stream: EventStream;
  /** What each request is for. */
  readonly parts: readonly Part[];
  /** Parameters that were built; the adapters are not among them. */
  readonly parameters: number;
}

/** Builds a model and takes a few steps, op by op, without any numbers. */
export function dryRun(model: KnownModel, workload: Workload, gpu: Gpu, packing?: Packing): DryRun {
  const training = workload.mode === 'train';
  const recorder = new Recorder();
  const tape = new Tape(recorder, training);
  const halves = workload.quantization === 'fp16';
  const autocasts = workload.precision.startsWith('amp-');
  const net = new Net(tape, {
    training,
    width: (workload.precision === 'fp32' || autocasts) && !halves ? 4 : 2,
    autocast: autocasts ? 2 : undefined,
    checkpointing: workload.checkpointing,
    keepsOutputs: workload.keep === 'outputs',
    loraRank: training ? workload.loraRank : undefined,
    packing,
    workspaceBytes: gpu.workspaceBytes,
    fusedAttention: hasFusedAttention(gpu),
    writtenScores: model.writtenScores === 'unknown' ? undefined : model.writtenScores,
  });
  const built = familyBuilds[model.family]({ net, model, workload });
  const own = net.parameters.filter(({ adapter }) => !adapter);
  const parameters = own.reduce((sum, { elements }) => sum + elements, 0);
  recorder.ready();
  runSteps(net, built, workload.optimizer, workload.accumulation);
  return { ...recorder.finish(), parameters };
}

/** Flash attention runs on Ampere and later, and on AMD's cards for data centres. */
function hasFusedAttention({ vendor, capability }: Gpu): boolean {
  return vendor === 'amd' || capability === 'unknown' || Number.parseFloat(capability) >= 8;
}
