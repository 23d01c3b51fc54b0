import type { Optimizer, Precision, QuantizationPreset } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { presetFacts } from '../quantization/presets.js';
import {
  type Concession,
  type Configuration,
  concessions,
  type Offload,
  type PlanFacts,
  type PlanWishes,
  type PlanWording,
  type ZeroStage,
  zeroStages,
} from './types.js';

/** The usual rank of adapters. */
const defaultRank = 16;

/** One value of a setting, with what it gives up. */
interface Choice<Value> {
  readonly value: Value;
  readonly concession?: Concession;
  readonly givesUp?: string;
}

/**
 * All configurations that are worth an estimate: what the person fixed stays, what was left open takes
 * each of its values.
 *
 * @example
 * const wishes = { mode: 'train', precision: 'bf16' } as const;
 * configurationsToTry(wishes, facts, callWording).filter((configuration) => configuration.checkpointing);
 */
export function configurationsToTry(
  wishes: PlanWishes,
  facts: PlanFacts,
  wording: PlanWording,
): Configuration[] {
  checkWishes(wishes, facts, wording);
  return wishes.mode === 'infer'
    ? inferenceConfigurations(wishes, facts)
    : trainingConfigurations(wishes, facts);
}

function trainingConfigurations(wishes: PlanWishes, facts: PlanFacts): Configuration[] {
  const configurations: Configuration[] = [];
  for (const kind of trainedParts(wishes, facts)) {
    const { loraRank, quantization } = kind.value;
    for (const precision of trainingPrecisions(wishes, facts, loraRank)) {
      for (const optimizer of trainingOptimizers(wishes, loraRank)) {
        const trained = {
          precision: precision.value,
          optimizer: optimizer.value,
          loraRank,
          quantization,
          ...given([kind, precision, optimizer]),
        };
        configurations.push(...slowerConfigurations(trained, wishes, facts));
      }
    }
  }
  return configurations;
}

/** The same training, with memory that is paid for in time. */
function slowerConfigurations(
  trained: Omit<Configuration, 'checkpointing' | 'offload' | 'zero'>,
  wishes: PlanWishes,
  facts: PlanFacts,
): Configuration[] {
  const configurations: Configuration[] = [];
  for (const checkpointing of checkpointings(wishes, facts)) {
    for (const offload of stateOffloads(wishes, trained.loraRank, trained.optimizer)) {
      for (const zero of stages(wishes, facts)) {
        configurations.push({ ...trained, checkpointing, offload, zero });
      }
    }
  }
  return configurations;
}

function inferenceConfigurations(wishes: PlanWishes, facts: PlanFacts): Configuration[] {
  const half = facts.bfloat16 ? 'bf16' : 'fp16';
  const presets: readonly Choice<QuantizationPreset | undefined>[] =
    wishes.quantization !== undefined
      ? [{ value: wishes.quantization }]
      : [
          { value: undefined },
          ...(facts.transformers
            ? (['int8', 'int4', 'int4_double', 'int4_offload'] as const)
            : []
          ).map((value) => ({
            value,
            concession: roundedTo(value),
            givesUp: roundedTo(value),
          })),
        ];
  return presets.map((quantization) => {
    const { concession, givesUp } = given([quantization]);
    return {
      checkpointing: false,
      precision: wishes.precision ?? half,
      optimizer: 'adamw',
      loraRank: wishes.loraRank,
      quantization: quantization.value,
      offload: quantization.value === 'int4_offload' ? 'weights' : 'none',
      zero: 0,
      concession,
      givesUp,
    };
  });
}

/** The whole model, or adapters beside it, and how the weights are then kept. */
function trainedParts(
  { loraRank, quantization }: PlanWishes,
  { transformers }: PlanFacts,
): Choice<{ loraRank?: number; quantization?: QuantizationPreset }>[] {
  const kept = quantization === undefined ? {} : { quantization };
  if (loraRank !== undefined) return [{ value: { loraRank, ...kept } }];
  const trained = `adapters of rank ${defaultRank} are trained, not the model`;
  if (quantization !== undefined && presetFacts[quantization].quantized) {
    const givesUp = `${trained}: rounded weights cannot be`;
    return [{ value: { loraRank: defaultRank, ...kept }, concession: 'training', givesUp }];
  }
  const whole = { value: kept };
  if (!transformers) return [whole];
  const beside: Choice<{ loraRank: number; quantization?: QuantizationPreset }> = {
    value: { loraRank: defaultRank, ...kept },
    concession: 'training',
    givesUp: trained,
  };
  if (quantization !== undefined) return [whole, beside];
  const rounded = (['int8', 'int4', 'int4_double'] as const).map((preset) => ({
    value: { loraRank: defaultRank, quantization: preset },
    concession: roundedTo(preset),
    givesUp: `${trained}; ${roundedTo(preset)}`,
  }));
  return [whole, beside, ...rounded];
}

function trainingPrecisions(
  { precision, quantization }: PlanWishes,
  { bfloat16 }: PlanFacts,
  loraRank: number | undefined,
): Choice<Precision>[] {
  if (precision !== undefined) return [{ value: precision }];
  // Frozen weights lose nothing in 16 bits, and the preset asks for them.
  if (loraRank !== undefined || quantization === 'fp16')
    return [{ value: bfloat16 ? 'bf16' : 'fp16' }];
  // All in fp16 does not converge: its smallest numbers are too large for gradients.
  if (!bfloat16) return [{ value: 'amp-fp16' }];
  const givesUp = 'weights and states of the optimizer in 16 bits';
  return [{ value: 'amp-bf16' }, { value: 'bf16', concession: 'numerics', givesUp }];
}

