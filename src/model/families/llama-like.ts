import type { ConfigFields } from '../config/config-fields.js';
import type { Attention, FeedForward, Head, Stack } from '../model.js';
import type { ParameterList } from '../parameter-list.js';
import type { Experts } from './experts.js';
import {
  addDecoderHead,
  addGatedFeedForward,
  type FamilyParts,
  groupLayers,
  noDropout,
  quotient,
  tokenInput,
} from './family.js';

/** Whether there are biases: always, never, or as a field of the config says. */
export type BiasRule = boolean | 'attention_bias' | 'qkv_bias' | 'mlp_bias';

/** Differences between the families that descend from Llama. */
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

/** How far each layer sees, and its window where that is not everything. */
export interface LayerReach {
  readonly reach: 'full' | 'sliding';
  readonly window?: number;
}

const full: LayerReach = { reach: 'full' };

/**
 * Which layers slide where `layer_types` does not say it: by family, as transformers fills it in.
 * `every`: all layers, once there is a window.
 */
export type SlidingRule =
  | 'never'
  | 'every'
  | 'every-if-used'
  | 'after-max-window-layers'
  | 'even-before-max-window-layers'
  | 'all-but-each-second'
  | 'all-but-each-nth';

type Slides = (layer: number, fields: ConfigFields) => boolean;

const slides: Readonly<Record<SlidingRule, Slides>> = {
  never: () => false,
  every: () => true,
  'every-if-used': (_, fields) => fields.flag('use_sliding_window'),
  'after-max-window-layers': (layer, fields) =>
    fields.flag('use_sliding_window') && layer >= fields.count('max_window_layers'),
  'even-before-max-window-layers': (layer, fields) =>
    fields.flag('use_sliding_window') &&
    layer % 2 === 0 &&
    layer < fields.count('max_window_layers'),
  'all-but-each-second': (layer) => layer % 2 === 0,
  'all-but-each-nth': (layer, fields) => (layer + 1) % fields.size('sliding_window_pattern') !== 0,
};

/** Rules whose families take `layer_types` from the config. */
const listed: ReadonlySet<SlidingRule> = new Set([
  'after-max-window-layers',
  'even-before-max-window-layers',
  'all-but-each-second',
  'all-but-each-nth',
]);

function layerReaches(
  fields: ConfigFields,
  layers: number,
  rule: SlidingRule,
): readonly LayerReach[] {
  const window = rule === 'never' ? 0 : windowOf(fields);
  const types = listed.has(rule) ? fields.texts('layer_types') : undefined;
  if (types !== undefined && types.length !== layers) {
    throw fields.bad('layer_types', `a list of ${types.length} for ${layers} layers`);
  }
  return Array.from({ length: layers }, (_, layer) => {
    const type = types?.[layer];
    if (type !== undefined && type !== 'full_attention' && type !== 'sliding_attention') {
      throw fields.bad(
        'layer_types',
        `a list with "${type.slice(0, 40)}", which is not understood`,
      );
    }
    const sliding = type === undefined ? slides[rule](layer, fields) : type === 'sliding_attention';
    return sliding && window > 0 ? { reach: 'sliding', window } : full;
  });
}

/** A config writes "no window" as null, or as 0. */
function windowOf(fields: ConfigFields): number {
  return fields.has('sliding_window') ? fields.count('sliding_window') : 0;
}
