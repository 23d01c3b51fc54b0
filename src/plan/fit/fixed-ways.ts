import type { PlanFacts, PlanWishes, PlanWording, Way } from './types.js';
import { waysToRun } from './ways.js';

/** The one way that is left when everything is as it is set; what is not set is as an estimate takes it. */
export function wayAsItIs(wishes: PlanWishes, facts: PlanFacts, wording: PlanWording): Way {
  const [way] = waysToRun(
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
  if (way === undefined) throw new Error('there is always a way to run');
  return way;
}

/**
 * The ways to run that differ only in what `mayChange` names: for a program that can be told nothing
 * else. What was set stays.
 */
export function waysWithin(wishes: PlanWishes, facts: PlanFacts, wording: PlanWording): Way[] {
  const { mode, mayChange = [] } = wishes;
  const plain = wayAsItIs(wishes, facts, wording);
  const checkpointing =
    mayChange.includes('checkpointing') &&
    wishes.checkpointing === undefined &&
    mode === 'train' &&
    facts.transformers;
  const precision =
    mayChange.includes('precision') && wishes.precision === undefined && facts.bfloat16;
  const slower = checkpointing ? [plain, { ...plain, checkpointing: true }] : [plain];
  const halved = slower.map(
    (way): Way => ({
      ...way,
      precision: 'bf16',
      concession: 'numerics',
      givesUp: [...way.givesUp, 'fp32: all is kept in bf16'],
    }),
  );
  return precision ? [...slower, ...halved] : slower;
}