function trainingOptimizers(
  { optimizer }: PlanWishes,
  loraRank: number | undefined,
): Choice<Optimizer>[] {
  if (optimizer !== undefined) return [{ value: optimizer }];
  // The states of adapters are small.
  if (loraRank !== undefined) return [{ value: 'adamw-fused' }];
  return [
    { value: 'adamw-fused' },
    {
      value: 'adamw-8bit',
      concession: 'numerics',
      givesUp: 'states of the optimizer in 8 bits (bitsandbytes)',
    },
    {
      value: 'adafactor',
      concession: 'training',
      givesUp: 'AdamW: Adafactor keeps rows and columns of its states',
    },
  ];
}

function stateOffloads(
  { offload }: PlanWishes,
  loraRank: number | undefined,
  optimizer: Optimizer,
): readonly Offload[] {
  if (offload !== undefined) return [offload];
  const worthwhile = loraRank === undefined && /^adamw(-fused)?$/.test(optimizer);
  return worthwhile ? ['none', 'optimizer'] : ['none'];
}

function stages({ zero }: PlanWishes, { gpus }: PlanFacts): readonly ZeroStage[] {
  if (zero !== undefined) return [zero];
  return gpus > 1 ? zeroStages : [0];
}

function checkpointings(
  { checkpointing }: PlanWishes,
  { transformers }: PlanFacts,
): readonly boolean[] {
  if (checkpointing !== undefined) return [checkpointing];
  return transformers ? [false, true] : [false];
}

function given(choices: readonly Choice<unknown>[]): Pick<Configuration, 'concession' | 'givesUp'> {
  const worst = Math.max(
    ...choices.map(({ concession = 'speed' }) => concessions.indexOf(concession)),
  );
  return {
    concession: concessions[worst] ?? 'speed',
    givesUp: choices.flatMap(({ givesUp }) => givesUp ?? []),
  };
}

function roundedTo(preset: QuantizationPreset): Concession {
  return preset === 'int8' ? 'weights in 8 bits' : 'weights in 4 bits';
}

function checkWishes(
  { mode, quantization, offload, zero }: PlanWishes,
  facts: PlanFacts,
  { name, example }: PlanWording,
): void {
  if (quantization === 'cpu') {
    throw badUsage(
      `With ${example('quantization', 'cpu')} no GPU is used.`,
      'Leave it out, or take another.',
    );
  }
  if (mode === 'train' && quantization === 'int4_offload') {
    throw badUsage('Nothing can be trained with int4_offload.', 'Take int4_double.');
  }
  if (mode === 'infer' && offload === 'optimizer') {
    throw badUsage(
      'There is no optimizer in inference to offload.',
      `Leave ${name('offload')} out.`,
    );
  }
  if (offload === 'weights' && quantization !== 'int4_offload') {
    throw badUsage(
      `Weights are offloaded with ${example('quantization', 'int4_offload')} only.`,
      `Take that, with ${example('mode', 'infer')}.`,
    );
  }
  if (mode === 'infer' && facts.gpus > 1) {
    throw badUsage(
      'ZeRO is for training; in inference each GPU holds the whole model.',
      `Leave ${name('gpus')} out.`,
    );
  }
  if (zero !== undefined && zero > 0 && facts.gpus === 1) {
    throw badUsage(
      'ZeRO shares a job out over several GPUs.',
      `Say how many with ${name('gpus')}.`,
    );
  }
}

function badUsage(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next });
}

/** The one configuration that is left when everything is as it is set; what is not set is as an estimate takes it. */
export function fixedConfiguration(
  wishes: PlanWishes,
  facts: PlanFacts,
  wording: PlanWording,
): Configuration {
  const [configuration] = configurationsToTry(
    {
      ...wishes,
      precision: wishes.precision ?? 'fp32',
      optimizer: wishes.optimizer ?? 'adamw',
      checkpointing: wishes.checkpointing ?? false,
      offload: wishes.offload ?? (wishes.quantization === 'int4_offload' ? 'weights' : 'none'),
      zero: wishes.zero ?? 0,
    },
    { ...facts, transformers: false },
    wording,
  );
  if (configuration === undefined) throw new Error('there is always a configuration to run');
  return configuration;
}

/**
 * The configurations that differ only in what `mayChange` names: for a program that can be told nothing
 * else. What was set stays.
 */
export function configurationsWithin(
  wishes: PlanWishes,
  facts: PlanFacts,
  wording: PlanWording,
): Configuration[] {
  const { mode, mayChange = [] } = wishes;
  const plain = fixedConfiguration(wishes, facts, wording);
  const checkpointing =
    mayChange.includes('checkpointing') &&
    wishes.checkpointing === undefined &&
    mode === 'train' &&
    facts.transformers;
  const precision =
    mayChange.includes('precision') && wishes.precision === undefined && facts.bfloat16;
  const slower = checkpointing ? [plain, { ...plain, checkpointing: true }] : [plain];
  const halved = slower.map(
    (configuration): Configuration => ({
      ...configuration,
      precision: 'bf16',
      concession: 'numerics',
      givesUp: [...configuration.givesUp, 'fp32: all is kept in bf16'],
    }),
  );
  return precision ? [...slower, ...halved] : slower;
}
