import type { ConfigFields } from '../config/config-fields.js';
import type { ParameterList } from '../parameter-list.js';
import type { Attention, FeedForward, Head, Stack } from '../types.js';
import { addDecoderHead, quotient } from './decoder-heads.js';
import type { Experts } from './experts.js';
import { type FamilyParts, groupLayers, noDropout } from './family.js';
import { layerReaches, type SlidingRule } from './layer-reach.js';
import { addGatedFeedForward, tokenInput } from './plain-parts.js';

/** Whether there are biases: always, never, or as a field of the config says. */
export type BiasRule = boolean | 'attention_bias' | 'qkv_bias' | 'mlp_bias';

/** Where the families that descend from Llama differ. */
export interface LlamaQuirks {
  readonly qkvBias: BiasRule;
  readonly outputBias: BiasRule;
  readonly feedForwardBias: BiasRule;
  /** Query, key and value from one matrix, and the two matrices up as one. */
  readonly fused: boolean;
  readonly queryKeyNorm: boolean;
  /** Norms after attention and feed-forward as well as before them. */
  readonly normsAfter: boolean;
  readonly sliding: SlidingRule;
  readonly activation: 'hidden_act' | 'hidden_activation';
  readonly questionBody?: string;
  readonly experts?: (fields: ConfigFields) => Experts;
}

/** Describes a text model of the family; `gemma3` also uses it for its language part. */
export function describeLlamaLike(
  fields: ConfigFields,
  head: Head,
  quirks: LlamaQuirks,
): FamilyParts {
  const tied = fields.flag('tie_word_embeddings');
  const stack = llamaStack(fields, quirks);
  const vocabulary = fields.size('vocab_size');
  const { body, parameters, outputs } = addDecoderHead(
    fields,
    head,
    { body: 'model', tokenHead: 'score', ...pick(quirks) },
    { hidden: stack.hidden, vocabulary, tied },
  );
  addLlamaParameters(body, fields, quirks);
  return { kind: 'decoder', head, outputs, tied, stacks: [stack], parameters };
}

function pick({ questionBody }: LlamaQuirks): { questionBody?: string } {
  return questionBody === undefined ? {} : { questionBody };
}

interface LlamaSizes {
  readonly hidden: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly inner: number;
}

function sizesOf(fields: ConfigFields): LlamaSizes {
  const hidden = fields.size('hidden_size');
  const heads = fields.size('num_attention_heads');
  return {
    hidden,
    heads,
    layers: fields.layers('num_hidden_layers'),
    kvHeads: fields.optionalSize('num_key_value_heads') ?? heads,
    headDim: fields.optionalSize('head_dim') ?? quotient(fields, hidden, heads),
    inner: fields.size('intermediate_size'),
  };
}

function has(rule: BiasRule, fields: ConfigFields): boolean {
  return typeof rule === 'boolean' ? rule : fields.flag(rule);
}

export function llamaStack(fields: ConfigFields, quirks: LlamaQuirks): Stack {
  const { hidden, layers, heads, kvHeads, headDim, inner } = sizesOf(fields);
  const experts = quirks.experts?.(fields);
  const activation = fields.text(quirks.activation);
  const dense: FeedForward = {
    inner,
    gated: true,
    activation,
    bias: has(quirks.feedForwardBias, fields),
  };
  const reaches = layerReaches(fields, layers, quirks.sliding);
  return {
    role: 'text',
    hidden,
    input: tokenInput(fields, fields.size('vocab_size'), 'rotary'),
    dropout: { ...noDropout, attention: fields.number('attention_dropout') },
    layers: groupLayers(
      reaches.map((reach, index) => {
        const attention: Attention = {
          ...reach,
          heads,
          kvHeads,
          headDim,
          fused: quirks.fused,
          bias: has(quirks.qkvBias, fields),
          queryKeyNorm: quirks.queryKeyNorm,
        };
        const sparse = experts?.isSparse(index) === true;
        return {
          hidden,
          attention,
          feedForward: sparse ? experts.feedForward(activation) : dense,
          parallel: false,
          norm: 'rms',
          norms: quirks.normsAfter ? 4 : 2,
        };
      }),
    ),
  };
}

export function addLlamaParameters(
  body: ParameterList,
  fields: ConfigFields,
  quirks: LlamaQuirks,
): void {
  const { hidden, layers, heads, kvHeads, headDim, inner } = sizesOf(fields);
  body.embedding('embed_tokens', fields.size('vocab_size'), hidden);
  body.norm('norm', hidden, 'rms');
  const layer = body.scope('layers.*', layers);
  const qkvBias = has(quirks.qkvBias, fields);
  if (quirks.fused) {
    layer.linear('self_attn.qkv_proj', hidden, (heads + 2 * kvHeads) * headDim, qkvBias);
  } else {
    layer.linear('self_attn.q_proj', hidden, heads * headDim, qkvBias);
    layer.linear('self_attn.k_proj', hidden, kvHeads * headDim, qkvBias);
    layer.linear('self_attn.v_proj', hidden, kvHeads * headDim, qkvBias);
  }
  layer.linear('self_attn.o_proj', heads * headDim, hidden, has(quirks.outputBias, fields));
  if (quirks.queryKeyNorm) {
    layer.norm('self_attn.q_norm', headDim, 'rms');
    layer.norm('self_attn.k_norm', headDim, 'rms');
  }
  layer.norm('input_layernorm', hidden, 'rms');
  layer.norm('post_attention_layernorm', hidden, 'rms');
  if (quirks.normsAfter) {
    layer.norm('pre_feedforward_layernorm', hidden, 'rms');
    layer.norm('post_feedforward_layernorm', hidden, 'rms');
  }
  const experts = quirks.experts?.(fields);
  const sparse = Array.from({ length: layers }, (_, index) => experts?.isSparse(index) === true);
  const sparseLayers = sparse.filter(Boolean).length;
  experts?.addParameters(body.scope('layers.*.mlp', sparseLayers), hidden);
  const mlp = body.scope('layers.*.mlp', layers - sparseLayers);
  addGatedFeedForward(mlp, hidden, inner, has(quirks.feedForwardBias, fields), quirks.fused);
}
