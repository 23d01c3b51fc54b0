import type { ConfigFields } from '../config/config-fields.js';
import type { FeedForward } from '../model.js';
import type { ParameterList } from '../parameter-list.js';
import { addGatedFeedForward } from './family.js';

/** Layers whose feed-forward is a choice among experts. */
export interface Experts {
  isSparse(layer: number): boolean;
  feedForward(activation: string): FeedForward;
  addParameters(mlp: ParameterList, hidden: number): void;
}

interface ExpertSizes {
  readonly count: number;
  readonly active: number;
  readonly inner: number;
  readonly sharedInner: number;
  /** Name of the part every token passes. */
  readonly sharedName?: string;
  /** Whether a learned gate weighs that part. */
  readonly sharedGate?: boolean;
  readonly sharedBias?: boolean;
}

export function expertsOf(sizes: ExpertSizes, isSparse: (layer: number) => boolean): Experts {
  const { count, active, inner, sharedInner } = sizes;
  return {
    isSparse,
    feedForward: (activation) => ({
      inner,
      gated: true,
      activation,
      bias: false,
      experts: { count, active, sharedInner },
    }),
    addParameters(mlp, hidden) {
      mlp.tensor('gate.weight', [count, hidden]);
      mlp.tensor('experts.gate_up_proj', [count, 2 * inner, hidden]);
      mlp.tensor('experts.down_proj', [count, hidden, inner]);
      if (sizes.sharedName === undefined) return;
      const shared = mlp.scope(sizes.sharedName);
      addGatedFeedForward(shared, hidden, sharedInner, sizes.sharedBias === true);
      if (sizes.sharedGate === true) mlp.linear('shared_expert_gate', hidden, 1, false);
    },
  };
}

export function mixtralExperts(fields: ConfigFields): Experts {
  return expertsOf(
    {
      count: fields.experts('num_local_experts'),
      active: fields.size('num_experts_per_tok'),
      inner: fields.size('intermediate_size'),
      sharedInner: 0,
    },
    () => true,
  );
}

/** Qwen leaves out the layers it lists, and takes each nth of the others. */
function qwenIsSparse(fields: ConfigFields, count: number): (layer: number) => boolean {
  const dense = new Set(fields.indexes('mlp_only_layers'));
  const step = fields.size('decoder_sparse_step');
  return (layer) => count > 0 && !dense.has(layer) && (layer + 1) % step === 0;
}

export function qwen2Experts(fields: ConfigFields): Experts {
  const count = fields.experts('num_experts');
  return expertsOf(
    {
      count,
      active: fields.size('num_experts_per_tok'),
      inner: fields.size('moe_intermediate_size'),
      sharedInner: fields.size('shared_expert_intermediate_size'),
      sharedName: 'shared_expert',
      sharedGate: true,
    },
    qwenIsSparse(fields, count),
  );
}

export function qwen3Experts(fields: ConfigFields): Experts {
  const count = fields.experts('num_experts');
  return expertsOf(
    {
      count,
      active: fields.size('num_experts_per_tok'),
      inner: fields.size('moe_intermediate_size'),
      sharedInner: 0,
    },
    qwenIsSparse(fields, count),
  );
}
