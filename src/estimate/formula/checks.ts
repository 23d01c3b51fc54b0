import { Failure } from '../../failure.js';
import type { KnownModel } from '../../model/model.js';
import { doubleNf4Bytes, int8Bytes, nf4Bytes } from '../../units/data-types.js';
import type { QuantizationPreset, Workload } from '../types.js';
import type { Wording } from '../wording.js';
import type { Packing } from './run/net.js';

/** 4 bits are unpacked as a whole before each product; 8 bits are multiplied as they are. */
const packings: Readonly<Record<QuantizationPreset, Packing | undefined>> = {
  cpu: undefined,
  fp16: undefined,
  int8: { bytesPerParameter: int8Bytes, unpacks: false },
  int4: { bytesPerParameter: nf4Bytes, unpacks: true },
  int4_double: { bytesPerParameter: doubleNf4Bytes, unpacks: true },
  int4_offload: { bytesPerParameter: doubleNf4Bytes, unpacks: true },
};

export function packingOf({ quantization }: Workload): Packing | undefined {
  return quantization === undefined ? undefined : packings[quantization];
}

/** Throws where the workload leaves out what the model needs, or cannot be run at all. */
export function checkWorkload(model: KnownModel, workload: Workload, wording: Wording): void {
  const takesText = model.stacks.some(({ input }) => input.kind === 'tokens');
  const takesWaves = model.family === 'wav2vec2';
  if ((takesText || takesWaves) && workload.sequence === undefined) {
    throw refuse(
      'no-sequence',
      `How much ${model.className} needs depends on the length of its input, which is not given.`,
      takesWaves
        ? addSequence('the samples of sound', 160_000, wording)
        : addSequence('the tokens of a sequence', 1024, wording),
    );
  }
  const roles = new Set(model.stacks.map(({ role }) => role));
  if (workload.targetSequence !== undefined && !(roles.has('encoder') && roles.has('decoder'))) {
    throw refuse(
      'no-target',
      `${model.className} has no decoder beside an encoder, so its labels have no length of their own.`,
      `Leave ${wording.name('targetSeq')} out.`,
    );
  }
  checkQuantization(workload, wording);
}

/** The next step if the length of a sample is missing. */
export function addSequence(counted: string, usual: number, { name, example }: Wording): string {
  return `Add ${name('seq')} with ${counted}, such as ${example('seq', usual)}.`;
}

export function checkQuantization(
  { mode, quantization, loraRank }: Workload,
  { name, example }: Wording,
): void {
  if (quantization === 'cpu') {
    throw refuse(
      'no-gpu-memory',
      'The preset cpu keeps the whole model on the host, so it takes no memory of a GPU.',
      `Choose another preset, or leave ${name('quantization')} out.`,
    );
  }
  const packed = quantization !== undefined && packings[quantization] !== undefined;
  if (mode === 'train' && packed && loraRank === undefined) {
    throw refuse(
      'quantized-not-trained',
      `Weights quantized to ${quantization} cannot be trained themselves.`,
      `Train adapters beside them: add ${example('lora', 16)}.`,
    );
  }
}

export function refuse(code: string, fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code, fact, next });
}

/** Something in a model that the formula does not know. What to do then, `orTraceInstead` says. */
export class NoFormula extends Error {
  readonly what: string;

  constructor(what: string) {
    super(`There is no formula for ${what}.`);
    this.name = 'NoFormula';
    this.what = what;
  }
}

/** Runs it; what deep inside turned out to be unknown becomes a `Failure` with the next step. */
export function orTraceInstead<T>(run: () => T, wording: Wording): T {
  try {
    return run();
  } catch (error) {
    throw traceInstead(error, wording);
  }
}

/** The error to throw in the place of one from deep inside. */
export function traceInstead(error: unknown, wording: Wording): unknown {
  if (!(error instanceof NoFormula)) return error;
  return new Failure({
    kind: 'input',
    code: 'no-formula',
    fact: error.message,
    next: `Trace the model instead: ${tracing(wording)}`,
    cause: error,
  });
}

/** How to have a model traced, up to the end of the sentence. */
export function tracing({ example }: Wording): string {
  return `${example('method', 'trace')}, where Python and torch are installed.`;
}
