import { configurationsToTry } from './configurations.js';
import type { Configuration, PlanFacts, PlanWishes, PlanWording } from './types.js';

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
